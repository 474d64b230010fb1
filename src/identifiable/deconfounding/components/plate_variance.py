"""What plates, batches, positions and cell counts explain of axes, on control wells."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from identifiable._checks import DataError
from identifiable.deconfounding.design import Codes, Design, Mask
from identifiable.moments import Array

GROUPS = 20  # parts the plates are dealt into: each is left out once, for predictions and for standard errors
FEW_BATCHES = 8  # from so many batches on, parts are made of whole batches, whose plates are not independent
RIDGE = 1.0  # in wells: every level of a position counts as if it had one further well without effect
LEAST_COVERED = 0.5  # share of the rows and columns in use that must hold controls for these to stand for the plate
MOST_MISSED = 0.5  # share of plates that may lack two controls before all wells are taken in their place

POSITION = "position"  # row, column and edge together
LAYOUT = "layout"  # the same and cell count


# -- which wells answer which question


@dataclass(frozen=True, eq=False)
class Plates:
    """The plates of a screen, dealt into parts, and the wells (`reference`) whose variance on a plate is not from perturbations.

    Those are the controls, where most plates have two of them; otherwise all wells stand in (`from_controls` is False). Reference
    wells are sorted by part, then plate.
    """

    design: Design
    reference: Codes
    from_controls: bool
    part: Codes  # of every plate
    parts: int

    @classmethod
    def of(cls, design: Design, *, rng: np.random.Generator) -> Plates:
        codes, size = design.plate.codes, design.plate.size
        if size < 2:
            raise DataError(
                f"{design.name}: expected at least 2 plates, got {size}; what belongs to a plate cannot be told from biology on one."
            )
        controls = np.bincount(codes[design.control], minlength=size)
        from_controls = bool(np.mean(controls < 2) <= MOST_MISSED and np.sum(controls >= 2) >= 2)
        batches = _batches_of_plates(design)
        units = np.arange(size) if batches is None or batches.max() + 1 < FEW_BATCHES else batches
        part, parts = dealt(units, rng)
        rows = np.flatnonzero(design.control) if from_controls else np.arange(design.n)
        rows = rows[np.lexsort((rows, codes[rows], part[codes[rows]]))]
        return cls(design, rows, from_controls, part, parts)

    @cached_property
    def codes(self) -> Codes:
        """The plate of every reference well."""
        found: Codes = self.design.plate.codes[self.reference]
        return found

    @cached_property
    def counts(self) -> Array:
        """Reference wells of each plate."""
        return np.bincount(self.codes, minlength=self.design.plate.size).astype(np.float64)

    @cached_property
    def batches(self) -> Codes | None:
        """The batch of every plate; None where there is one only, or the table does not say."""
        return _batches_of_plates(self.design)

    @cached_property
    def bounds(self) -> Codes:
        """Where each part's reference wells begin, and the end."""
        found: Codes = np.searchsorted(self.part[self.codes], np.arange(self.parts + 1))
        return found

    @cached_property
    def sums(self) -> sparse.csr_array:
        """(plates, reference wells): adds up the wells of each plate."""
        return indicator(self.codes, self.design.plate.size)

    @cached_property
    def uncovered(self) -> str:
        """In how many rows and columns controls lie, if in less than half of those in use; else nothing."""
        design = self.design
        if design.row is None or design.column is None or not self.from_controls:
            return ""
        words = []
        for what, codes in (("rows", design.row), ("columns", design.column)):
            seen, used = len(np.unique(codes[self.reference])), len(np.unique(codes))
            if seen < LEAST_COVERED * used:
                words.append(f"{seen} of {used} {what}")
        return " and ".join(words)

    def means(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """For every reference well the mean of its plate's."""
        found = (self.sums @ values) / np.maximum(self.counts, 1)[:, None].astype(np.float32)
        return np.asarray(found[self.codes], np.float32)

    def kept(self, left_out: int | None) -> Mask:
        """Plates that stay when a part is left out."""
        found: Mask = np.ones(len(self.part), bool) if left_out is None else self.part != left_out
        return found


def _batches_of_plates(design: Design) -> Codes | None:
    batch = design.batch
    if batch is None or not 2 <= batch.size < design.plate.size:
        return None
    found = np.zeros(design.plate.size, np.intp)
    found[design.plate.codes] = batch.codes
    return found


def dealt(units: Codes, rng: np.random.Generator) -> tuple[Codes, int]:
    """For each plate its part, plates of one unit together and parts of about equally many units; and how many parts."""
    size = int(units.max()) + 1
    parts = min(GROUPS, size)
    part = np.empty(size, np.intp)
    part[rng.permutation(size)] = np.arange(size) % parts
    return part[units], parts


def indicator(codes: Codes, size: int, rows: Codes | None = None, n: int | None = None) -> sparse.csr_array:
    """A sparse matrix (size, n) that adds up rows by code; `rows` says which rows of n the codes are of."""
    rows = np.arange(len(codes)) if rows is None else rows
    shape = (size, len(codes) if n is None else n)
    return sparse.csr_array((np.ones(len(codes), np.float32), (codes, rows)), shape=shape)


def reordered(matrix: sparse.csr_array, order: Codes) -> sparse.csr_array:
    """The matrix that sees row `order[i]` where `matrix` sees row i: a permutation without a copy of the rows."""
    return sparse.csr_array((matrix.data, order[matrix.indices], matrix.indptr), shape=matrix.shape)


def shuffled_within(codes: Codes, rng: np.random.Generator) -> Codes:
    """A permutation that keeps every row within its group."""
    order = np.argsort(codes, kind="stable")
    shuffled = np.lexsort((rng.random(len(codes)), codes))
    found = np.empty(len(codes), np.intp)
    found[order] = shuffled
    return found


# -- plates and batches


@dataclass(frozen=True, eq=False)
class BetweenPlates:
    """Variances of axes over reference wells: in all, between plates, between batches (NaN without), between plates of a batch."""

    total: Array
    plate: Array
    batch: Array
    within_batch: Array


def between_plates(totals: Array, energy: Array, counts: Array, batches: Codes | None) -> BetweenPlates:
    """Variances between plates from the sum of every plate's wells (plates, axes) and the sum of all squares (axes).

    Ours. Of all pairs of wells take those of one plate, those of two plates of one batch, and those of two batches: their mean
    products differ by the variance between plates of a batch, and between batches. All three follow from sums alone.
    """
    n = counts.sum()
    plate_pairs, plate_products = float((counts**2).sum()), (totals**2).sum(axis=0)
    everything = totals.sum(axis=0) ** 2
    same_plate = _ratio(plate_products - energy, plate_pairs - n)
    if batches is None:
        apart = _ratio(everything - plate_products, n**2 - plate_pairs)
        nothing = np.full(totals.shape[1], np.nan)
        return BetweenPlates(energy / n - apart, same_plate - apart, nothing, same_plate - apart)
    adding = indicator(batches, int(batches.max()) + 1).astype(np.float64)
    batch_pairs, batch_products = float(((adding @ counts) ** 2).sum()), ((adding @ totals) ** 2).sum(axis=0)
    apart = _ratio(everything - batch_products, n**2 - batch_pairs)
    same_batch = _ratio(batch_products - plate_products, batch_pairs - plate_pairs)
    return BetweenPlates(energy / n - apart, same_plate - apart, same_batch - apart, same_plate - same_batch)


def _ratio(products: Array, pairs: float) -> Array:
    return products / pairs if pairs > 0 else np.full(len(products), np.nan)


@dataclass(frozen=True, eq=False)
class PlateSums:
    """Sums and squares of every plate's reference wells on some axes, about the mean of all."""

    totals: Array
    squares: Array

    @classmethod
    def of(cls, plates: Plates, values: NDArray[np.float32]) -> PlateSums:
        rows = values - values.mean(axis=0, dtype=np.float64).astype(np.float32)
        return cls((plates.sums @ rows).astype(np.float64), (plates.sums @ rows**2).astype(np.float64))

    @classmethod
    def joined(cls, parts: Sequence[PlateSums]) -> PlateSums:
        """Those of several sets of axes side by side."""
        return cls(
            np.concatenate([part.totals for part in parts], axis=1),
            np.concatenate([part.squares for part in parts], axis=1),
        )

    def variances(self, plates: Plates, left_out: int | None = None) -> BetweenPlates:
        kept = plates.kept(left_out)
        batches = plates.batches
        if batches is not None:
            batches = np.unique(batches[kept], return_inverse=True)[1]
            batches = batches if batches.max() > 0 else None
        return between_plates(self.totals[kept], self.squares[kept].sum(axis=0), plates.counts[kept], batches)


@dataclass(frozen=True, eq=False)
class PlatePairs:
    """Reference wells of each plate, two by two at random: how far apart they are says how much wells of the plate differ.

    A stain or a lamp multiplies: it changes how much wells differ and may leave their mean where it was. Distances of pairs without
    a well in common are independent of each other and of the mean; distances from the plate's mean would go together by chance
    wherever an axis is skewed.
    """

    first: Codes  # among reference wells
    second: Codes
    codes: Codes  # plates
    counts: Array  # pairs of each plate

    @classmethod
    def of(cls, plates: Plates) -> PlatePairs:
        rng = np.random.default_rng(len(plates.reference))
        order = np.lexsort((rng.random(len(plates.codes)), plates.codes))
        codes = plates.codes[order]
        place = np.arange(len(codes)) - np.searchsorted(codes, codes)
        second = np.flatnonzero(place % 2 == 1)
        counts = np.bincount(codes[second], minlength=len(plates.counts)).astype(np.float64)
        return cls(order[second - 1], order[second], codes[second], counts)

    @cached_property
    def sums(self) -> sparse.csr_array:
        """(plates, pairs): adds up the pairs of each plate."""
        return indicator(self.codes, len(self.counts))

    def log_distances(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Of the two wells of each pair, about their mean. A tenth of a typical one keeps near ties from counting as extreme."""
        away = np.abs(values[self.first] - values[self.second])
        logs = np.log(away + 0.1 * away.mean(axis=0) + np.finfo(np.float32).tiny)
        return np.asarray(logs - logs.mean(axis=0), np.float32)


# -- position and cell count


@dataclass(frozen=True, eq=False)
class Positions:
    """Regressions of reference wells, less their plate's mean, on where they lie and how many cells they hold."""

    plates: Plates
    features: NDArray[np.float32]  # (reference wells, levels), plate means taken out
    factors: Mapping[str, Codes]  # which levels belong to row, column, edge, cell_count, position and layout

    @classmethod
    def of(cls, plates: Plates) -> Positions:
        design, rows = plates.design, plates.reference
        parts: dict[str, NDArray[np.float32]] = {}
        if design.row is not None and design.column is not None and design.edge is not None:
            parts["row"] = _levels(design.row[rows])
            parts["column"] = _levels(design.column[rows])
            parts["edge"] = design.edge[rows][:, None].astype(np.float32)
        # Without controls a perturbation that kills cells would be called technical.
        if design.cell_count is not None and plates.from_controls:
            parts["cell_count"] = _log_counts(design.cell_count[rows], plates.codes)[:, None]
        ends = np.cumsum([0, *(part.shape[1] for part in parts.values())])
        factors = {name: np.arange(a, b) for name, a, b in zip(parts, ends, ends[1:], strict=False)}
        places = [factors[name] for name in ("row", "column", "edge") if name in factors]
        if places:
            factors[POSITION] = np.concatenate(places)
        if factors:
            factors[LAYOUT] = np.arange(ends[-1])
        features = np.concatenate(list(parts.values()), axis=1) if parts else np.empty((len(rows), 0), np.float32)
        return cls(plates, features - plates.means(features), factors)

    def products(self, values: NDArray[np.float32]) -> Array:
        """(parts, levels, axes): features times values of each part; plate means of the values drop out."""
        bounds = self.plates.bounds
        return np.stack([self.features[a:b].T @ values[a:b] for a, b in pairwise(bounds.tolist())]).astype(np.float64)

    @cached_property
    def grams(self) -> Array:
        return self.products(self.features)

    @cached_property
    def _solvers(self) -> dict[str, Array]:
        """For each factor and each part left out, the inverse that turns products of the others into coefficients."""
        return {name: self._inverses(levels, None) for name, levels in self.factors.items()}

    def _inverses(self, levels: Codes, left_out: int | None) -> Array:
        grams = self.grams[:, levels[:, None], levels]
        total = grams.sum(axis=0) - (0.0 if left_out is None else grams[left_out])
        return np.asarray(np.linalg.inv(total - grams + RIDGE * np.eye(len(levels))))

    def explained(
        self, products: Array, names: Collection[str] | None = None, left_out: int | None = None
    ) -> dict[str, Array]:
        """Variance that each factor (of `names`) explains on parts of the plates by coefficients from the others, per well."""
        used = [k for k in range(self.plates.parts) if k != left_out]
        wells = self.plates.counts[self.plates.kept(left_out)].sum()
        total = products[used].sum(axis=0)
        found = {}
        for name, levels in self.factors.items():
            if names is not None and name not in names:
                continue
            inverses = self._solvers[name] if left_out is None else self._inverses(levels, left_out)
            shown = [
                np.einsum("ij,ij->j", inverses[k] @ (total - products[k])[levels], products[k][levels]) for k in used
            ]
            found[name] = np.sum(shown, axis=0) / wells
        return found


def _levels(codes: Codes) -> NDArray[np.float32]:
    kept, places = np.unique(codes, return_inverse=True)
    return np.asarray(places[:, None] == np.arange(len(kept)), np.float32)


def _log_counts(counts: Array, plates: Codes) -> NDArray[np.float32]:
    """Logarithms of cell counts in standard deviations: densities act by ratios. A missing count is set to its plate's mean."""
    logs = np.log1p(np.maximum(counts, 0))
    known = np.isfinite(logs)
    if not known.any():
        return np.zeros(len(logs), np.float32)
    size = int(plates.max()) + 1
    wells = np.bincount(plates[known], minlength=size)
    means = np.bincount(plates[known], logs[known], minlength=size) / np.maximum(wells, 1)
    away = np.where(known, logs - means[plates], 0.0)
    return np.asarray(away / max(float(away.std()), 1e-12), np.float32)
