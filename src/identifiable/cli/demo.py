"""`identifiable demo`."""

from __future__ import annotations

import argparse
from typing import Any

from identifiable.cli.options import add_result_options, command
from identifiable.cli.output import EXIT_FINE, check_outputs, check_page, deliver, progress_bar

PAGE = "identifiable-demo.html"


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "demo",
        "Compare three autoencoders of handwritten digits that ship with the package.",
        "identifiable demo",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of every random choice (default 0)")
    add_result_options(parser)
    parser.set_defaults(run=_run)


def _run(typed: argparse.Namespace) -> int:
    from importlib.resources import as_file, files

    from identifiable.api import compare

    typed.report = typed.report or PAGE
    with as_file(files("identifiable") / "data" / "digits_autoencoders.npz") as data:
        paths = [f"{data}:{run}" for run in ("run1", "run2", "run3")]
        check_outputs([typed.json, typed.report], paths)
        check_page(typed.report)
        with progress_bar(typed) as bar:
            result = compare(*paths, ids="ids", seed=typed.seed, progress=bar, command="identifiable demo")
    deliver(result, typed, always_path=True)
    return EXIT_FINE
