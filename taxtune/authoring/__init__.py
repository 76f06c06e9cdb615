"""Making trees, and making them better: names for the nodes of a tree, and a tree for labels that have none."""
