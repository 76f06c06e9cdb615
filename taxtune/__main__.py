"""`python -m taxtune`: the command line."""

from taxtune.cli import main

main()
