"""Corrections of batch effects that ICA is compared with, all fitted and applied in the same way.

>>> from identifiable.blocks import Blocks
>>> from identifiable.deconfounding.design import Labels
>>> plates = np.repeat(["p1", "p2"], 4)
>>> design = Design(plate=Labels.of(plates), perturbation=Labels.of(np.full(8, "DMSO")), control=np.ones(8, bool))
>>> X = np.arange(8.0)[:, None]
>>> fit_correction("control-z", Blocks(X), design).apply(X, np.arange(8)).ravel().round(2)[:4].tolist()
[-1.34, -0.45, 0.45, 1.34]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks, chunk_rows, silent
from identifiable.deconfounding.corrections.harmony import DIMENSIONS, fit_harmony
from identifiable.deconfounding.corrections.streaming import (
    CORAL_RIDGE,
    EPSILON_GRID,
    SPHERING_EPSILON,
    CountScale,
    SpheringMethod,
    TvnMethod,
    control_axes,
    fit_combat,
    fit_control_scaling,
    fit_count,
    fit_position,
    fit_sphering,
    fit_tvn,
    random_rotation,
)
from identifiable.deconfounding.corrections.tasks import Fit, PrincipalAxes, Task
from identifiable.deconfounding.design import Design, listed
from identifiable.groups import AffineMap
from identifiable.results import Alert, Note
from identifiable.run import Run

Unseen = Literal["yes", "needs its controls", "no"]
Need = Literal["controls", "wells", "cell counts", "two groups", "ica_map"]


@dataclass(frozen=True)
class CorrectionSpec:
    """A correction by name: what it needs of a design, and what it can do with a plate it has not seen.

    `transductive` ones must be fitted to every row they are to correct, test rows included.
    """

    name: str
    needs: tuple[Need, ...]
    unseen: Unseen
    transductive: bool = False

    def lacking(self, design: Design) -> str | None:
        """Why this correction cannot be fitted to a design, or None where it can."""
        missing: dict[Need, bool] = {
            "controls": not design.control.any(),
            "wells": design.address is None,
            "cell counts": design.cell_count is None,
            "two groups": design.plate.size < 2 and (design.batch is None or design.batch.size < 2),
        }
        names = {
            "controls": "negative controls",
            "wells": "wells",
            "cell counts": "cell counts",
            "two groups": "two plates or batches",
        }
        lacks = [names[need] for need in self.needs if missing.get(need)]
        return f"{self.name} needs {' and '.join(lacks)}, which {design.name} does not have" if lacks else None


CORRECTIONS: Mapping[str, CorrectionSpec] = {
    spec.name: spec
    for spec in (
        CorrectionSpec("control-z", ("controls",), "needs its controls"),
        CorrectionSpec("control-mad", ("controls",), "needs its controls"),
        CorrectionSpec("sphering", ("controls",), "yes"),
        CorrectionSpec("tvn", ("controls",), "needs its controls"),
        CorrectionSpec("combat", ("two groups",), "no", transductive=True),
        CorrectionSpec("harmony", ("two groups",), "no", transductive=True),
        CorrectionSpec("pca-cs", ("controls",), "needs its controls"),
        CorrectionSpec("ica-cs", ("controls", "ica_map"), "needs its controls"),
        CorrectionSpec("rand-cs", ("controls",), "needs its controls"),
        CorrectionSpec("position-subtracted", ("wells",), "yes"),
        CorrectionSpec("count-regressed", ("cell counts",), "yes"),
    )
}


@dataclass(frozen=True, eq=False)
class Correction:
    """A fitted correction: `apply` takes rows as stored, with their places in the design it was fitted with.

    `transductive` says whether every row of the design was fitted to. `notes` tell what was measured on what; `alerts`
    what was degenerate and what was done about it.
    """

    name: str
    width: int
    unseen: Unseen
    transductive: bool
    notes: tuple[Note, ...]
    alerts: tuple[Alert, ...]
    design: Design
    columns: int
    fit: Fit

    def apply(self, X: NDArray[Any], index: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """The corrected rows: float32 where the rows come as float32 or float16, otherwise float64."""
        X, places = np.asarray(X), np.asarray(index)
        self._check(X, places)
        single = X.dtype.kind == "f" and X.dtype.itemsize < 8
        out = np.empty((len(X), self.width), dtype=np.float32 if single else np.float64)
        rows = chunk_rows(max(self.columns, self.width))
        with silent():
            for a in range(0, len(X), rows):
                part = slice(a, a + rows)
                out[part] = self.fit.step(np.asarray(X[part], dtype=np.float64), places[part])
        if not np.isfinite(out).all():
            bad = places[~np.isfinite(out).all(axis=1)]
            raise DataError(
                f"{self.name}: {len(bad)} rows are not finite after correction (first, from 0: {listed(map(str, bad))}); "
                "are there NaN or infinite values in them?"
            )
        return out

    def table(self, blocks: Blocks) -> Blocks:
        """All rows of the table that the design describes, corrected as they are read."""
        return Blocks(_Applied(self, blocks), rows=blocks.rows, name=blocks.name)

    def _check(self, X: NDArray[Any], places: NDArray[Any]) -> None:
        if X.ndim != 2 or X.shape[1] != self.columns or places.shape != (len(X),):
            raise DataError(
                f"{self.name}: expected rows of {self.columns} columns and one place for each, got {X.shape} and {places.shape}."
            )
        if places.size and (places.min() < 0 or places.max() >= self.design.n):
            raise DataError(
                f"{self.name}: expected places in the design from 0 to {self.design.n - 1}, got {places.min()} to {places.max()}."
            )
        if self.fit.known is not None and not self.fit.known[places].all():
            strange = self.design.plate.take(places[~self.fit.known[places]]).names
            raise DataError(
                f"{self.name}: it cannot correct rows it was not fitted to, here of {len(strange)} plates "
                f"({listed(strange)}); fit it to all rows (transductive), or use a correction for unseen plates."
            )


class _Applied:
    """Rows of a table after a correction. A `blocks.Rows`."""

    def __init__(self, correction: Correction, source: Blocks):
        self.correction, self.source = correction, source
        self.shape = (source.n, correction.width)
        self.dtype = correction.apply(source[:0], np.arange(0)).dtype

    def __getitem__(self, rows: Any) -> NDArray[Any]:
        return self.correction.apply(self.source[rows], np.arange(self.source.n)[rows])


@dataclass(frozen=True, eq=False)
class CorrectionOptions:
    """What a correction can be told; most can do without.

    rows           places of the rows to learn from; None is all. Corrections that scale by controls use, for a plate or batch without
                   rows among these, that plate's own controls
    whitener_map   rows to white principal components, leading first (pca-cs, rand-cs); None: fitted to `rows`
    ica_map        rows to independent components (ica-cs)
    level          what is corrected one by one. "auto": plates for control-z and control-mad; batches for the others, where there are
                   two
    epsilon        ridge: of sphering (default 0.01, in standard deviations), of the CORAL step of tvn (default 0.5). Others have none
    score          sphering without `epsilon`: the best of `EPSILON_GRID` by this score of the fitted correction, the larger if equal
    tvn            "batch": the controls of each batch get mean 0; "efaar-1.0": only those of all batches together, as there
    dimensions     how many principal components harmony works in, at most
    position_of, count_scale
                   of position-subtracted and count-regressed
    """

    rows: NDArray[Any] | None = None
    whitener_map: AffineMap | None = None
    ica_map: AffineMap | None = None
    level: Literal["plate", "batch", "auto"] = "auto"
    epsilon: float | None = None
    score: Callable[[Correction], float] | None = None
    sphering: SpheringMethod = "ZCA-cor"
    tvn: TvnMethod = "batch"
    dimensions: int = DIMENSIONS
    position_of: Literal["all", "controls"] = "all"
    count_scale: CountScale = "log"

    def __post_init__(self) -> None:
        for name, allowed in (
            ("level", ("plate", "batch", "auto")),
            ("sphering", ("ZCA-cor", "ZCA")),
            ("tvn", ("batch", "efaar-1.0")),
            ("position_of", ("all", "controls")),
            ("count_scale", ("log", "linear")),
        ):
            if getattr(self, name) not in allowed:
                raise UsageError(f"{name}: expected one of {', '.join(allowed)}, got {getattr(self, name)!r}.")
        if self.dimensions < 1:
            raise UsageError(f"dimensions: expected at least 1, got {self.dimensions}.")


def fit_correction(
    name: str, blocks: Blocks, design: Design, options: CorrectionOptions | None = None, run: Run | None = None
) -> Correction:
    """Fit one of `CORRECTIONS` to rows of a table, in passes over its blocks."""
    options, run = options or CorrectionOptions(), run or Run()
    if name not in CORRECTIONS:
        raise UsageError(f"unknown correction {name!r}; choose from {', '.join(CORRECTIONS)}.")
    spec = CORRECTIONS[name]
    if lacking := spec.lacking(design):
        raise DataError(f"{lacking}; name their columns, or leave this correction out.")
    task = Task.of(blocks, design, options.rows, level=options.level, run=run)

    def fitted(fit: Fit, *notes: Note) -> Correction:
        told = (*fit.notes, *notes)
        return Correction(name, fit.width, spec.unseen, task.everything, told, fit.alerts, design, blocks.d, fit)

    def white() -> tuple[AffineMap, Note]:
        if options.whitener_map is None:
            return task.white_map()
        return _checked(options.whitener_map, "whitener_map", blocks), Note("white_as_given")

    if name in ("control-z", "control-mad"):
        return fitted(fit_control_scaling(task, spread="sd" if name == "control-z" else "mad"))
    if name == "sphering":
        axes = control_axes(task, scaled=options.sphering == "ZCA-cor")
        if options.epsilon is None and options.score is not None:
            return _best(axes, fitted, options.score)
        return fitted(fit_sphering(axes, epsilon=SPHERING_EPSILON if options.epsilon is None else options.epsilon))
    if name == "tvn":
        ridge = CORAL_RIDGE if options.epsilon is None else options.epsilon
        return fitted(fit_tvn(task, ridge=ridge, method=options.tvn))
    if name == "combat":
        return fitted(fit_combat(task))
    if name == "position-subtracted":
        return fitted(fit_position(task, of=options.position_of))
    if name == "count-regressed":
        return fitted(fit_count(task, scale=options.count_scale))
    if name == "ica-cs":
        if options.ica_map is None:
            raise UsageError("ica-cs scales independent components; pass ica_map, the map from rows to them.")
        return fitted(fit_control_scaling(task, prefer="batch", first=_checked(options.ica_map, "ica_map", blocks)))
    if name == "harmony":
        return fitted(fit_harmony(task, dimensions=options.dimensions))
    first, note = white()
    if name == "rand-cs":
        turned = Note("random_rotation", {"seed": run.seed})
        return fitted(fit_control_scaling(task, prefer="batch", first=random_rotation(first, run.seed)), note, turned)
    return fitted(fit_control_scaling(task, prefer="batch", first=first), note)


def _best(axes: PrincipalAxes, fitted: Callable[..., Correction], score: Callable[[Correction], float]) -> Correction:
    """The sphering whose score is highest over the grid; of equal ones the most ridge, which changes the data least."""
    tried = [
        fitted(fit_sphering(axes, epsilon=float(e)), Note("epsilon_chosen", {"of": len(EPSILON_GRID)}))
        for e in EPSILON_GRID
    ]
    scores = np.array([score(correction) for correction in tried])
    if not np.isfinite(scores).any():
        raise DataError(f"sphering: the score was not finite for any of the {len(tried)} values of epsilon.")
    return tried[int(np.flatnonzero(scores == np.nanmax(scores))[-1])]


def _checked(given: AffineMap, name: str, blocks: Blocks) -> AffineMap:
    if given.matrix.shape[0] != blocks.d:
        raise UsageError(
            f"{name}: expected a map from the {blocks.d} columns of {blocks.name}, got one from {given.matrix.shape[0]}."
        )
    return given
