"""What plates, positions and perturbations explain of axes: wells on axes, variance on control wells, effects that replicate."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from identifiable._checks import DataError, counted
from identifiable.blocks import Blocks, fold
from identifiable.deconfounding.design import Codes, Design, Mask
from identifiable.groups import AffineMap
from identifiable.moments import Array
from identifiable.run import PLAIN, Run, Stage

SLAB = 64  # axes worked on together: rows x SLAB values are copied at a time, not rows x axes
GROUPS = 20  # parts the plates are dealt into: each is left out once, for predictions and for standard errors
FEW_BATCHES = 8  # from so many batches on, parts are made of whole batches, whose plates are not independent
RIDGE = 1.0  # in wells: every level of a position counts as if it had one further well without effect
LEAST_COVERED = 0.5  # share of the rows and columns in use that must hold controls for these to stand for the plate
MOST_MISSED = 0.5  # share of plates that may lack two controls before all wells are taken in their place
POSITION = "position"  # row, column and edge together
CELL_COUNT = "cell_count"
LAYOUT = "layout"  # position and cell count
LITTLE = 0.02  # excess of replicates at the same address that does no harm
LEAST_ELSEWHERE = 0.5  # of replicated wells: as many need replicates at other addresses for those alone to count

Slabs = Sequence[NDArray[np.float32]]
"""Values of all wells (rows) on some axes, a few columns to each array, so that a product never needs a second copy of all."""


# -- wells on axes


class _Projection:
    """The statistic that writes mapped rows where they belong; strips have rows of their own, so threads never meet."""

    def __init__(self, to_axes: AffineMap, slabs: Slabs):
        self.to_axes, self.slabs = to_axes, slabs

    def add(self, first: int, rows: list[NDArray[np.float64]]) -> None:
        values = self.to_axes.apply(rows[0])
        for k, slab in enumerate(self.slabs):
            slab[first : first + len(values)] = values[:, k * SLAB : (k + 1) * SLAB]

    def merge(self, later: _Projection) -> None:
        pass


def project(blocks: Blocks, to_axes: AffineMap, run: Run = PLAIN) -> list[NDArray[np.float32]]:
    """All rows on the axes of a map, in float32: half the memory, and rounding far below what wells differ by."""
    width, axes = to_axes.matrix.shape
    if blocks.d != width:
        raise DataError(f"{blocks.name}: expected {width} columns, as the components were fitted to, got {blocks.d}.")
    slabs = [np.empty((blocks.n, min(SLAB, axes - k)), np.float32) for k in range(0, axes, SLAB)]
    here = replace(run, cluster=None)  # whose workers cannot write into this memory
    fold([blocks], lambda: _Projection(to_axes, slabs), **here.how, stage=Stage("components"))
    if not all(np.isfinite(slab).all() for slab in slabs):
        bad = np.flatnonzero(
            ~np.isfinite(np.concatenate([slab.sum(axis=1)[:, None] for slab in slabs], axis=1)).all(axis=1)
        )
        raise DataError(
            f"{blocks.name}: expected finite numbers, got NaN or infinite values in {counted(len(bad), 'row')} (first rows, from 0: "
            f"{', '.join(map(str, bad[:5]))}); remove or impute them."
        )
    return slabs


def rotated(slabs: Slabs, rotation: Array) -> list[NDArray[np.float32]]:
    """The same rows on axes turned by a matrix (axes, new axes)."""
    new = rotation.astype(np.float32)
    starts = np.cumsum([0, *(slab.shape[1] for slab in slabs)])
    return [
        np.asarray(
            sum(slab @ new[a : a + slab.shape[1], k : k + SLAB] for slab, a in zip(slabs, starts, strict=False)),
            np.float32,
        )
        for k in range(0, new.shape[1], SLAB)
    ]


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
    def uncovered(self) -> Mapping[str, tuple[int, int]]:
        """In how many rows (columns) controls lie and how many are in use, where it is less than half of them."""
        design = self.design
        if design.row is None or design.column is None or not self.from_controls:
            return {}
        found = {
            what: (len(np.unique(codes[self.reference])), len(np.unique(codes)))
            for what, codes in (("rows", design.row), ("columns", design.column))
        }
        return {what: (seen, used) for what, (seen, used) in found.items() if seen < LEAST_COVERED * used}

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
        """Sums of all sets of axes, side by side."""
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
            parts[CELL_COUNT] = _log_counts(design.cell_count[rows], plates.codes)[:, None]
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
        if left_out is not None:
            grams[left_out] = 0.0  # taken off twice, it would leave a matrix without an inverse
        return np.asarray(np.linalg.inv(grams.sum(axis=0) - grams + RIDGE * np.eye(len(levels))))

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


# -- replicates


@dataclass(frozen=True, eq=False)
class Grouping:
    """Wells added up by group; every group belongs to one perturbation (`owner`)."""

    adding: sparse.csr_array  # (groups, wells)
    owner: Codes
    counts: Array  # wells of every group
    by_owner: sparse.csr_array  # (perturbations, groups)

    @classmethod
    def of(cls, owner: Codes, size: int, *others: Codes) -> Grouping:
        """Groups of wells alike in their owner, of `size`, and in all `others`."""
        key = owner
        for codes in others:
            key = np.unique(key * (int(codes.max()) + 1) + codes, return_inverse=True)[1] if len(codes) else key
        kept, first, group = np.unique(key, return_index=True, return_inverse=True)
        owners, places = owner[first], group.astype(np.intp)
        adding, counts = indicator(places, len(kept)), np.bincount(places, minlength=len(kept)).astype(np.float64)
        return cls(adding, owners, counts, indicator(owners, size))

    def products(self, wells: NDArray[np.float32], left_out: Mask | None = None) -> tuple[Array, Array]:
        """Of each perturbation: the sum of products over pairs of wells in one group (a well with itself too), and such pairs."""
        sums, counts = self.adding @ wells, self.counts
        if left_out is not None:
            gone = np.flatnonzero(left_out)
            part = self.adding[:, gone]
            sums, counts = sums - part @ wells[gone], counts - part @ np.ones(len(gone))
        return (self.by_owner @ np.square(sums, out=sums)).astype(np.float64), self.by_owner @ counts**2


@dataclass(frozen=True, eq=False)
class Replicates:
    """Treated wells whose perturbation lies on two plates or more, less the controls of their plates.

    Controls that lie in a corner of the plate differ from all other wells by position, which would pass for an effect that all
    perturbations have; then what all treated wells of the screen share is taken out. It is not taken out plate by plate: on a plate
    with few perturbations the mean of the treated wells is the effect itself.

    What replicates share is the mean product over pairs of one perturbation on different plates. Pairs at the same address share
    their position too, so they do not count (`elsewhere`) unless the layout leaves few others; then, and where pairs share a row
    or a column more often than by chance (`locked`), the variance of position known from controls is taken off in proportion.
    """

    plates: Plates
    names: tuple[str, ...]
    rows: Codes
    plate: Codes  # of every row of `rows`
    perturbation: Codes  # likewise
    cells: Grouping  # one perturbation on one plate
    signed: tuple[tuple[int, Grouping], ...]  # pairs that count, by inclusion and exclusion
    elsewhere: bool
    part: Codes  # of every plate: single plates, for each has its own controls
    parts: int
    locked: Mapping[str, float]
    left_out: int  # treated wells of perturbations on a single plate, or on plates without reference wells

    @classmethod
    def of(cls, plates: Plates, *, rng: np.random.Generator) -> Replicates:
        design = plates.design
        treated = ~design.control
        rows = np.flatnonzero(treated & (plates.counts[design.plate.codes] > 0))
        pairs = np.unique(np.stack([design.perturbation.codes[rows], design.plate.codes[rows]], axis=1), axis=0)
        on_plates = np.bincount(pairs[:, 0], minlength=design.perturbation.size)
        rows = rows[on_plates[design.perturbation.codes[rows]] >= 2]
        kept, places = np.unique(design.perturbation.codes[rows], return_inverse=True)
        owner, plate = places.astype(np.intp), design.plate.codes[rows]
        size = len(kept)
        cells = Grouping.of(owner, size, plate)
        signed = [(1, Grouping.of(owner, size)), (-1, cells)]
        locked = _locked(design, rows, owner)
        elsewhere = False
        if design.address is not None and locked.get(POSITION, 0.0) > LITTLE:
            address = design.address.codes[rows]
            apart = [*signed, (-1, Grouping.of(owner, size, address)), (1, Grouping.of(owner, size, plate, address))]
            elsewhere = _wells_with_pairs(apart) >= LEAST_ELSEWHERE * len(rows)
            signed = apart if elsewhere else signed
        part, parts = dealt(np.arange(design.plate.size), rng)
        return cls(
            plates,
            tuple(design.perturbation.names[k] for k in kept),
            rows,
            plate,
            owner,
            cells,
            tuple(signed),
            elsewhere,
            part,
            parts,
            {name: share for name, share in locked.items() if not (elsewhere and name == POSITION)},
            int(treated.sum()) - len(rows),
        )

    @cached_property
    def from_reference(self) -> sparse.csr_array:
        """(plates, all wells): the mean of each plate's reference wells."""
        return _plate_means(self.plates.design, self.plates.reference)

    def deviations(self, values: NDArray[np.float32], order: Codes | None = None) -> NDArray[np.float32]:
        """What each of `rows` differs by from the reference wells of its plate; `order` permutes all wells first."""
        rows, means = self.rows, self.from_reference
        if order is not None:
            means, rows = reordered(means, order), order[rows]
        found = values[rows]
        found -= (means @ values)[self.plate]
        return found

    def _own(self, values: NDArray[np.float32], order: Codes | None = None) -> NDArray[np.float32]:
        """The same, less what all have in common where controls cannot stand for the plate."""
        found = self.deviations(values, order)
        return found - found.mean(axis=0) if self.plates.uncovered and len(found) else found

    def replicated(self, values: NDArray[np.float32], order: Codes | None = None) -> Array:
        """Variance that the mean of the same perturbation on other plates predicts, spread over all wells (controls have none)."""
        return self._mean_products(self._own(values, order), None)

    def replicated_without(self, values: NDArray[np.float32]) -> Array:
        """The same on all plates but one part, for each part: (parts, axes)."""
        wells = self._own(values)
        part = self.part[self.plate]
        return np.array([self._mean_products(wells, np.asarray(part == k)) for k in range(self.parts)])

    def _mean_products(self, wells: NDArray[np.float32], left_out: Mask | None) -> Array:
        """Mean over wells of the mean product with wells of the same perturbation on other plates."""
        products, pairs = np.zeros((len(self.names), wells.shape[1])), np.zeros(len(self.names))
        for sign, grouping in self.signed:
            found, number = grouping.products(wells, left_out)
            products += sign * found
            pairs += sign * number
        used = pairs > 0.5
        if not used.any():
            return np.full(wells.shape[1], np.nan)
        kept = self.perturbation if left_out is None else self.perturbation[~left_out]
        weight = np.bincount(kept, minlength=len(self.names))[used].astype(np.float64)
        mean = weight / pairs[used] @ products[used] / weight.sum()
        return np.asarray(mean * len(self.rows) / self.plates.design.n, np.float64)


