"""Auditing a mapper: placements are drawn and judged by a person or a chat model; how many of all are right follows."""
