"""Which encoder places text best at which level of a tree; for choosing a recipe's mapper."""
