"""Files to representations and back: `.npy`, `.npz`, `.csv`/`.tsv`, `.safetensors`; a basis as `.safetensors`;
pictures from `.npz` and IDX files.

Every format is read a block of rows at a time and never loaded whole, and nothing in a file is ever
executed. Whatever is wrong with a file is a `DataError` of one line.
"""

from __future__ import annotations

from identifiable.io.basis_files import load_basis, save_basis
from identifiable.io.images import Images, read_images
from identifiable.io.opening import open_representation, read_label_table, read_labels
from identifiable.io.saving import save_array

__all__ = [
    "Images",
    "load_basis",
    "open_representation",
    "read_images",
    "read_label_table",
    "read_labels",
    "save_array",
    "save_basis",
]
