"""The scores of a file of answers: of their nodes on the label tree, and of their texts."""
