"""What a run shows to people: figures, the HTML report, tables and progress in the terminal.

Each module is imported by itself, since `taxtune --help` needs one of them and none of what the others load.
"""
