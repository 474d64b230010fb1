"""The shell's door: parse, one API call, one save or render, print a table, pick an exit code.

0 fine, 1 a --fail-if condition holds, 2 wrong usage, 3 bad or unreadable data.
"""

from identifiable.cli.main import main

__all__ = ["main"]
