"""Candidates: the corrections that are tried, each fitted to all rows or without the rows of one part of the batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import Blocks, fold, one_blas_thread
from identifiable.deconfounding.components.attributing import attribute
from identifiable.deconfounding.components.cleaning import choose_weights, cleaned_map
from identifiable.deconfounding.components.resolving import screen_basis
from identifiable.deconfounding.corrections.registry import CORRECTIONS, CorrectionOptions, fit_correction
from identifiable.deconfounding.corrections.streaming import GroupScaling, fit_control_scaling, fit_sphering
from identifiable.deconfounding.corrections.tasks import (
    Affine,
    Fit,
    GroupMoments,
    Level,
    PrincipalAxes,
    Selected,
    Step,
    Task,
)
from identifiable.deconfounding.design import Codes, Design, Labels
from identifiable.groups import AffineMap
from identifiable.ica import Resolved
from identifiable.intake import gather_moments
from identifiable.moments import ROUNDING, Array, Moments, leave_one_out
from identifiable.options import AttributeOptions
from identifiable.representation import Representation
from identifiable.results import Input, Note
from identifiable.run import Run

SCALINGS: tuple[Literal["control-z", "control-mad"], ...] = ("control-z", "control-mad")
HowFitted = Literal["training", "own controls", "all rows"]
AS_IS, Z_SCORE = "as-is", "z-score"
INPUT = "input"  # the family of the table as it is, and of its z-scored columns
SPHERING_RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # half decades, from the default of `sphering` to hardly any
CHAINED_RIDGES = (0.1, 1.0, 10.0)
PCA_SHARE = 0.95  # of the variance of the z-scored columns
MOST_ROWS = {"harmony": 50_000, "ica-clean": 20_000}  # beyond these they take longer than all others together
FEWEST_SHUFFLES = 20


@dataclass(frozen=True, eq=False)
class Same:
    """A step that leaves rows as they are."""

    def __call__(self, X: Array, index: Codes) -> Array:
        return X


@dataclass(frozen=True, eq=False)
class Chained:
    """One step, then an affine map."""

    first: Step
    then: AffineMap

    def __call__(self, X: Array, index: Codes) -> Array:
        return self.then.apply(self.first(X, index))


class Stepped:
    """Some rows of a table after a step. A `blocks.Rows`."""

    def __init__(self, source: Blocks, places: Codes, step: Step, width: int):
        self.source, self.places, self.step = source, places, step
        self.shape, self.dtype = (len(places), width), np.dtype(np.float64)

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        places = self.places[rows]
        return self.step(np.asarray(self.source[places], dtype=np.float64), places)


class Fits:
    """What candidates are fitted from: moments of the rows of each part of the batches, gathered in one pass each.

    `part` is the part of every row. Where a part is asked for, a fit sees the rows of the other parts only; None is all rows.
    """

    def __init__(self, blocks: Blocks, design: Design, part: Labels, run: Run):
        self.blocks, self.design, self.part, self.run = blocks, design, part, run
        self.quiet = Run(run.seed, run.workers, run.cluster)
        self.whole: dict[str, Fit] = {}  # of candidates by name, fitted to all rows: to be judged, named and written

    def rows(self, held_out: int | None) -> Codes | None:
        return None if held_out is None else np.flatnonzero(self.part.codes != held_out)

    @cached_property
    def everything(self) -> list[Moments]:
        """Moments of all rows: without each part, then of all."""
        return self._left_out(self.blocks, self.part.codes)

    @cached_property
    def controls(self) -> list[Moments]:
        """Moments of the controls: without each part, then of all."""
        places = self._controls
        return self._left_out(self.blocks.select(places), self.part.codes[places])

    @cached_property
    def scaled_controls(self) -> list[Moments]:
        """Moments of the controls after each batch was scaled by its own."""
        return self._left_out(self._stepped(self.scaling, self._controls), self.part.codes[self._controls])

    @cached_property
    def scaled_everything(self) -> list[Moments]:
        """Moments of all rows after each batch was scaled by its own controls."""
        return self._left_out(self._stepped(self.scaling, np.arange(self.design.n)), self.part.codes)

    @cached_property
    def scaling(self) -> Fit:
        """Every batch (plate, where there is one batch) centred and scaled by its own controls."""
        return fit_control_scaling(Task.of(self.blocks, self.design, None, run=self.quiet), prefer="batch")

    def standardised(self, fit: Fit, held_out: int | None) -> Fit:
        """The step, then every column to mean 0 and standard deviation 1 over the rows to fit on."""
        if isinstance(fit.step, Affine):
            by = _z_scores_of(self.everything[_place(held_out)], fit.step.map)
            return replace(fit, step=Affine(fit.step.map.then(by)))
        if isinstance(fit.step, Chained) and isinstance(fit.step.first, GroupScaling):
            by = _z_scores_of(self.scaled_everything[_place(held_out)], fit.step.then)
            return replace(fit, step=Chained(fit.step.first, fit.step.then.then(by)))
        places = np.arange(self.design.n) if held_out is None else np.flatnonzero(self.part.codes != held_out)
        rows = Selected(self._stepped(fit, places), places, np.zeros(len(places), dtype=np.intp), 1)
        found = fold([rows.table], partial(GroupMoments, rows), **self.quiet.how)
        by = _z_map(found.means[0], np.sqrt(found.energy[0] / len(places)))
        return replace(fit, step=Chained(fit.step, by))

    def _stepped(self, fit: Fit, places: Codes) -> Blocks:
        return Blocks(Stepped(self.blocks, places, fit.step, fit.width), name=self.blocks.name)

    @cached_property
    def components(self) -> Resolved:
        """The independent components of all rows, without labels."""
        table = Representation(self.blocks, name=self.blocks.name)
        return screen_basis(table, self.design, self.shuffling, self.unnamed)

    @property
    def shuffling(self) -> AttributeOptions:
        return AttributeOptions(stability=0, permutations=FEWEST_SHUFFLES, seed=self.run.seed, workers=self.run.workers)

    @property
    def unnamed(self) -> Run:
        """A run whose table need not be hashed."""
        return replace(self.quiet, inputs=(Input(self.blocks.name, *self.blocks.shape, str(self.blocks.dtype), ""),))

    def axes(self, moments: list[Moments], held_out: int | None, rows: str) -> PrincipalAxes:
        with one_blas_thread():
            return PrincipalAxes.of(moments[_place(held_out)], scaled=True, rows=rows)

    def _left_out(self, blocks: Blocks, codes: Codes) -> list[Moments]:
        parts = gather_moments([blocks], self.quiet, part=codes, n_parts=self.part.size)
        without = leave_one_out(parts)
        return [*without, without[-1].merge(parts[-1])]

    @property
    def _controls(self) -> Codes:
        return np.flatnonzero(self.design.control)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A correction to try: `fit(fits, part)` without any row of a part, or with all rows (None).

    Corrected columns are features: components (TVN, Harmony) are turned back along their axes, which leaves distances as they are.
    The columns are z-scored at the end, so that none is preferred for its scale, and whoever z-scores the table that is written
    changes nothing.

    `fitted` says what it learns from when it is judged: training rows; the controls of all plates, also of those held out; or
    all rows, without their labels. Only the first needs a fit for every part.
    """

    name: str
    family: str
    raw: Callable[[Fits, int | None], Fit]
    fitted: HowFitted = "training"
    scaling: tuple[Literal["control-z", "control-mad"], Level] | None = None  # by own controls, before an affine map

    def fit(self, fits: Fits, held_out: int | None) -> Fit:
        if held_out is None and self.name in fits.whole:
            return fits.whole[self.name]
        found = _in_features(self.raw(fits, held_out))
        if self.family != INPUT:
            found = fits.standardised(found, held_out)
        if held_out is None:
            fits.whole[self.name] = found
        return found

    @property
    def once(self) -> bool:
        return self.fitted != "training"


