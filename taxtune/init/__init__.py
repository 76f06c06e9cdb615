"""What `taxtune init` finds in images, labels, a tree and the hardware, and the recipe that it writes from that."""
