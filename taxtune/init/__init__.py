"""What `taxtune init` finds in images, labels and a tree, and the recipe that it writes."""
