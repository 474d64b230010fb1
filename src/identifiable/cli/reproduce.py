"""`identifiable reproduce NAME --scale smoke|small|paper`, and `identifiable reproduce --list`."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from identifiable._checks import OutputError, UsageError
from identifiable.cli.conditions import Condition
from identifiable.cli.options import add_result_options, command, recorded
from identifiable.cli.output import EXIT_FINE, check_outputs, check_page, deliver, exit_code, progress_bar, say
from identifiable.cli.reproduction_fields import reproduction_fields, table2_fields, table3_fields
from identifiable.intake import default_provenance

if TYPE_CHECKING:
    from identifiable.experiments import Experiment

SCALE = "smoke"
DEFAULTS: dict[str, Any] = {"scale": SCALE, "data": None, "seed": 0, "set": None}  # a checkpoint changes no figure
_WHOLE = re.compile(r"[-+]?\d+")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "reproduce",
        "run an experiment of the paper again, and show our figures beside the published ones",
        "identifiable reproduce fig2 --scale smoke --report fig2.html",
    )
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help="which experiment; --list tells what there is")
    add("--list", action="store_true", help="the experiments, what each is and what data it needs")
    add("--scale", default=SCALE, metavar="smoke|small|paper", help=f"how much of it (default {SCALE})")
    add("--data", metavar="PATH", help="mnist.npz, train-images-idx3-ubyte(.gz), or a folder of data sets; see --list")
    add("--seed", type=int, default=0, help="seed of everything (default 0)")
    add(
        "--checkpoint",
        metavar="FOLDER",
        help="keep the state of training here, and go on from it if there is one; changes no figure",
    )
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="change a setting, for example max_epochs=50, leaks=0.1,0.5,1 or reference_leak=0.5; may repeat",
    )
    add(
        "--fail-if",
        action="append",
        default=[],
        metavar="COND",
        help="exit 1 if it holds, for example 'spearman < 0.5', 'spearman_low < 0', 'maximum.r2 < 0.3' or 'removed > 15'; of "
        "table2 'lift < 0.1' or 'lift_low < 0', of table3 'gain_low < 0'; may repeat",
    )
    add_result_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from identifiable.experiments import EXPERIMENTS, reproduce

    if options.list:
        if options.name is not None:
            raise UsageError(f"--list shows every experiment and takes no NAME; leave {options.name!r} out.")
        say(_listed(EXPERIMENTS), end="")
        return EXIT_FINE
    if options.name is None:
        raise UsageError(f"name an experiment: {', '.join(EXPERIMENTS)}; --list tells what they are.")
    known = {"table2": table2_fields, "table3": table3_fields}.get(options.name, reproduction_fields)()
    conditions = [Condition.parse(text, known) for text in options.fail_if]
    changes = _changes(options.set)
    check_outputs([options.json, options.report], filter(None, [options.data]))
    _check_folder(options.checkpoint)
    check_page(options.report)
    options.paths = [options.name]
    with redirect_stdout(sys.stderr), progress_bar(options) as bar:  # stdout is for the result
        found = reproduce(
            options.name,
            scale=options.scale,
            data=options.data,
            seed=options.seed,
            checkpoint=options.checkpoint,
            changes=changes,
            progress=bar,
            say=None if options.quiet else _print if bar is None else bar.say,
            provenance=default_provenance(options.seed, recorded("reproduce", options, DEFAULTS)),
        )
    deliver(found, options)  # first: a condition that cannot be decided must not cost what took hours
    failed = [sentence for condition in conditions for sentence in condition.failures(found)]
    return exit_code(failed)


def _print(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _check_folder(path: str | None) -> None:
    """Say that checkpoints cannot be kept there before the work."""
    if path is not None and Path(path).exists() and not Path(path).is_dir():
        raise OutputError(f"{path}: expected a folder for checkpoints, found a file; choose another name.")


def _listed(experiments: Mapping[str, Experiment]) -> str:
    from identifiable.report.render.terminal import wrapped

    widest = max(map(len, experiments), default=0)
    blank = " " * (widest + 2)
    lines: list[str] = []
    for name, found in experiments.items():
        lines += [
            wrapped(f"{name:<{widest}}  {found.title} ({found.figures})", blank),
            *(wrapped(blank + text, blank) for text in (f"data: {found.data}", f"scales: {', '.join(found.scales)}")),
        ]
    return "\n".join(lines) + "\n"


def _changes(words: Iterable[str]) -> dict[str, Any]:
    """What `--set` asks for; whether there is such a setting is for the experiment to say."""
    changes: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        name = name.strip().replace("-", "_")
        if not (equals and name and all(part.strip() for part in text.removesuffix(",").split(","))):
            raise UsageError(f"--set {word!r}: expected NAME=VALUE, for example max_epochs=50.")
        if name in changes:
            raise UsageError(f"--set {word!r}: {name} is set twice; leave one out.")
        changes[name] = _value(text.strip())
    return changes


def _value(text: str) -> Any:
    """A whole number, a number, a word, or with commas a list of them (`0.5,` is a list of one)."""
    if "," in text:
        return tuple(_value(part.strip()) for part in text.removesuffix(",").split(","))
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text