def _in_features(fit: Fit) -> Fit:
    """The same correction with features for columns."""
    if fit.axes is None:
        return fit
    d = len(fit.axes)
    return replace(fit, step=Chained(fit.step, AffineMap(fit.axes.T, np.zeros(d))), width=d, axes=None)


def _unchanged(fits: Fits, held_out: int | None) -> Fit:
    return Fit(Same(), fits.blocks.d)


def _z_scored(fits: Fits, held_out: int | None) -> Fit:
    d = fits.blocks.d
    by = _z_scores_of(fits.everything[_place(held_out)], AffineMap.identity(d))
    return Fit(Affine(by), d, (Note("z_scored", {"rows": fits.everything[_place(held_out)].n}),))


def _place(held_out: int | None) -> int:
    """Where `Fits` keeps the moments without a part."""
    return -1 if held_out is None else held_out


def _z_scores_of(moments: Moments, after: AffineMap) -> AffineMap:
    """To z-scores of the columns that rows of these moments have after a map."""
    squares = np.einsum("ij,ij->j", after.matrix, moments.scatter @ after.matrix)
    # What a column would have if its parts were not correlated: next to it, a constant column is rounding.
    energy = np.where(squares > ROUNDING * (moments.energy @ after.matrix**2), squares, 0.0)
    return _z_map(after.apply(moments.mean[None])[0], np.sqrt(energy / moments.n))


def _z_map(mean: Array, spread: Array) -> AffineMap:
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
    return AffineMap.about(np.diag(scale), mean, np.zeros(len(scale)))


def _scaled(name: str, level: Level) -> Callable[[Fits, int | None], Fit]:
    def fit(fits: Fits, held_out: int | None) -> Fit:
        return fit_correction(name, fits.blocks, fits.design, CorrectionOptions(level=level), fits.quiet).fit

    return fit