def _plate_means(design: Design, rows: Codes) -> sparse.csr_array:
    codes = design.plate.codes[rows]
    weights = (1 / np.bincount(codes, minlength=design.plate.size)[codes]).astype(np.float32)
    return sparse.csr_array((weights, (codes, rows)), shape=(design.plate.size, design.n))


def _wells_with_pairs(signed: Sequence[tuple[int, Grouping]]) -> int:
    """Wells of perturbations of which any pair counts."""
    pairs = sum(sign * (grouping.by_owner @ grouping.counts**2) for sign, grouping in signed)
    whole = signed[0][1]
    return int((whole.by_owner @ whole.counts)[np.asarray(pairs) > 0.5].sum())


def _locked(design: Design, rows: Codes, perturbation: Codes) -> dict[str, float]:
    """Excess over chance of pairs of replicates that share an address, a row, a column; a row only if not the address."""
    if design.row is None or design.column is None or design.address is None or not len(rows):
        return {}
    places = {"address": design.address.codes[rows], "row": design.row[rows], "column": design.column[rows]}
    excess = {}
    for name, codes in places.items():
        same, pairs = same_pairs(perturbation, design.plate.codes[rows], codes)
        chance = float(((np.bincount(codes) / len(rows)) ** 2).sum())
        excess[name] = min(max((same / max(pairs, 1e-12) - chance) / max(1 - chance, 1e-12), 0.0), 1.0)
    own = excess["address"]
    return {POSITION: own, "row": max(excess["row"] - own, 0.0), "column": max(excess["column"] - own, 0.0)}


def same_pairs(perturbation: Codes, plate: Codes, place: Codes) -> tuple[float, float]:
    """Pairs of wells of one perturbation on different plates at the same place, and all such pairs; each well counts once."""
    wells = np.bincount(perturbation).astype(np.float64)
    weight = np.divide(1.0, wells, out=np.zeros_like(wells), where=wells > 0)

    def pairs(*keys: Codes) -> float:
        key = np.zeros(len(perturbation), np.intp)
        for part in keys:
            key = np.unique(key * (int(part.max()) + 1) + part, return_inverse=True)[1]
        counts = np.bincount(key).astype(np.float64)
        owner = np.zeros(len(counts), np.intp)
        owner[key] = perturbation
        return float((weight[owner] * counts**2).sum())

    same = pairs(perturbation, place) - pairs(perturbation, place, plate)
    return same, pairs(perturbation) - pairs(perturbation, plate)
