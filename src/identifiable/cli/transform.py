"""`identifiable transform basis.safetensors X -o Z.npy`."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from identifiable.blocks import Blocks
from identifiable.cli.options import TABLE_FORMATS, add_options, command, given
from identifiable.cli.output import EXIT_FINE, check_outputs, check_suffix, progress_bar, say
from identifiable.cli.progress import Watched
from identifiable.intake import blocks_of
from identifiable.io.saving import WRITERS
from identifiable.options import TransformOptions


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "transform",
        "Components of new rows in a saved basis, or rows from components.",
        "identifiable transform basis.safetensors new.npy -o components.npy",
    )
    add = parser.add_argument
    add("basis", metavar="BASIS", help="what resolve wrote")
    add("table", metavar="X", help=f"rows with the columns the basis was fitted to: {TABLE_FORMATS}")
    add("-o", "--output", required=True, metavar="PATH", help=f"file to write: {' '.join(WRITERS)}")
    add_options(parser, TransformOptions)
    add("--quiet", action="store_true", help="no progress, print nothing")
    parser.set_defaults(run=_run)


def _run(typed: argparse.Namespace) -> int:
    from identifiable.api import load_basis, transform
    from identifiable.api.transforming import open_rows

    options = given(TransformOptions, typed)
    check_suffix(typed.output, tuple(WRITERS), "an array")
    check_outputs([typed.output], filter(None, [typed.basis, typed.table, options.ids]))
    basis = load_basis(typed.basis)
    table = open_rows(basis, typed.table, options.ids, options.blocks, typed.output, inverse=options.inverse)
    with progress_bar(typed) as bar:
        rows = blocks_of(table)
        if bar is not None:
            rows = Blocks(Watched(rows, bar, f"transforming {table.name}"), name=rows.name)
        transform(
            basis,
            replace(table, values=rows),
            typed.output,
            inverse=options.inverse,
            only_identifiable=options.only_identifiable,
            ids=options.ids,
            dtype=options.dtype,
        )
    if not typed.quiet:
        width = (basis.from_components if options.inverse else basis.to_components).matrix.shape[1]
        kept = len(basis.result.identifiable)
        shape = f"{kept} ({kept} of {width} columns)" if options.only_identifiable else f"{width}"
        say(f"{table.n} x {shape}: {typed.output}")
    return EXIT_FINE
