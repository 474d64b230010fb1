"""`identifiable resolve X [Y ...] -o basis.safetensors`."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any, Literal

from identifiable._checks import UsageError
from identifiable.cli.conditions import Condition
from identifiable.cli.options import (
    TABLE_FORMATS,
    add_ids_option,
    add_result_options,
    add_running_options,
    check_running_options,
    command,
    one_or_each,
    recorded,
)
from identifiable.cli.output import check_outputs, check_page, check_suffix, deliver, exit_code, progress_bar
from identifiable.cli.resolution_fields import resolution_fields
from identifiable.ica.canonical import ORDERS
from identifiable.ica.contrasts import CONTRASTS
from identifiable.ica.fitting import PRECISIONS, Settings
from identifiable.ica.joint import SHARED_ABOVE
from identifiable.intake import default_provenance, distinct
from identifiable.representation import Representation

SETTINGS = asdict(Settings())
DEFAULTS: dict[str, Any] = {
    "ids": None,
    "group_by": None,
    "shared_above": None,
    **SETTINGS,
}  # what a recorded command repeats where it differs
NAME = "{name}"  # in -o: the place of each table's name
SUFFIX = ".safetensors"


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "resolve",
        "find components that mean the same thing in every run: whitening and ICA, saved as a basis",
        "identifiable resolve run1.npy -o basis.safetensors --report components.html",
    )
    add = parser.add_argument
    d = Settings()
    add("paths", nargs="+", metavar="X", help=f"a table: {TABLE_FORMATS}; of several, the shared components are found")
    add("-o", "--output", metavar="PATH", help=f"basis to write ({SUFFIX}); of several tables with {NAME} in it")
    add(
        "--rank",
        type=_auto_or_number,
        default=d.rank,
        metavar="auto|K",
        help="directions to keep (default auto: all but constant or collinear directions)",
    )
    add(
        "--restarts",
        type=_auto_or_number,
        default=d.restarts,
        metavar="auto|R",
        help="starts of the solver, the best is kept (default: as many as cost little, more where they disagree)",
    )
    add(
        "--stability",
        type=int,
        default=d.stability,
        metavar="N",
        help=f"refits on halves of the rows; they come in pairs: an even number, 0 for none (default {d.stability})",
    )
    add("--contrast", choices=tuple(CONTRASTS), default=d.contrast, help=f"(default {d.contrast})")
    add("--order", choices=ORDERS, default=d.order, help=f"of the components (default {d.order})")
    add("--tol", type=float, default=d.tol, metavar="T", help=f"gain in contrast too small to go on for ({d.tol:g})")
    add("--precision", choices=PRECISIONS, default=d.precision, help=f"of the products (default {d.precision})")
    add_ids_option(parser)
    add("--group-by", metavar="FILE:COLUMN", help="keep rows with one label together in the refits")
    add(
        "--shared-above",
        type=float,
        metavar="R",
        help=f"of several tables: |correlation| from which on a component counts as shared (default {SHARED_ABOVE})",
    )
    add("--seed", type=int, default=d.seed, help="seed of starts, refits and row choices (default 0)")
    add(
        "--fail-if",
        action="append",
        default=[],
        metavar="COND",
        help="exit 1 if it holds, for example 'identifiable < 20' or, of several tables, 'shared < 10'; may repeat",
    )
    add_running_options(parser)
    add_result_options(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from identifiable.api import resolve
    from identifiable.api.opening import open_sources

    fields = resolution_fields(joint=len(options.paths) > 1, refits=options.stability)
    conditions = [Condition.parse(text, fields) for text in options.fail_if]
    settings = {name: getattr(options, name) for name in SETTINGS}
    Settings(**settings)  # wrong ones are refused before a file is opened
    if options.shared_above is not None:
        settings["shared_above"] = options.shared_above
    check_running_options(options)
    _check_pattern(options.output, len(options.paths))
    inputs = [*options.paths, *(options.ids or []), *filter(None, [options.group_by])]
    outputs = [options.json, options.report]
    check_outputs([*outputs, None if NAME in (options.output or "") else options.output], inputs)
    check_page(options.report)

    ids = one_or_each(options.ids)
    tables = open_sources(options.paths, ids, options.blocks)
    bases = _bases(options.output, tables)
    check_outputs([*outputs, *bases], inputs)
    with progress_bar(options) as bar:
        found = resolve(
            *tables,
            ids=ids,
            group_by=options.group_by,
            workers=options.workers,
            scheduler=options.scheduler,
            progress=bar,
            provenance=default_provenance(options.seed, recorded("resolve", options, DEFAULTS)),
            **settings,
        )
    # Before anything is written: a gate that cannot decide is wrong usage, which leaves no output.
    failed = [sentence for condition in conditions for sentence in condition.failures(found.result)]
    models = getattr(found, "models", (found,))[: len(bases)]  # without -o: none
    save = {path: partial(_save, model, found.result) for path, model in zip(bases, models, strict=True)}
    deliver(found.result, options, save=save)
    return exit_code(failed)


def _save(model: Any, whole: Any, path: str) -> None:
    """Write the basis of one model, with the command that made it."""
    from identifiable.api import save_basis

    save_basis(path, replace(model, result=replace(model.result, provenance=whole.provenance)))


def _check_pattern(pattern: str | None, n_tables: int) -> None:
    if pattern is None:
        return
    check_suffix(pattern, (SUFFIX,), "a basis")
    if n_tables > 1 and NAME not in pattern:
        raise UsageError(
            f"-o {pattern}: {n_tables} tables give {n_tables} bases; write {NAME} where the name of each goes, "
            f"for example -o 'basis-{NAME}{SUFFIX}'."
        )


def _bases(pattern: str | None, tables: Sequence[Representation]) -> list[str]:
    """The path of every basis; what cannot be in the name of a file becomes a hyphen."""
    if pattern is None:
        return []
    names = [re.sub(r"[^\w.+-]+", "-", table.name).strip("-") for table in distinct(tables)]
    return [pattern.replace(NAME, name) for name in names]


def _auto_or_number(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected auto or a whole number, got {text!r}") from None
