"""`.h5ad`: `X`, a layer or a key of `obsm` as rows, and the columns of `obs` beside them.

What the file holds is decoded here with h5py alone, not by anndata: that needs no import of two seconds, no
second copy of the table, and every length is compared with the number of rows before it is allocated. A
dense array that lies in the file in one piece is read in place; one in chunks, or a sparse one (CSR), is unpacked once into
a temporary file without a name. Links and arrays that lead into other files are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable._extras import require
from identifiable.io.containers import check_table, damage_named, identities_from_text, named, shown
from identifiable.io.hdf5_limits import check_attribute, check_dataset, check_heaps
from identifiable.io.label_columns import FeatureChoice, Kind, labels_from_numbers, labels_from_objects, taken
from identifiable.io.labelled import Found, LabelledTable, NoFeature, never
from identifiable.io.remote import RemotePath
from identifiable.io.stored_rows import (
    FileBytes,
    Layout,
    LazyRows,
    StoredRows,
    check_scratch_room,
    local_copy,
    reopened,
    scratch_file,
)

X = "X"
OBS_NAMES = "obs_names"  # what --ids may call the names of the rows
MATRICES = ("obsm", "layers")  # where a part is looked for by its bare name
# What anndata keeps whatever the columns of `X` are; `obs` and `raw` besides, each as one.
BY_ROWS = ("obsm", "obsp", "uns")
BY_COLUMNS = ("layers", "varm", "varp")
SLAB_BYTES = 2**25  # unpacked at a time
AGAIN = "copy or write it again"


@dataclass(frozen=True)
class Beside:
    """What a `.h5ad` holds beside one of its matrices: places that fit rows of any columns, and those that do not."""

    path: Path
    kept: tuple[str, ...]
    dropped: tuple[str, ...]


class AnnDataFile(LabelledTable):
    """Matrices with one row for each observation, and what is known of the observations."""

    index = OBS_NAMES
    form, library, extra = ".h5ad", "h5py", "anndata"

    def __init__(self, path: Path):
        require(self.library, extra=self.extra, what=f"reading {path}")
        self._path, self.label = path, str(path)
        self._copy = self._copied()
        self._checked: set[str] = set()
        self._check_file()
        with self._opened() as root:
            self._places = self._matrices(root)
            obs = self._group(root, "obs")
            self._index = attribute(obs, "_index") or "_index"
            held = [key for key in self._keys(obs) if key not in (self._index, "__categories")]
            declared = [name for name in column_order(obs) if name in held]
            self._columns = declared + [key for key in held if key not in declared]
            self._n = self._length(obs, self._index)
        self.names = (OBS_NAMES, *self._columns)

    @property
    def columns(self) -> Sequence[str]:
        return self._columns

    def where(self, name: str) -> str:
        return f"{self.label}: obs {shown(name)!r}"

    def kinds(self) -> dict[str, Kind]:
        """Every matrix holds numbers; one of them is chosen by its place."""
        return dict.fromkeys(self._places, "float")

    def choose(
        self, asked: Sequence[str] | str | None, ids: str | None, no_feature: NoFeature = never
    ) -> FeatureChoice:
        """The place of a matrix (`X_pca`, `layers/counts`)."""
        if asked is not None and not isinstance(asked, str):
            if len(asked) != 1:
                raise UsageError(
                    f"{self.label}: of a {self.form} one matrix is read (X, a key of obsm), got {list(asked)}."
                )
            asked = asked[0]
        return FeatureChoice((self._place(asked),))

    def heads(self, features: tuple[str, ...], width: int) -> tuple[str, ...] | None:
        """Names of the variables for `X` and layers; the columns of a key of obsm have none."""
        names = None if features[0].startswith("obsm/") else self._variable_names()
        return names if names is not None and len(names) == width else None

    def read(self, names: Sequence[str]) -> Found:
        found = {name: self._obs(name) for name in names}
        own = found.get(OBS_NAMES)
        if own is not None and own.dtype.kind == "U":
            # anndata makes text of every name, also of numbers, which other files keep as such
            found[OBS_NAMES] = identities_from_text(own.tolist())
        return found

    def beside(self, part: str | None, *, obs: bool) -> Beside:
        """What can stand, as it is, beside other columns for the rows of a matrix; `obs` if it is to be among it."""
        place = self._place(part)
        kept: list[str] = []
        dropped: list[str] = []
        with self._opened() as root:
            for key in root:
                if key in (*BY_ROWS, *BY_COLUMNS):
                    for name in (f"{key}/{member}" for member in self._group(root, key)):
                        fits = key in BY_ROWS and _is_own(root, name)
                        # a data frame repeats the names of the rows, which then may be others
                        fits = fits and (obs or key != "obsm" or attribute(root[name], "encoding-type") != "dataframe")
                        (kept if fits else dropped).append(name)
                elif key == "var":
                    dropped += [f"var/{name}" for name in column_order(self._group(root, key))]
                elif key == "obs":
                    kept += [key] if obs and _is_own(root, key) else []
                else:
                    (kept if key == "raw" and _is_own(root, key) else dropped).append(key)
        return Beside(self._path, tuple(kept), tuple(name for name in dropped if name != place))

    def parts(self, part: str | None) -> tuple[str, ...]:
        """All that is known besides a matrix, the observations and the names of the variables."""
        with self._opened() as root:
            held = {key: self._keys(self._group(root, key)) for key in (*BY_ROWS, *BY_COLUMNS) if key in root}
            of_var = column_order(self._group(root, "var")) if "var" in root else ()
            whole = tuple(key for key in (X, "raw") if key in root)
        return tuple(name for name in (*whole, *_listed(held), *_listed({"var": of_var})) if name != self._place(part))

    def copy_into(self, root: Any, places: Sequence[str]) -> None:
        """Copy parts of the file into another one, byte for byte, a piece at a time."""
        with self._opened() as source:
            for place in places:
                group, _, name = place.rpartition("/")
                source.copy(source[place], root[group] if group else root, name)

    def rows(self, features: tuple[str, ...]) -> LazyRows:
        """The rows of the matrix at a place in the file."""
        (place,) = features
        label = f"{self.label}:{place}"
        again = partial(reopened, type(self), self._path.absolute(), features)
        with self._opened() as root:
            element = self._element(root, place)
            sparse = self._sparse_layout(element, label) if is_group(element) else None
            layout = sparse or Layout(0, tuple(element.shape), np.dtype(element.dtype))
            check_table(layout, label)
            if layout.shape[0] != self._n:
                raise DataError(f"{label}: {layout.shape[0]} rows for {self._n} observations in obs; {AGAIN}.")
            if not sparse:
                return self._dense(element, layout, label, again)
            check_scratch_room(label, layout.nbytes, "reduce its columns")
            return StoredRows(scratch_file(label, partial(self._unpack_sparse, element, layout)), layout, again)

    def _dense(self, element: Any, layout: Layout, label: str, again: Callable[[], LazyRows]) -> LazyRows:
        file = self._copy or FileBytes.open(self._path, self.label)
        return dense_rows(element, layout, file, label, self._damaged, again)

    # -- matrices

    def _matrices(self, root: Any) -> dict[str, str]:
        """Name of every matrix -> its place. A name that two places share is only to be had by its place."""
        held = [(group, key) for group in MATRICES if group in root for key in self._keys(self._group(root, group))]
        places = {f"{group}/{key}": f"{group}/{key}" for group, key in held}
        keys = [key for _, key in held]
        bare = {key: f"{group}/{key}" for group, key in held if keys.count(key) == 1}
        return {**places, **bare, **({X: X} if X in root else {})}

    def _place(self, part: str | None) -> str:
        name = X if part is None else part
        if name not in self._places:
            held = named([key for key in self._places if "/" in key or key == X]) or "no matrix"
            raise DataError(f"{self.label}: holds no {name!r}; it holds {held}: name one after a colon.")
        return self._places[name]

    def _sparse_layout(self, group: Any, label: str) -> Layout:
        encoding = attribute(group, "encoding-type") or attribute(group, "h5sparse_format")
        if encoding not in ("csr_matrix", "csr"):
            what = f"stored as {shown(encoding)}" if encoding else "a group without an encoding"
            raise DataError(
                f"{label}: expected a dense matrix or a sparse one by rows (csr_matrix), got {what}; "
                "convert it first, as with adata.X = adata.X.tocsr()."
            )
        key = "shape" if "shape" in group.attrs else "h5sparse_shape"
        check_attribute(group, key)
        for name in ("data", "indices", "indptr"):
            self._element(group, name)
        return Layout(0, self._sparse_shape(group.attrs[key]), np.dtype(group["data"].dtype))

    def _sparse_shape(self, stored: Any) -> tuple[int, int]:
        lengths = stored.tolist() if isinstance(stored, np.ndarray) else stored
        if not (isinstance(lengths, list) and len(lengths) == 2 and all(type(each) is int for each in lengths)):
            raise self._damaged(f"expected two lengths as the shape of a sparse matrix, got {shown(str(lengths))}")
        return lengths[0], lengths[1]

    def _unpack_sparse(self, group: Any, layout: Layout, file: IO[bytes]) -> None:
        n, d = layout.shape
        with damage_named(self._damaged):
            ends = group["indptr"]
            if ends.shape != (n + 1,) or group["indices"].shape != group["data"].shape:
                raise self._damaged("the parts of a sparse matrix do not fit each other")
        step = max(SLAB_BYTES // max(d * layout.stored.itemsize, 1), 1)
        for start in range(0, n, step):
            with damage_named(self._damaged):
                edges = ends[start : min(start + step, n) + 1].astype(np.int64)
                if (np.diff(edges) < 0).any() or edges[0] < 0 or edges[-1] > group["data"].shape[0]:
                    raise self._damaged("the rows of a sparse matrix run backwards or past its end")
                if start == 0 and edges[0]:
                    raise self._damaged(f"the first row of a sparse matrix begins at value {edges[0]}")
                columns = group["indices"][edges[0] : edges[-1]].astype(np.int64)
                values = group["data"][edges[0] : edges[-1]]
            if columns.size and (columns.min() < 0 or columns.max() >= d):
                raise self._damaged(f"a sparse matrix of {d} columns names column {columns.max()}")
            dense = np.zeros((len(edges) - 1, d), layout.stored)
            np.add.at(
                dense, (np.repeat(np.arange(len(dense)), np.diff(edges)), columns), values
            )  # as scipy: repeats add up
            file.write(dense.data)

    def _variable_names(self) -> tuple[str, ...] | None:
        with self._opened() as root:
            if "var" not in root:
                return None
            var = self._group(root, "var")
            name = attribute(var, "_index") or "_index"
            names = self._decoded(var, name, self._length(var, name))
        return None if names is None else tuple(names.astype(str).tolist())

    # -- obs

    def _obs(self, name: str) -> NDArray[Any] | None:
        with self._opened() as root:
            return self._decoded(self._group(root, "obs"), self._index if name == OBS_NAMES else name, self._n)

    def _decoded(self, frame: Any, name: str, n: int) -> NDArray[Any] | None:
        """A column of a stored frame, by how anndata says that it is encoded; None if it is no column of single values."""
        where = f"{self.label}: column {shown(name)!r}"
        element = self._element(frame, name)
        if not is_group(element):
            if element.shape != (n,):
                return None
            check_attribute(element, "categories")
            categories = element.attrs.get("categories")  # how anndata before 0.8 marked a categorical
            if categories is not None and "__categories" in frame and name in self._group(frame, "__categories"):
                distinct = self._plain(frame["__categories"][name], where)
                return None if distinct is None else self._categorical(distinct, element[...], where)
            return self._plain(element, where)
        encoding = attribute(element, "encoding-type")
        wanted = ("codes", "categories") if encoding == "categorical" else ("values", "mask")
        if any(key not in element for key in wanted):
            return None
        first, second = (self._element(element, key) for key in wanted)
        if is_group(first) or is_group(second) or first.shape != (n,) or len(second.shape) != 1:
            return None
        if encoding == "categorical":
            distinct = self._plain(second, where)
            return None if distinct is None else self._categorical(distinct, first[...], where)
        if encoding in ("nullable-integer", "nullable-boolean"):
            return labels_from_numbers(first[...], second[...].astype(bool))
        if encoding == "nullable-string-array":
            text = self._plain(first, where)
            return None if text is None else taken(text, np.where(second[...].astype(bool), -1, np.arange(n)))
        return None

    def _categorical(self, distinct: NDArray[Any], codes: NDArray[Any], where: str) -> NDArray[Any]:
        if codes.dtype.kind not in "iu" or (codes.size and (codes.min() < -1 or codes.max() >= len(distinct))):
            raise self._damaged(f"{where} has codes beyond its {len(distinct)} categories")
        return taken(distinct, codes.astype(np.intp))

    def _plain(self, dataset: Any, where: str) -> NDArray[Any] | None:
        """A dataset of numbers or text."""
        import h5py

        if h5py.check_string_dtype(dataset.dtype) is not None:
            return labels_from_objects(dataset.asstr()[...].tolist(), where).astype(str)
        if (
            h5py.check_enum_dtype(dataset.dtype) is not None and dataset.dtype.kind != "b"
        ):  # how h5py wrote truth values
            return labels_from_numbers(dataset[...].astype(np.int64))
        if dataset.dtype.kind in "iufb":
            return labels_from_numbers(dataset[...])
        return None

    # -- HDF5

    @property
    def n(self) -> int:
        return self._n

    def variables(self, root: Any) -> int:
        """How many columns `X` has, by `var`."""
        if "var" not in root:
            return 0
        var = self._group(root, "var")
        return self._length(var, attribute(var, "_index") or "_index")

    def owned(self, parent: Any, name: str) -> Any:
        """A group of the file itself, made if it is not there."""
        if name in parent:
            return self._group(parent, name)
        group = parent.create_group(name)
        group.attrs.update({"encoding-type": "dict", "encoding-version": "0.1.0"})
        return group

    def _length(self, frame: Any, name: str) -> int:
        index = self._element(frame, name)
        if is_group(index):
            index = self._element(index, "codes" if "codes" in index else "values")
        if is_group(index) or len(index.shape) != 1:
            raise self._damaged(f"{shown(name)!r} is no index")
        return int(index.shape[0])

    def _keys(self, group: Any) -> list[str]:
        """The names in a group; h5py gives those that are no text as bytes."""
        names = list(group)
        if not all(isinstance(name, str) for name in names):
            raise self._damaged("names in it are no text")
        return names

    def _group(self, parent: Any, name: str) -> Any:
        found = self._element(parent, name)
        if not is_group(found):
            raise DataError(
                f"{self.label}: {shown(name)!r} is stored as anndata did before 0.7; write it again with a recent anndata."
            )
        return found

    def _element(self, parent: Any, name: str) -> Any:
        """What lies at a place in the file itself; a link or an array may lead into another one."""
        for key in name.split("/"):
            found = self._own(parent, key)
            if found is None:
                raise DataError(
                    f"{self.label}: expected {shown(name)!r} in the file itself, as anndata writes it; it holds "
                    f"{named(map(str, parent)) or 'nothing'}: check that it is an AnnData file."
                )
            parent = found
        return parent

    def _copied(self) -> FileBytes | None:
        """A file of another machine, copied to this one."""
        return local_copy(self._path, self.label) if isinstance(self._path, RemotePath) else None

    def _check_file(self) -> None:
        with damage_named(self._damaged):
            check_heaps(self._copy or FileBytes.open(self._path, self.label))

    def _own(self, parent: Any, key: str) -> Any:
        return own(parent, key, self._checked)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        with damage_named(self._damaged), opened_hdf5(self._path, self._copy) as file:
            yield file

    def _damaged(self, why: str) -> DataError:
        return DataError(f"{self.label}: not a {self.form} file, or damaged or truncated ({why}); {AGAIN}.")


@contextmanager
def opened_hdf5(path: Path, copy: FileBytes | None) -> Iterator[Any]:
    """A file of HDF5, or its copy on this machine."""
    import h5py

    with ExitStack() as stack:
        yield stack.enter_context(h5py.File(path if copy is None else stack.enter_context(copy.stream()), "r"))


def dense_rows(
    dataset: Any,
    layout: Layout,
    file: FileBytes,
    label: str,
    damaged: Callable[[str], DataError],
    again: Callable[[], LazyRows],
) -> StoredRows:
    """The rows of an array of HDF5: in its own file if it lies there in one piece, else unpacked."""
    if not lies_in_one_piece(dataset):
        check_scratch_room(label, layout.nbytes, "reduce its columns")
        return StoredRows(scratch_file(label, partial(_unpack, dataset, layout, damaged)), layout, again)
    start = int(dataset.id.get_offset())
    if start + layout.nbytes > file.size:
        raise damaged(f"{dataset.name.removeprefix('/')} runs past the end of the file")
    return StoredRows(file, Layout(start, layout.shape, layout.stored), again)


def lies_in_one_piece(dataset: Any) -> bool:
    return not (dataset.chunks or dataset.file.userblock_size or dataset.id.get_offset() is None)


def _unpack(dataset: Any, layout: Layout, damaged: Callable[[str], DataError], file: IO[bytes]) -> None:
    chunk = dataset.chunks[0] if dataset.chunks else 1
    step = max(SLAB_BYTES // max(layout.shape[1] * layout.stored.itemsize, 1) // chunk, 1) * chunk
    for start in range(0, layout.shape[0], step):  # whole chunks: none is unpacked twice
        with damage_named(damaged):
            slab = np.ascontiguousarray(dataset[start : start + step])
        file.write(slab.data)


def parts_in_memory(adata: Any) -> tuple[str, ...]:
    """The same of an AnnData object, of which `X` and the names are read; its observations too."""
    held = {key: [*map(str, getattr(adata, key, ()))] for key in ("obs", *BY_ROWS, *BY_COLUMNS, "var")}
    return (*(("raw",) if getattr(adata, "raw", None) is not None else ()), *_listed(held))


def _listed(held: Mapping[str, Iterable[str]]) -> list[str]:
    return [f"{key}/{name}" for key, names in held.items() for name in names]


def is_group(element: Any) -> bool:
    return hasattr(element, "keys")


def own(parent: Any, key: str, checked: set[str] | None = None) -> Any:
    """A part of the file itself; None where a link or an array leads into another one. `checked` remembers datasets that are sound."""
    import h5py

    found = parent[key] if isinstance(parent.get(key, getlink=True), h5py.HardLink) else None
    if not isinstance(found, h5py.Dataset):
        return found
    if found.is_virtual or found.external:
        return None
    if checked is None or found.name not in checked:
        check_dataset(found)
    if checked is not None:
        checked.add(found.name)
    return found


def _is_own(parent: Any, name: str) -> bool:
    """Whether what lies at a place, all of it, is in the file itself and refers to nothing elsewhere, so that a copy is whole."""
    import h5py

    for key in name.split("/"):
        if (parent := own(parent, key)) is None:
            return False
    held = [parent.attrs.get_id(key).dtype for key in parent.attrs]
    if isinstance(parent, h5py.Dataset):
        held.append(parent.dtype)
    elif not (isinstance(parent, h5py.Group) and all(_is_own(parent, key) for key in parent)):
        return False
    return all(h5py.check_ref_dtype(dtype) is None for dtype in held)


def attribute(element: Any, name: str) -> str | None:
    check_attribute(element, name)
    value = element.attrs.get(name)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value if isinstance(value, str) else None


def column_order(frame: Any) -> list[str]:
    check_attribute(frame, "column-order")
    order = frame.attrs.get("column-order", ())
    return [str(name) for name in order] if isinstance(order, np.ndarray | list) else []
