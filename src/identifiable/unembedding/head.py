"""An output layer: logits ``W f + b`` of K labels from M features, known up to what changes no probability."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, check_magnitude, check_unique_ids, counted
from identifiable.moments import EPS, Array
from identifiable.representation import Representation, pair
from identifiable.results import HeadDiversity


@dataclass(frozen=True, eq=False)
class Head:
    """Weights (K, M), perhaps a bias (K,) and the names of the labels; `precision` is the spacing of stored numbers near 1."""

    weight: Array
    bias: Array | None = None
    labels: NDArray[Any] | None = None
    name: str = "head"
    dtype: str = "float64"
    precision: float = EPS

    def __post_init__(self) -> None:
        k = len(self.weight)
        if k < 2:
            raise DataError(f"{self.name}: expected at least 2 labels, one in each row, got {k}.")
        for what, column in (("bias", self.bias), ("labels", self.labels)):
            if column is not None and column.shape != (k,):
                raise DataError(f"{self.name}: expected one {what} for each of {k} labels, got shape {column.shape}.")
        for values in (self.weight, self.bias):
            if values is not None and not np.isfinite(values).all():
                bad = int(np.sum(~np.isfinite(values)))
                raise DataError(f"{self.name}: expected finite weights, got {counted(bad, 'NaN or infinite value')}.")
            if values is not None:
                check_magnitude(float(np.abs(values).max()), self.name)
        if self.labels is not None:
            check_unique_ids(self.labels, self.name)

    @property
    def shape(self) -> tuple[int, int]:
        return self.weight.shape[0], self.weight.shape[1]

    @cached_property
    def centred(self) -> Array:
        """Weights without the vector common to all labels, which the softmax ignores."""
        centred: Array = self.weight - self.weight.mean(axis=0)
        return centred

    @cached_property
    def centred_bias(self) -> Array:
        return np.zeros(len(self.weight)) if self.bias is None else self.bias - self.bias.mean()

    @cached_property
    def spectrum(self) -> Spectrum:
        return Spectrum.of(self.centred, self._rounding(self.centred))

    def _rounding(self, centred: Array) -> float:
        """A singular value that rounding of the stored weights can make.

        Ours. Each entry is off by at most half its spacing, so the error is a random matrix of entries below
        precision / 2 * rms, and its largest singular value is below that times sqrt(K) + sqrt(M) (Marchenko-Pastur).
        """
        k, m = self.shape
        stored = self.precision / 2 * float(np.sqrt(np.mean(self.weight**2))) * (np.sqrt(k) + np.sqrt(m))
        return float(max(stored, EPS * max(k, m) * np.linalg.norm(centred)))

    def diversity(self, frequencies: Array | None = None) -> HeadDiversity:
        """Rank and condition of the centred weights, as they are and weighted by label frequencies.

        Implements the diversity condition of Roeder et al. 2021 for a classifier head (the centred weights have rank M, so
        K >= M + 1) and A.1 of Nelson et al. 2026 (the covariance of the unembedding under the labels is positive definite;
        formula reconstructed).

        >>> Head(np.eye(3)[:, :2]).diversity().diverse
        True
        >>> Head(np.eye(3)).diversity().rank
        2
        """
        k, m = self.shape
        found = self.spectrum
        common = float(np.sum(self.weight.mean(axis=0) ** 2) * k)
        size = float(np.sum(self.weight**2))
        plain = HeadDiversity(
            name=self.name,
            labels=k,
            dimensions=m,
            rank=found.rank,
            condition=found.condition,
            diverse=found.rank == m,
            gauge=common / size if size else 0.0,
            bias=self.bias is not None,
        )
        if frequencies is None:
            return plain
        weighted = np.sqrt(frequencies)[:, None] * (self.weight - frequencies @ self.weight)
        # Rounding is that of the weights under the same frequencies; with even ones it is the unweighted one.
        spread = Spectrum.of(weighted, self._rounding(weighted) / np.sqrt(k))
        positive = frequencies[frequencies > 0]
        return replace(
            plain,
            weighted_rank=spread.rank,
            weighted_condition=spread.condition,
            smallest_eigenvalue=float(spread.values[-1] ** 2) if spread.rank == m else 0.0,
            effective_labels=float(np.exp(-np.sum(positive * np.log(positive)))),
        )


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Singular vectors over labels (K, rank) and over dimensions (rank, M), and the values, without what is rounding."""

    left: Array
    values: Array
    right: Array

    @classmethod
    def of(cls, matrix: Array, rounding: float) -> Spectrum:
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        rank = int(np.sum(values > rounding))
        return cls(left[:, :rank], values[:rank], right[:rank])

    @property
    def rank(self) -> int:
        return len(self.values)

    @property
    def condition(self) -> float:
        return float(self.values[0] / self.values[-1]) if self.rank else float("nan")


def joined(first: Head, second: Head) -> tuple[Head, Head, dict[str, int]]:
    """Two heads of the same labels in the same order, and how many labels of each were left out.

    By name where both have names, else by position.
    """
    if first.labels is None or second.labels is None:
        if len(first.weight) != len(second.weight):
            raise DataError(
                f"{first.name} has {len(first.weight)} labels and {second.name} has {len(second.weight)}; heads of the same "
                "labels are compared: pass label names (--labels) to join them, or --layout columns if labels are columns."
            )
        return first, second, {}
    join = pair(*(Representation(h.weight, h.labels, h.name) for h in (first, second)))
    heads = [h if rows is None else _selected(h, rows) for h, rows in zip((first, second), join.rows, strict=True)]
    lost = {h.name: count for h, count in zip((first, second), join.dropped, strict=True) if count}
    return heads[0], heads[1], lost


def _selected(head: Head, rows: NDArray[np.intp]) -> Head:
    bias = None if head.bias is None else head.bias[rows]
    labels = None if head.labels is None else head.labels[rows]
    return replace(head, weight=head.weight[rows], bias=bias, labels=labels)
