"""The figures of the studies: one module a figure."""
