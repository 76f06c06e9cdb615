"""taxtune's scores elsewhere: `gepa` for gepa.optimize, `dspy` for DSPy."""
