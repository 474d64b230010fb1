"""`identifiable simulate cells|sources -o OUT`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from identifiable._checks import UsageError
from identifiable.cli.options import Parser, check_running_options, command, listed
from identifiable.cli.output import EXIT_FINE, progress_bar, say

if TYPE_CHECKING:
    from identifiable.api.simulating import Simulation

SOURCE_ROWS, SOURCE_COLUMNS, SOURCE_DECADES = 10_000, 16, 4.0


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "simulate",
        "data with a known answer, and the answer beside it",
        "identifiable simulate cells -o cells.parquet --layout fixed",
    )
    worlds = parser.add_subparsers(metavar="WORLD", parser_class=Parser, required=True)
    _add_cells(worlds)
    _add_sources(worlds)


def _add_cells(worlds: Any) -> None:
    parser = command(
        worlds,
        "cells",
        "a screen of cells on plates: embeddings in which biology and technique are mixed",
        "identifiable simulate cells -o cells.parquet --preset small --set gaussian_fraction=0.5 --set delta=0.8",
    )
    add = parser.add_argument
    add("-o", "--output", required=True, metavar="OUT", help=".parquet .csv .h5ad, or a folder (X.npy, metadata.csv)")
    add(
        "--preset",
        default="small",
        help="tiny (500 wells x 24), small (6k x 48), medium (40k x 128), rxrx3core (222k x 384)",
    )
    add("--layout", metavar="random|fixed|P", help="addresses: random, one for each treatment, or a share P of those")
    add("--patches", type=int, metavar="M", help="patches of each well, for --pooled or --keep-patches")
    add("--pooled", action="store_true", help="a row is the mean over the patches of a well, not one patch")
    add("--keep-patches", action="store_true", help="write all patches too, well after well")
    add("--no-biology", action="store_true", help="no treatment has any effect")
    add(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"any other setting; may repeat: {', '.join(_settings())}",
    )
    _add_common(parser)
    parser.set_defaults(run=_run_cells)


def _add_sources(worlds: Any) -> None:
    from identifiable.worlds import KINDS

    parser = command(
        worlds,
        "sources",
        "independent sources of known laws, mixed by a known map",
        "identifiable simulate sources -o X.npy --rows 20000 --columns 8 --kinds super,sub",
    )
    add = parser.add_argument
    add("-o", "--output", required=True, metavar="OUT", help=".npy, or a folder")
    add("--rows", type=int, default=SOURCE_ROWS, metavar="N", help=f"(default {SOURCE_ROWS})")
    add("--columns", type=int, default=SOURCE_COLUMNS, metavar="D", help=f"(default {SOURCE_COLUMNS})")
    add(
        "--kinds",
        metavar="LIST",
        help=f"laws of the sources, in turn: {', '.join(KINDS)} (default: 65%% super, 15%% sub, 20%% near_gaussian)",
    )
    add("--nonlinearity", type=float, default=0.0, help="how much sources bend each other before mixing (default 0)")
    add("--decades", type=float, default=SOURCE_DECADES, help="of variance between first and last axis (default 4)")
    add("--workers", type=int, metavar="N", help="threads (default: all cores); changes no figure")
    _add_common(parser)
    parser.set_defaults(run=_run_sources)


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, help="seed of everything (default 0)")
    parser.add_argument("--quiet", action="store_true", help="no progress, print nothing")


def _run_cells(options: argparse.Namespace) -> int:
    from identifiable.api.simulating import simulate_cells

    knobs = _knobs(options)
    if options.keep_patches and options.patches is None:
        raise UsageError("--keep-patches: expected --patches M, how many patches a well has.")
    if options.patches is not None and not (options.keep_patches or options.pooled):
        raise UsageError(
            f"--patches {options.patches}: expected --pooled or --keep-patches with it; else rows are the same."
        )
    with progress_bar(options) as bar:
        made = simulate_cells(
            options.output,
            options.preset,
            seed=options.seed,
            keep_patches=options.keep_patches,
            progress=bar,
            **knobs,
        )
    return _said(made, options)


def _run_sources(options: argparse.Namespace) -> int:
    from identifiable.api.simulating import simulate_sources
    from identifiable.worlds import KINDS

    check_running_options(options)
    kinds: Any = None
    if options.kinds is not None:
        chosen = listed(options.kinds, KINDS, "--kinds")
        kinds = [chosen[k % len(chosen)] for k in range(max(options.columns, 0))]
    made = simulate_sources(
        options.output,
        options.rows,
        options.columns,
        seed=options.seed,
        kinds=kinds,
        nonlinearity=options.nonlinearity,
        decades=options.decades,
        workers=options.workers,
    )
    return _said(made, options)


def _said(made: Simulation, options: argparse.Namespace) -> int:
    if not options.quiet:
        say(f"{made.n} x {made.d}: {', '.join(str(path) for path in made.files)}")
    return EXIT_FINE


def _settings() -> list[str]:
    """Those without an option of their own."""
    from identifiable.worlds import CellSettings

    own = {"layout", "patches", "pooled", "no_biology"}
    return [field.name for field in fields(CellSettings) if field.name not in own]


def _knobs(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that differ from the preset's."""
    from identifiable.worlds import CELL_PRESETS

    knobs: dict[str, Any] = {}
    for name in ("pooled", "no_biology"):
        if getattr(options, name):
            knobs[name] = True
    if options.patches is not None:
        knobs["patches"] = options.patches
    if options.layout is not None:
        knobs["layout"] = _layout(options.layout)
    sample = CELL_PRESETS["small"]
    for text in options.set:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or name not in _settings():
            raise UsageError(f"--set {text!r}: expected NAME=VALUE with one of {', '.join(_settings())}.")
        if name in knobs:
            raise UsageError(f"--set {text!r}: {name} is given twice; give it once.")
        knobs[name] = _value(text, value.strip(), type(getattr(sample, name)))
    return knobs


def _value(text: str, value: str, kind: type) -> Any:
    read, what = READERS[kind]
    try:
        return read(value)
    except ValueError:
        raise UsageError(f"--set {text!r}: expected {what}.") from None


def _whole_numbers(value: str) -> tuple[int, ...]:
    return tuple(int(part) for part in value.split(",") if part.strip())


def _layout(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


READERS: dict[type, tuple[Callable[[str], Any], str]] = {
    int: (int, "a whole number"),
    float: (float, "a number"),
    tuple: (_whole_numbers, "whole numbers with commas"),
}
