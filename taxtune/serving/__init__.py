"""A saved classifier behind HTTP: as a model of MLflow's (`pyfunc.py`), and with a page for the browser (`app.py`)."""
