"""`.h5` and `.hdf5`: arrays by their paths in the file (``file.h5:runs/first/values``), or AnnData under another suffix.

Links, and arrays that lie in other files (external, virtual), are refused, and so are references and objects of any length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable._extras import require
from identifiable.io.anndata_files import AnnDataFile, attribute, dense_rows, is_group, opened_hdf5, own
from identifiable.io.array_files import NamedArrays
from identifiable.io.containers import damage_named, identities, shown
from identifiable.io.hdf5_limits import check_heaps
from identifiable.io.remote import RemotePath
from identifiable.io.stored_rows import FileBytes, Layout, LazyRows, local_copy

TEXT = np.dtype("S")  # of any length


class Hdf5File(NamedArrays):
    """Arrays of numbers in an HDF5 file, and text for ids."""

    def __init__(self, path: Path):
        require("h5py", extra="anndata", what=f"reading {path}")
        super().__init__(path)
        self._copy = local_copy(path, self._label) if isinstance(path, RemotePath) else None
        self._elsewhere: set[str] = set()
        with damage_named(self._damaged):
            check_heaps(self._copy or FileBytes.open(path, self._label))
        with self._opened() as root:
            self.is_anndata = attribute(root, "encoding-type") == "anndata"
            root.visititems(self._look)  # follows no links
        self.names = tuple(self._layouts)

    def array(self, name: str) -> NDArray[Any]:
        self._refuse_objects(name)
        with self._opened() as root:
            return np.asarray(self._element(root, name)[...])

    def _look(self, name: str, element: Any) -> None:
        import h5py

        if not isinstance(name, str):  # h5py gives names that are no text as bytes
            raise self._damaged("names in it are no text")
        if is_group(element) or element.shape is None:
            return
        if element.is_virtual or element.external:
            self._elsewhere.add(name)
            return
        text = h5py.check_string_dtype(element.dtype)
        dtype = TEXT if text is not None and text.length is None else np.dtype(element.dtype)
        self._layouts[name] = Layout(0, tuple(element.shape), dtype)

    def _choose(self, part: str | None, ndim: int) -> str:
        part = None if part is None else part.strip("/")
        if part in self._elsewhere:
            raise DataError(f"{self._at(str(part))}: lies in another file, which is not read; copy it into this one.")
        return super()._choose(part, ndim)

    def _rows(self, name: str, again: Callable[[], LazyRows]) -> LazyRows:
        file = self._copy or FileBytes.open(self._path, self._label)
        with self._opened() as root:
            element = self._element(root, name)
            return dense_rows(element, self._layouts[name], file, self._at(name), self._damaged, again)

    def _whole(self, name: str) -> NDArray[Any]:
        layout, label = self._layouts[name], self._at(name)
        self._refuse_objects(name)
        if len(layout.shape) != 1:
            raise DataError(f"{label}: expected one value per row (a 1-D array), got shape {layout.shape}.")
        with self._opened() as root:
            dataset = self._element(root, name)
            text = layout.stored.kind == TEXT.kind
            values = np.array(dataset.asstr()[...].tolist(), dtype=str) if text else dataset[...]
        return identities(values, label)

    def rows(self, part: str | None) -> LazyRows:
        self._refuse_objects(self._choose(part, 2))
        return super().rows(part)

    def _refuse_objects(self, name: str) -> None:
        if self._layouts[name].stored.hasobject:
            raise DataError(
                f"{self._at(name)}: expected an array of numbers, got references or values of any length; save it as numbers."
            )

    def _element(self, root: Any, name: str) -> Any:
        found = root
        for key in name.split("/"):
            found = own(found, key)
            if found is None:
                raise self._damaged(f"{shown(name)!r} is not in the file itself")
        return found

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with damage_named(self._damaged), opened_hdf5(self._path, self._copy) as file:
            yield file

    def _damaged(self, why: str) -> DataError:
        return DataError(f"{self._label}: not an HDF5 file, or damaged or truncated ({why}); copy or write it again.")


def open_hdf5(path: Path) -> Hdf5File | AnnDataFile:
    """The arrays of an HDF5 file; of one that says that it is AnnData, its matrices and `obs`."""
    found = Hdf5File(path)
    return AnnDataFile(path) if found.is_anndata else found
