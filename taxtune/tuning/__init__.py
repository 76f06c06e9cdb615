"""The tuning loop: templates, proposers, objectives, history, evaluation. Start with `loop.py`."""
