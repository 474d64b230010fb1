"""Files, folders of files and URLs to representations and back, in the formats of docs/formats.md; screens: embeddings with the
metadata of their wells; a basis as `.safetensors`.

Every format is read a block of rows at a time and never loaded whole, and nothing in a file is ever
executed. Whatever is wrong with a file is a `DataError` of one line.
"""

from __future__ import annotations

from identifiable.io.anndata_writing import extend_anndata, save_anndata
from identifiable.io.basis_files import load_basis, save_basis
from identifiable.io.opening import open_representation, read_label_table, read_labels, read_pairs
from identifiable.io.saving import save_array, save_arrays, save_records, save_table
from identifiable.io.screens import (
    OpenedScreen,
    open_screen,
    open_with_metadata,
    screen_of_anndata,
    screen_of_array,
    screen_of_frame,
)

__all__ = [
    "OpenedScreen",
    "extend_anndata",
    "load_basis",
    "open_representation",
    "open_screen",
    "open_with_metadata",
    "read_label_table",
    "read_labels",
    "read_pairs",
    "save_anndata",
    "save_array",
    "save_arrays",
    "save_basis",
    "save_records",
    "save_table",
    "screen_of_anndata",
    "screen_of_array",
    "screen_of_frame",
]
