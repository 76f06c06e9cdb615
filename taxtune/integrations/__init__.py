"""Others on taxtune's scores: `gepa` for gepa.optimize, `dspy` for DSPy's metrics, `mlflow` for mlflow.genai.evaluate."""
