"""`identifiable reproduce NAME --scale smoke|small|paper`, and `identifiable reproduce --list`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from identifiable._checks import OutputError, UsageError
from identifiable.cli.measuring import Command, Job, run
from identifiable.cli.output import EXIT_FINE, prints_aside, say
from identifiable.options import ReproduceOptions
from identifiable.results import Mechanistic, Reproduction, RoederFigure, Table1, Table2, Table3

if TYPE_CHECKING:
    from identifiable.experiments import Experiment

_WHOLE = re.compile(r"[-+]?\d+")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


def add_to(commands: Any) -> None:
    COMMAND.add_to(commands)
    commands.choices[COMMAND.name].set_defaults(run=_run)


def _run(typed: argparse.Namespace) -> int:
    from identifiable.experiments import EXPERIMENTS

    if typed.list:
        if typed.name is not None:
            raise UsageError(f"--list shows every experiment and takes no NAME; leave {typed.name!r} out.")
        say(_listed(EXPERIMENTS), end="")
        return EXIT_FINE
    if typed.name is None:
        raise UsageError(f"name an experiment: {', '.join(EXPERIMENTS)}; --list tells what they are.")
    return run(COMMAND, typed)


def _call(job: Job) -> Any:
    from identifiable.experiments import reproduce

    bar = job.options.progress
    told = None if bar is None else bar.say
    with prints_aside():
        return reproduce(job.paths[0], **vars(replace(job.options, say=told, changes=_changes(_listed_changes(job)))))


def _kind(name: str) -> type:
    if name.startswith("roeder-"):
        return RoederFigure
    return {"table1": Table1, "table2": Table2, "table3": Table3, "mechanistic": Mechanistic}.get(name, Reproduction)


def _listed_changes(job: Job) -> list[str]:
    given = job.options.changes
    return [given] if isinstance(given, str) else list(given)


def _check(job: Job) -> None:
    """Say what cannot work before the work."""
    _changes(_listed_changes(job))
    kept = job.options.checkpoint
    if kept is not None and Path(kept).exists() and not Path(kept).is_dir():
        raise OutputError(f"{kept}: expected a folder for checkpoints, found a file; choose another name.")


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


def _list_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--list", action="store_true", help="the experiments, what each is and what data it needs")


COMMAND = Command(
    name="reproduce",
    text="Run an experiment of the paper again, and show our numbers beside the published ones.",
    example="identifiable reproduce fig2 --scale smoke --report fig2.html",
    options=ReproduceOptions,
    tables={"name": {"nargs": "?", "metavar": "NAME", "help": "which experiment; --list shows what there is"}},
    call=_call,
    result=lambda job: _kind(job.paths[0]),
    gate="'spearman < 0.5', 'spearman_low < 0', 'maximum.r2 < 0.3' or 'removed > 15'; with table1 "
    "'lines.found_held_out != agrees', with table2 'lift_low < 0', with table3 'gain_low < 0', with mechanistic 'right < 0.9', "
    "with roeder-fig1 to roeder-fig4 'claims.paper.does_not > 0'",
    more=_list_option,
    check=_check,
    inputs=lambda job: [job.options.data],
    gate_last=True,
)
OPTIONS = {COMMAND.name: COMMAND.options}
