"""`identifiable transform basis.safetensors X -o Z.npy`."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from identifiable.blocks import Blocks
from identifiable.cli.options import TABLE_FORMATS, add_blocks_option, check_running_options, command
from identifiable.cli.output import EXIT_FINE, check_outputs, check_suffix, progress_bar, say
from identifiable.cli.progress import Watched
from identifiable.intake import blocks_of
from identifiable.io.saving import WRITERS

DTYPES = ("float32", "float64")


def add_to(commands: Any) -> None:
    parser = command(
        commands,
        "transform",
        "components of new rows in a saved basis, or rows from components",
        "identifiable transform basis.safetensors new.npy -o components.npy",
    )
    add = parser.add_argument
    add("basis", metavar="BASIS", help="what resolve wrote")
    add("table", metavar="X", help=f"rows with the columns the basis was fitted to: {TABLE_FORMATS}")
    add("-o", "--output", required=True, metavar="PATH", help=f"file to write: {' '.join(WRITERS)}")
    one = parser.add_mutually_exclusive_group()
    one.add_argument("--inverse", action="store_true", help="X holds components: go back to the space of the data")
    one.add_argument(
        "--only-identifiable",
        action="store_true",
        help="write only the components that the result of resolve calls reproducible",
    )
    add("--ids", metavar="NAME", help="column, key or sidecar file with sample ids, to write beside the values")
    add_blocks_option(parser)
    add("--dtype", choices=DTYPES, help="of the values written (default: float64, or float32 if X is not finer)")
    add("--quiet", action="store_true", help="no progress, print nothing")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from identifiable.api import load_basis, transform
    from identifiable.api.transforming import open_rows

    check_running_options(options)
    check_suffix(options.output, tuple(WRITERS), "an array")
    check_outputs([options.output], filter(None, [options.basis, options.table, options.ids]))
    basis = load_basis(options.basis)
    table = open_rows(basis, options.table, options.ids, options.blocks, options.output, inverse=options.inverse)
    with progress_bar(options) as bar:
        rows = blocks_of(table)
        if bar is not None:
            rows = Blocks(Watched(rows, bar, f"transforming {table.name}"), name=rows.name)
        transform(
            basis,
            replace(table, values=rows),
            options.output,
            inverse=options.inverse,
            only_identifiable=options.only_identifiable,
            ids=options.ids,
            dtype=options.dtype,
        )
    if not options.quiet:
        width = (basis.from_components if options.inverse else basis.to_components).matrix.shape[1]
        kept = len(basis.result.identifiable)
        shape = f"{kept} ({kept} of {width} columns)" if options.only_identifiable else f"{width}"
        say(f"{table.n} x {shape}: {options.output}")
    return EXIT_FINE
