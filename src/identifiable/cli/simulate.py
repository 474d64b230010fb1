"""`identifiable simulate cells|sources -o OUT`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from identifiable._checks import UsageError
from identifiable.cli.options import Parser, add_options, command, given
from identifiable.cli.output import EXIT_FINE, progress_bar, say
from identifiable.options import CellsOptions, SourcesOptions

if TYPE_CHECKING:
    from identifiable.api.simulating import Simulation

OPTIONS = {"simulate cells": CellsOptions, "simulate sources": SourcesOptions}


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "simulate",
        "Data with a known answer, and the answer beside it.",
        "identifiable simulate cells -o cells.parquet --layout fixed",
    )
    worlds = parser.add_subparsers(metavar="WORLD", parser_class=Parser, required=True)
    _add_cells(worlds)
    _add_sources(worlds)


def _add_cells(worlds: Any) -> None:
    parser = command(
        worlds,
        "cells",
        "A screen of cells on plates: embeddings in which biology and technique are mixed.",
        "identifiable simulate cells -o cells.parquet --preset small --set gaussian_fraction=0.5 --set delta=0.8",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="OUT", help=".parquet .csv .h5ad, or a folder (X.npy, metadata.csv)"
    )
    add_options(parser, CellsOptions)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"any other setting; may repeat: {', '.join(_settings())}",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress, print nothing")
    parser.set_defaults(run=_run_cells)


def _add_sources(worlds: Any) -> None:
    parser = command(
        worlds,
        "sources",
        "Independent sources of known laws, mixed by a known map.",
        "identifiable simulate sources -o X.npy --rows 20000 --columns 8 --kinds super,sub",
    )
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help=".npy, or a folder")
    add_options(parser, SourcesOptions)
    parser.add_argument("--quiet", action="store_true", help="no progress, print nothing")
    parser.set_defaults(run=_run_sources)


def _run_cells(typed: argparse.Namespace) -> int:
    from identifiable.api.simulating import simulate_cells

    options = given(CellsOptions, typed)
    knobs = _knobs(options, typed.set)
    if options.keep_patches and options.patches is None:
        raise UsageError("--keep-patches: expected --patches M, how many patches a well has.")
    if options.patches is not None and not (options.keep_patches or options.pooled):
        raise UsageError(
            f"--patches {options.patches}: expected --pooled or --keep-patches with it; else rows are the same."
        )
    with progress_bar(typed) as bar:
        made = simulate_cells(
            typed.output, options.preset, seed=options.seed, keep_patches=options.keep_patches, progress=bar, **knobs
        )
    return _said(made, typed)


def _run_sources(typed: argparse.Namespace) -> int:
    from identifiable.api.simulating import simulate_sources

    options = given(SourcesOptions, typed)
    kinds: Any = options.kinds and [options.kinds[k % len(options.kinds)] for k in range(options.columns)]
    made = simulate_sources(
        typed.output,
        options.rows,
        options.columns,
        seed=options.seed,
        kinds=kinds,
        nonlinearity=options.nonlinearity,
        decades=options.decades,
        workers=options.workers,
    )
    return _said(made, typed)


def _said(made: Simulation, options: argparse.Namespace) -> int:
    if not options.quiet:
        say(f"{made.n} x {made.d}: {', '.join(str(path) for path in made.files)}")
    return EXIT_FINE


def _settings() -> list[str]:
    """Those without an option of their own."""
    from identifiable.worlds import CellSettings

    own = {"layout", "patches", "pooled", "no_biology"}
    return [field.name for field in fields(CellSettings) if field.name not in own]


def _knobs(options: CellsOptions, changes: Sequence[str]) -> dict[str, Any]:
    """The settings that differ from the preset's."""
    from identifiable.worlds import CELL_PRESETS

    knobs: dict[str, Any] = {}
    for name in ("pooled", "no_biology"):
        if getattr(options, name):
            knobs[name] = True
    if options.patches is not None:
        knobs["patches"] = options.patches
    if options.layout is not None:
        knobs["layout"] = options.layout
    sample = CELL_PRESETS["small"]
    for text in changes:
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


READERS: dict[type, tuple[Callable[[str], Any], str]] = {
    int: (int, "a whole number"),
    float: (float, "a number"),
    tuple: (_whole_numbers, "whole numbers with commas"),
}
