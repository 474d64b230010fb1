"""The shell's door: parse, one API call, one save or render, print a table, pick an exit code.

0 fine, 1 a --fail-if condition holds, 2 wrong usage, 3 bad or unreadable data, 130 Ctrl-C, 143 SIGTERM.
"""

from __future__ import annotations

from identifiable._stopping import end_on_signals

TYPE_CHECKING = False  # not from typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Without `arguments` the process is this command: they are those of the shell, and its signals are ours.
    """
    if arguments is None:
        end_on_signals()  # before the imports, which take longest
    from identifiable.cli.commands import run

    return run(arguments)
