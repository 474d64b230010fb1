"""`identifiable demo`."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from identifiable.cli.options import add_result_options, command
from identifiable.cli.output import EXIT_FINE, check_outputs, check_page, deliver, progress_bar
from identifiable.results import Comparison, Demo, RowPicture

PAGE = "identifiable-demo.html"
PICTURES = 10


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "demo",
        "Compare three autoencoders of handwritten digits that ship with the package.",
        "identifiable demo",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of every random choice (default 0)")
    add_result_options(parser)
    parser.set_defaults(run=_run)


def _run(typed: argparse.Namespace) -> int:
    from importlib.resources import as_file, files

    import numpy as np

    from identifiable.api import compare

    typed.report = typed.report or PAGE
    with as_file(files("identifiable") / "data" / "digits_autoencoders.npz") as data:
        paths = [f"{data}:{run}" for run in ("run1", "run2", "run3")]
        check_outputs([typed.json, typed.report], paths)
        check_page(typed.report)
        with np.load(data) as arrays:
            labels = arrays["labels"]
        with progress_bar(typed) as bar:
            result = compare(
                *paths,
                ids="ids",
                labels=labels,
                seed=typed.seed,
                progress=bar,
                command="identifiable demo",
            )
    result = replace(result, demo=_demo(result))
    deliver(result, typed, always_path=True)
    return EXIT_FINE


def _demo(result: Comparison) -> Demo:
    """The digits that moved most between the two runs that agree least."""
    import base64

    import numpy as np
    from sklearn.datasets import load_digits

    from identifiable.experiments.traversing import png

    pixels, digits = load_digits(return_X_y=True)
    pair = result.weakest
    ids, errors = result.row_errors(pair.fitting_group, result.pairs.index(pair))
    pictures = []
    for row in np.argsort(-errors, kind="stable")[:PICTURES]:
        grey = (255 - 255 / 16 * pixels[row]).astype(np.uint8).reshape(8, 8, 1)
        drawn = base64.b64encode(png(np.repeat(grey, 3, axis=2))).decode()
        pictures.append(RowPicture(str(ids[row]), str(digits[row]), round(float(errors[row]), 4), drawn))
    return Demo(pair.source, pair.target, pair.fitting_group, tuple(pictures))
