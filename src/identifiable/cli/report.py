"""`identifiable report RESULT.json -o page.html`."""

from __future__ import annotations

import argparse
from typing import Any

from identifiable._checks import DataError, IdentifiableError
from identifiable.cli.options import command
from identifiable.cli.output import EXIT_FINE, check_outputs, check_page, page, say


def add_to(commands: Any) -> None:
    parser = command(
        commands, "report", "Draw a page again from a saved result.", "identifiable report result.json -o page.html"
    )
    parser.add_argument("result", metavar="RESULT.json")
    parser.add_argument(
        "-o", "--output", required=True, metavar="PATH", help="page to write (.html, or .md for Markdown)"
    )
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from identifiable.results import write_text

    check_outputs([options.output], [options.result])
    if options.output != "-":
        check_page(options.output)
    text = _drawn(options.result, options.output)
    if options.output == "-":
        say(text, end="")
    else:
        write_text(options.output, text)
        say(options.output)
    return EXIT_FINE


def _drawn(path: str, output: str) -> str:
    """The page of a saved result. Every value is what its field may hold, but a file may have lists that do not fit each other."""
    from identifiable.api import load

    result = load(path)
    try:
        return page(result, output)
    except (IdentifiableError, MemoryError):
        raise
    except Exception as error:
        raise DataError(
            f"{path}: no page can be drawn, because parts of the result do not fit each other "
            f"({type(error).__name__}: {error}); write it again with this version."
        ) from error
