"""Other optimisers on taxtune's scores: `gepa` for gepa.optimize, `dspy` for DSPy's metrics and examples."""
