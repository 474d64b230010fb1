"""Aligning: paths are opened, then `alignment` measures; and what can be done with the map."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from identifiable import alignment
from identifiable._checks import OutputError, UsageError
from identifiable.alignment import aligning
from identifiable.api.opening import Opened, one_ids_file
from identifiable.api.transforming import transform
from identifiable.io import load_basis, save_arrays, save_basis
from identifiable.io.module_folders import save_modules
from identifiable.options import AlignOptions, takes


class Carries(ABC):
    """What a fitted map can be turned into; `Aligned` and `Aligner` have it."""

    @abstractmethod
    def _fitted(self) -> alignment.Aligned:
        """The map."""

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the map with all that was found about it to a `.safetensors`, which `transform` and `load` read."""
        return save_basis(path, self._fitted())

    def save_npz(self, path: str | os.PathLike[str]) -> Path:
        """Write `matrix` and `offset` to a `.npz`: ``rows @ matrix + offset``."""
        fitted = self._fitted()
        if fitted.normalize:
            raise UsageError(
                "save_npz: this map divides rows by their length, which a matrix and an offset do not; "
                "use save, to_torch or save_sentence_transformers."
            )
        if Path(path).suffix.lower() != ".npz":
            raise OutputError(f"{path}: expected a name that ends in .npz.")
        return save_arrays(path, {"matrix": fitted.map.matrix, "offset": fitted.map.offset})

    def save_sentence_transformers(self, path: str | os.PathLike[str]) -> Path:
        """Write a folder of modules as sentence-transformers has them: `Dense` without an activation, then `Normalize`.

        Append them to the encoder whose vectors the map was fitted to:
        ``SentenceTransformer(modules=[*encoder, Dense.load("path/0_Dense"), Normalize()])``.
        """
        fitted = self._fitted()
        return save_modules(path, fitted.map, normalize_first=fitted.normalize)

    def to_torch(self) -> Any:
        """A `torch.nn.Sequential` that does to rows what the map does, in float32."""
        from identifiable.nn.carrying import carrier  # torch, only if it is asked for

        fitted = self._fitted()
        return carrier(fitted.map, normalize=fitted.normalize)


class Aligned(alignment.Aligned, Carries):
    """The map from the first table to the second, and what `align` found out about it (`result`).

    `back` is the inverse, None where the map has none. With `normalize` rows are divided by their length before and after the map.
    """

    @classmethod
    def of(cls, fitted: alignment.Aligned) -> Self:
        return cls(**{field.name: getattr(fitted, field.name) for field in fields(fitted)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The map that `save` wrote. A file that was changed since is refused; nothing in it is executed."""
        found = load_basis(path)
        if not isinstance(found, alignment.Aligned):
            raise UsageError(f"{path}: expected a map of align, got a {type(found).__name__}; pass what align wrote.")
        return cls.of(found)

    def transform(self, X: Any, **named: Any) -> NDArray[Any]:
        """Rows of the first representation in the space of the second; keywords as for `identifiable.transform`."""
        values: NDArray[Any] = transform(self, X, **named)
        return values

    def inverse_transform(self, Y: Any, **named: Any) -> NDArray[Any]:
        """Rows of the second representation in the space of the first, where the map has an inverse."""
        values: NDArray[Any] = transform(self, Y, inverse=True, **named)
        return values

    def _fitted(self) -> alignment.Aligned:
        return self


@takes(AlignOptions)
def align(first: Any, second: Any, /, *, options: AlignOptions) -> Aligned:
    """What map carries one representation into another, and what does it cost?

    Ours, on maps of the literature (see `docs/align.md`). The map is chosen by cross-validated recall of the ten nearest rows,
    evaluated on rows that it has not seen, and then fitted to all rows.

    Parameters
    ----------
    first, second
        Two representations of the same rows: arrays (n, d), `Representation`s, `Blocks`, Dask arrays, or paths. The map takes
        rows of the first to the space of the second.
    """
    with Opened((first, second), options) as opened:
        group_by, group_by_name = opened.labels(options.group_by)
        labels, labels_name = opened.labels(options.labels)
        found = aligning.align(
            opened.tables[0],
            opened.tables[1],
            replace(options, group_by=group_by, labels=labels),
            group_by_name=group_by_name,
            labels_name=labels_name,
            cluster=opened.cluster,
        )
    result = replace(found.result, alerts=(*one_ids_file(options.ids), *found.result.alerts))
    return Aligned.of(replace(found, result=result))
