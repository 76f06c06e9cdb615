"""`python -m taxtune`: the command line."""

from taxtune.cli import start

start()
