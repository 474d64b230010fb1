"""Files to representations and back: `.npy`, `.npz`, `.csv`/`.tsv`, `.safetensors`; a basis as `.safetensors`;
pictures from `.npz` and IDX files; published sets of pictures with known factors (`.npz`, HDF5, zips of PNG).

Every format is read a block of rows at a time and never loaded whole, and nothing in a file is ever
executed. Whatever is wrong with a file is a `DataError` of one line.
"""

from __future__ import annotations

from identifiable.io.basis_files import load_basis, save_basis
from identifiable.io.factor_pictures import DATASETS, DataSet, FactorPictures, read_factor_pictures
from identifiable.io.images import Images, read_images
from identifiable.io.opening import open_representation, read_label_table, read_labels
from identifiable.io.saving import save_array

__all__ = [
    "DATASETS",
    "DataSet",
    "FactorPictures",
    "Images",
    "load_basis",
    "open_representation",
    "read_factor_pictures",
    "read_images",
    "read_label_table",
    "read_labels",
    "save_array",
    "save_basis",
]
