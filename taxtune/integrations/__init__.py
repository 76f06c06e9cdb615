"""taxtune's scores elsewhere: `gepa` for gepa.optimize, `dspy` for DSPy, `mlflow` for mlflow.genai.evaluate."""
