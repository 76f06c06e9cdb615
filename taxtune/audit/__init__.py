"""How well the mapper places answers here: a sample of its placements, judged and summed up."""
