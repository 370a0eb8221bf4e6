"""The `gradate` command: one module per verb, nothing heavy imported before a verb needs it."""

from gradate.cli.app import main

__all__ = ["main"]
