"""Trees for labels that have none, and further names for the nodes of a tree."""
