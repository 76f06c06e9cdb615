"""What a run shows to people: figures, the HTML report, tables and progress in the terminal.

The modules are imported by name; nothing heavy is loaded before it is needed.
"""
