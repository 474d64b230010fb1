"""`identifiable demo`."""

from __future__ import annotations

import argparse
from typing import Any

from identifiable.cli.compare import compared
from identifiable.cli.options import add_result_options, command
from identifiable.cli.output import EXIT_FINE, deliver

PAGE = "identifiable-demo.html"


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "demo",
        "compare three autoencoders of handwritten digits that ship with the package",
        "identifiable demo",
    )
    parser.add_argument("--seed", type=int, default=0)
    add_result_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from importlib.resources import as_file, files

    options.report = options.report or PAGE
    with as_file(files("identifiable") / "data" / "digits_autoencoders.npz") as data:
        paths = [f"{data}:{run}" for run in ("run1", "run2", "run3")]
        result = compared(options, paths, "identifiable demo", ids="ids")
    deliver(result, options, always_path=True)
    return EXIT_FINE
