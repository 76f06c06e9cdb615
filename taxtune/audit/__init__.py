"""How well the mapper places answers here, as a person or a chat model judges a sample of its placements."""
