"""`identifiable report RESULT.json -o page.html`."""

from __future__ import annotations

import argparse
from typing import Any

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
    from identifiable.api import load
    from identifiable.results import write_text

    check_outputs([options.output], [options.result])
    check_page(options.output)
    text = page(load(options.result), options.output)
    if options.output == "-":
        say(text, end="")
    else:
        write_text(options.output, text)
        say(options.output)
    return EXIT_FINE