def _sphered(epsilon: float) -> Callable[[Fits, int | None], Fit]:
    return lambda fits, held_out: fit_sphering(fits.axes(fits.controls, held_out, "controls"), epsilon=epsilon)


def _scaled_then_sphered(epsilon: float) -> Callable[[Fits, int | None], Fit]:
    def fit(fits: Fits, held_out: int | None) -> Fit:
        then = fit_sphering(fits.axes(fits.scaled_controls, held_out, "controls"), epsilon=epsilon)
        assert isinstance(then.step, Affine)
        notes, alerts = (*fits.scaling.notes, *then.notes), (*fits.scaling.alerts, *then.alerts)
        return Fit(Chained(fits.scaling.step, then.step.map), then.width, notes, alerts)

    return fit


def _registered(name: str) -> Callable[[Fits, int | None], Fit]:
    def fit(fits: Fits, held_out: int | None) -> Fit:
        options = CorrectionOptions(rows=fits.rows(held_out))
        return fit_correction(name, fits.blocks, fits.design, options, fits.quiet).fit

    return fit


def _principal(fits: Fits, held_out: int | None) -> Fit:
    axes = fits.axes(fits.everything, held_out, "rows")
    kept = int(np.searchsorted(np.cumsum(axes.variances), PCA_SHARE * axes.variances.sum())) + 1
    leading = axes.vectors[:, :kept]
    note = Note("principal", {"components": kept, "share": PCA_SHARE})
    return Fit(Affine(axes.map(leading @ leading.T)), fits.blocks.d, (note,))


def _without_technical_components(fits: Fits, held_out: int | None) -> Fit:
    """The table without its technical components, chosen as `clean` does on these rows, with few shuffles.

    The components are those of all rows, without labels: only which of them go depends on treatments.
    """
    rows = fits.rows(held_out)
    blocks, design = fits.blocks, fits.design
    if rows is not None:
        blocks, design = blocks.select(rows), design.take(rows)
    found = attribute(fits.components, blocks, design, fits.shuffling, fits.unnamed)
    chosen = choose_weights(found)
    note = Note("technical_components", {"removed": len(chosen.removed), "components": len(chosen.weights)})
    return Fit(Affine(cleaned_map(fits.components, chosen.weights.tolist())), blocks.d, (note,))


def _all_candidates(levels: Sequence[Level]) -> list[Candidate]:
    chained = "control-z+sphering"
    first: tuple[Literal["control-z"], Level] = ("control-z", levels[-1])
    return [
        Candidate(AS_IS, INPUT, _unchanged, "all rows"),
        Candidate(Z_SCORE, INPUT, _z_scored, "all rows"),
        *(
            Candidate(f"{name}-{level}", name, _scaled(name, level), "own controls", (name, level))
            for name in SCALINGS
            for level in levels
        ),
        *(Candidate(f"sphering-{e:g}", "sphering", _sphered(e), "own controls") for e in SPHERING_RIDGES),
        *(
            Candidate(f"{'-'.join(first)}+sphering-{e:g}", chained, _scaled_then_sphered(e), "own controls", first)
            for e in CHAINED_RIDGES
        ),
        Candidate("tvn", "tvn", _registered("tvn"), "own controls"),
        Candidate("combat", "combat", _transductive("combat"), "all rows"),
        Candidate("harmony", "harmony", _transductive("harmony"), "all rows"),
        Candidate("pca", "pca", _principal),
        Candidate("ica-clean", "ica-clean", _without_technical_components),
    ]


def _transductive(name: str) -> Callable[[Fits, int | None], Fit]:
    return lambda fits, held_out: _registered(name)(fits, None)


NEEDS = {  # of a family: the correction whose needs it has
    "control-z": "control-z",
    "control-mad": "control-mad",
    "sphering": "sphering",
    "control-z+sphering": "control-z",
    "tvn": "tvn",
    "combat": "combat",
    "harmony": "harmony",
}


def candidates(design: Design, families: Sequence[str], rows: int) -> tuple[list[Candidate], dict[str, str]]:
    """The candidates of these families (all of them if none is named) that a design can have, and why not the others."""
    several = design.batch is not None and design.batch.size > 1
    kept, skipped = [], {}
    for candidate in _all_candidates(("plate", "batch") if several else ("plate",)):
        if candidate.family != INPUT and families and candidate.family not in families:
            continue
        name = NEEDS.get(candidate.family)
        lacking = None if name is None else CORRECTIONS[name].lacking(design)
        most = MOST_ROWS.get(candidate.name)
        if lacking is None and most is not None and not families and rows > most:
            lacking = f"{rows} rows, more than {most}"
        if lacking is None:
            kept.append(candidate)
        else:
            skipped[candidate.name] = lacking
    return kept, skipped
