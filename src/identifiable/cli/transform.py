"""`identifiable transform basis.safetensors X -o Z.npy`; a basis, or a map of `align`."""

from __future__ import annotations

import argparse
from typing import Any

from identifiable._checks import one_line
from identifiable.cli.options import TABLE_FORMATS, add_options, command, given
from identifiable.cli.output import EXIT_FINE, check_outputs, check_suffix, progress_bar, say, warn
from identifiable.io.saving import WRITERS
from identifiable.options import TransformOptions

OPTIONS = {"transform": TransformOptions}


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "transform",
        "Components of new rows in a saved basis, or rows carried into another representation by a saved map; or back.",
        "identifiable transform basis.safetensors new.npy -o components.npy",
    )
    add = parser.add_argument
    add("basis", metavar="BASIS", help="what resolve, align, mechanisms or deconfound clean --save-basis wrote")
    add("table", metavar="X", help=f"rows with the columns the basis was fitted to: {TABLE_FORMATS}")
    add(
        "-o",
        "--output",
        required=True,
        metavar="PATH",
        help=f"file to write: {' '.join(WRITERS)}; of a table in many files also a folder",
    )
    add_options(parser, TransformOptions)
    add("--quiet", action="store_true", help="no progress, print nothing")
    parser.set_defaults(run=_run)


def _run(typed: argparse.Namespace) -> int:
    from identifiable.alignment import Aligned
    from identifiable.api.transforming import apply_basis, loaded, output_format

    options = given(TransformOptions, typed)
    if output_format(typed.output, typed.table) not in WRITERS:
        check_suffix(typed.output, tuple(WRITERS))
    if options.flags is not None:
        check_suffix(options.flags, (".csv", ".parquet"))
    check_outputs([typed.output, options.flags], filter(None, [typed.basis, typed.table, options.ids]))
    basis = loaded(typed.basis, typed.table)
    with progress_bar(typed) as bar:
        done = apply_basis(
            basis,
            typed.table,
            typed.output,
            inverse=options.inverse,
            only_identifiable=options.only_identifiable,
            blocks=options.blocks,
            ids=options.ids,
            dtype=options.dtype,
            flags=options.flags,
            scheduler=options.scheduler,
            progress=bar,
        )
    if not typed.quiet:
        n, kept = done.shape
        of = f" ({kept} of {len(basis.result.components)} columns)" if options.only_identifiable else ""
        if isinstance(basis, Aligned):
            ends = (basis.target, basis.source) if options.inverse else (basis.source, basis.target)
            say(f"map {' → '.join(map(one_line, ends))} applied to {one_line(typed.table)}")
        say(f"{n} x {kept}{of}: {typed.output}")
        warn(done.alerts)
    return EXIT_FINE
