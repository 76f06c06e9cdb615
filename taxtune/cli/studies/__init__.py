"""The commands of the studies that are not made from their settings yet."""
