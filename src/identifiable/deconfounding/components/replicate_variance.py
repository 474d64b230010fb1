"""What perturbations explain of axes within plates: effects that come back on other plates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from identifiable.deconfounding.components.plate_variance import POSITION, Plates, dealt, indicator, reordered
from identifiable.deconfounding.design import Codes, Design, Mask
from identifiable.moments import Array

LITTLE = 0.02  # excess of replicates at the same address that does no harm
LEAST_ELSEWHERE = 0.5  # of replicated wells: as many need replicates at other addresses for those alone to count


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
    perturbations have; then wells are compared with all treated wells of their plate.

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

    @cached_property
    def from_treated(self) -> sparse.csr_array:
        """(plates, all wells): the mean of each plate's treated wells."""
        return _plate_means(self.plates.design, np.flatnonzero(~self.plates.design.control))

    def deviations(
        self, values: NDArray[np.float32], means: sparse.csr_array, order: Codes | None = None
    ) -> NDArray[np.float32]:
        """What each of `rows` differs by from means of its plate; `order` permutes all wells first."""
        rows = self.rows
        if order is not None:
            means, rows = reordered(means, order), order[rows]
        found = values[rows]
        found -= (means @ values)[self.plate]
        return found

    @property
    def _means(self) -> sparse.csr_array:
        return self.from_treated if self.plates.uncovered else self.from_reference

    def replicated(self, values: NDArray[np.float32], order: Codes | None = None) -> Array:
        """Variance that the mean of the same perturbation on other plates predicts, spread over all wells (controls have none)."""
        return self._mean_products(self.deviations(values, self._means, order), None)

    def replicated_without(self, values: NDArray[np.float32]) -> Array:
        """The same on all plates but one part, for each part: (parts, axes)."""
        wells = self.deviations(values, self._means)
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
