"""Base, PCA, ICA, random rotations and corrections as maps of rows, fitted to all rows or to those of training plates.

PCA, ICA and random rotations are one white space under three rotations. Moments are gathered in one pass for all folds; ICA
reads the rows it is fitted to from where they are stored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable import ica
from identifiable.blocks import Blocks, chunk_rows, in_threads, one_blas_thread
from identifiable.deconfounding.checkpoint import Arrays, Checkpoint, array_text, text_array
from identifiable.deconfounding.corrections.registry import CORRECTIONS, Correction, CorrectionOptions, fit_correction
from identifiable.deconfounding.design import Codes, Design
from identifiable.deconfounding.folds import Splits
from identifiable.groups import AffineMap, haar_rotation
from identifiable.ica import diagnostics
from identifiable.ica.fitting import affordable_starts
from identifiable.ica.refits import refit
from identifiable.ica.resolving import FEW_ROWS
from identifiable.ica.stability import stability
from identifiable.ica.whitening import Whitener
from identifiable.intake import gather_moments
from identifiable.moments import Array, Moments, leave_one_out
from identifiable.options import IcaOptions
from identifiable.results import Alert, Note
from identifiable.run import Run, Stage

Rank = int | Literal["auto"]
REPRESENTATIONS = ("base", "pca", "ica", "rand")
BLIND = ("position", "plate")  # they never see the embedding
READERS_NAMES: Mapping[str, str] = {  # as tables have them
    "base": "Base",
    "pca": "PCA",
    "ica": "PCA + ICA",
    "rand": "PCA + random",
    "position": "position only",
    "plate": "plate only",
}
REFITS = 2  # on halves of the plates: enough to say which components come back
BLOCKS = 384  # wells of a plate, each a place of its own; of larger plates, squares of four wells


@dataclass(frozen=True, eq=False)
class RowMap:
    """A representation: rows as stored, with their places in the design, to rows of `width` features.

    `affine` is set where it is one affine map. `identifiable` and `gaussian` count components of an ICA, None where not known.
    """

    apply: Callable[[Array, Codes], NDArray[Any]]
    width: int
    notes: tuple[Note, ...] = ()
    converged: bool = True
    identifiable: int | None = None
    gaussian: int | None = None
    affine: AffineMap | None = None
    alerts: tuple[Alert, ...] = ()

    @classmethod
    def of(cls, affine: AffineMap, **known: Any) -> RowMap:
        return cls(lambda X, index: affine.apply(X), affine.matrix.shape[1], affine=affine, **known)

    @property
    def arrays(self) -> Arrays:
        """The map as a checkpoint keeps it: what a result says of it, and the map itself if it is affine."""
        known = {name: getattr(self, name) for name in ("width", "converged", "identifiable", "gaussian")} | {
            "alerts": [[alert.code, alert.values] for alert in self.alerts],
            "notes": [[note.code, note.values] for note in self.notes],
        }
        affine = {} if self.affine is None else {"matrix": self.affine.matrix, "offset": self.affine.offset}
        return {"known": text_array(json.dumps(known)), **affine}

    @classmethod
    def of_arrays(cls, arrays: Arrays) -> RowMap:
        """The map that was kept; one that is not affine is not applied again, since all it was needed for was kept too."""
        known = json.loads(array_text(arrays["known"]))
        known["alerts"] = tuple(Alert(code, values) for code, values in known["alerts"])
        known["notes"] = tuple(Note(code, values) for code, values in known["notes"])
        if "matrix" in arrays:
            del known["width"]
            return cls.of(AffineMap(np.asarray(arrays["matrix"]), np.asarray(arrays["offset"])), **known)

        def never(X: Array, index: Codes) -> NDArray[Any]:
            raise AssertionError("all that this map was needed for was kept")

        return cls(never, **known)


class GatheredRows:
    """The rows some contrast needs, in memory: as float32 about their mean, so that offsets cost no digits."""

    def __init__(self, blocks: Blocks, index: Codes, centre: Array, workers: int | None):
        self.index, self.centre, self.workers = index, centre, workers
        self.values = np.empty((len(index), blocks.d), dtype=np.float32)

        def read(part: slice) -> None:
            self.values[part] = blocks[index[part]] - centre

        in_threads(read, self._parts(blocks.d), Run(workers=workers))

    def through(self, row_map: RowMap | None) -> NDArray[np.float32]:
        """The rows as a representation gives them; None is Base, about its mean."""
        if row_map is None:
            return self.values
        out = np.empty((len(self.index), row_map.width), dtype=np.float32)

        def fill(part: slice) -> None:
            out[part] = row_map.apply(self.values[part] + self.centre, self.index[part])

        in_threads(fill, self._parts(max(self.values.shape[1], row_map.width)), Run(workers=self.workers))
        return out

    def _parts(self, width: int) -> list[slice]:
        step = chunk_rows(width)
        return [slice(a, min(a + step, len(self.index))) for a in range(0, len(self.index), step)]


def principal_map(moments: Moments, rank: Rank, name: str) -> AffineMap:
    """To principal components of unit variance, the largest first; in each the largest loading is positive.

    Spans what ICA's own whitening spans. Rows are z @ back with white z; with the singular value decomposition
    back = U S V^T, z @ U are the principal components, and V their directions.
    """
    whitener = Whitener.of(moments, rank=rank, precision="double", name=name)
    turn, _, directions = np.linalg.svd(whitener.back, full_matrices=False)
    largest = directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)]
    turn = turn * np.where(largest < 0, -1.0, 1.0)
    return AffineMap.about(whitener.matrix @ turn, whitener.center, np.zeros(whitener.rank))


def blind_features(name: str, design: Design, index: Codes) -> NDArray[np.float32]:
    """What a classifier may see besides the embedding, for the same classifiers: where on the plate a well is, or its batch.

    Ours. Position: row, column and distance from the edge from 0 to 1, then an indicator for each row, column and well, so that
    trees and linear probes can both find wells, lines and edges. Of more than `BLOCKS` wells, squares of four stand for wells. Plate:
    an indicator for each batch, since of a plate that was held out the name tells nothing.
    """
    if name == "plate":
        assert design.batch is not None
        return _indicators(design.batch.codes, index)
    assert design.row is not None
    assert design.column is not None
    lines = (design.row - design.row.min(), design.column - design.column.min())
    scaled = [line / max(int(line.max()), 1) for line in lines]
    edge = np.min([np.minimum(line, 1 - line) for line in scaled], axis=0)
    side = 1 if len(np.unique(design.row * (design.column.max() + 1) + design.column)) <= BLOCKS else 2
    square = lines[0] // side * (int(lines[1].max()) // side + 1) + lines[1] // side
    numbers = np.column_stack([*scaled, edge]).astype(np.float32)
    return np.hstack([numbers[index], *(_indicators(codes, index) for codes in (*lines, square))])


def _indicators(codes: Codes, index: Codes) -> NDArray[np.float32]:
    kept, places = np.unique(codes, return_inverse=True)
    return np.eye(len(kept), dtype=np.float32)[places[index]]


class Transforms:
    """Every representation that is fitted, each fitted once and shared by all contrasts, classifiers and seeds.

    Where a fold is asked for, maps are fitted to the rows of the other folds; None fits to all rows. `diagnosed` is the one
    ICA whose components are checked by refits on halves of the plates.
    """

    def __init__(
        self,
        blocks: Blocks,
        design: Design,
        run: Run,
        *,
        rank: Rank,
        given: Mapping[str, AffineMap],
        by_fold: Splits | None,
        checkpoint: Checkpoint,
    ):
        self.blocks, self.design, self.run, self.rank, self.given = blocks, design, run, rank, given
        self.by_fold, self.checkpoint, self.clock = by_fold, checkpoint, checkpoint.clock
        self.diagnosed: tuple[Splits | None, int | None] | None = None
        self._moments: dict[str, list[Moments]] = {}
        self._whites: dict[tuple[str, int | None], AffineMap] = {}
        self._icas: dict[tuple[str, int | None], RowMap] = {}
        self._last_correction: tuple[tuple[str, str, int | None], RowMap] | None = None  # some hold all rows

    def everything(self) -> Moments:
        """Moments of all rows: of the folds that are needed anyway, merged, or of one pass."""
        parts = self._parts(self.by_fold)
        total = parts[0]
        for part in parts[1:]:
            total = total.merge(part)
        return total

    def training(self, splits: Splits | None, fold: int | None) -> Moments:
        """Moments of the rows a map is fitted to."""
        return self.everything() if fold is None else leave_one_out(self._parts(splits))[fold]

    def white(self, splits: Splits | None, fold: int | None) -> AffineMap:
        """To white principal components."""
        which = _fitted_to(splits, fold)
        if which not in self._whites:
            moments = self.training(splits, fold)
            with self.clock.stage("whitening"), one_blas_thread():
                self._whites[which] = principal_map(moments, self.rank, self.blocks.name)
        return self._whites[which]

    def row_map(self, name: str, rotation: int, splits: Splits, fold: int | None) -> RowMap | None:
        """The map of a representation or correction; None is Base."""
        if name == "base":
            return None
        if name in self.given:
            return RowMap.of(self.given[name], notes=(Note("fitted_elsewhere"),))
        if name == "ica":
            return self.ica(splits, fold)
        white = self.white(splits, fold)
        if name == "pca":
            return RowMap.of(white)
        if name == "rand":
            rank = white.matrix.shape[1]
            turn = haar_rotation(rank, np.random.default_rng([self.run.seed, 53, rotation]))
            return RowMap.of(white.then(AffineMap(turn, np.zeros(rank))))
        asked = (name, *_fitted_to(splits, fold))
        if self._last_correction is None or self._last_correction[0] != asked:
            self._last_correction = (asked, self._correction(name, white, splits, fold))
        return self._last_correction[1]

    def _correction(self, name: str, white: AffineMap, splits: Splits, fold: int | None) -> RowMap:
        unmixing = self.ica(splits, fold).affine if "ica_map" in CORRECTIONS[name].needs else None
        with self.clock.stage("corrections"):
            options = CorrectionOptions(rows=self._training_rows(splits, fold), whitener_map=white, ica_map=unmixing)
            found = fit_correction(name, self.blocks, self.design, options, self.run)
        return _correction_map(found)

    def too_few_rows(self, splits: Splits | None, fold: int | None) -> Mapping[str, int] | None:
        """Rows and components where ICA cannot be identified: fewer rows for each component than ICA itself asks for."""
        n, components = self.training(splits, fold).n, self.white(splits, fold).matrix.shape[1]
        enough = n >= FEW_ROWS * components
        return None if enough else {"rows": n, "components": components, "least": FEW_ROWS, "rank": n // FEW_ROWS}

    def ica(self, splits: Splits | None, fold: int | None) -> RowMap:
        """PCA + ICA, fitted to the rows of the other folds where they are stored."""
        which = _fitted_to(splits, fold)
        if which not in self._icas:
            diagnose = self.diagnosed is None
            if diagnose:
                self.diagnosed = (splits, fold)
            what = {
                "rows": None if splits is None or fold is None else splits.fold == fold,
                "rank": self.rank,
                "seed": self.run.seed,
                "diagnosed": diagnose,
            }
            arrays = self.checkpoint.part("ica", lambda: self._fit_ica(splits, fold, diagnose).arrays, **what)
            self._icas[which] = RowMap.of_arrays(arrays)
        return self._icas[which]

    def _fit_ica(self, splits: Splits | None, fold: int | None, diagnose: bool) -> RowMap:
        rows, plates = self.blocks, self.design.plate
        if (chosen := self._training_rows(splits, fold)) is not None:
            rows, plates = self.blocks.select(chosen), self.design.plate.take(chosen)
        moments = self.training(splits, fold)
        # As many starts as cost little; `resolve` would go on for half a minute where they disagree, here in every fold.
        starts = affordable_starts(moments.n, self.white(splits, fold).matrix.shape[1])
        settings = IcaOptions(rank=self.rank, seed=self.run.seed, stability=REFITS, restarts=starts)
        where = "all rows" if fold is None else f"fold {fold + 1}"
        with self.clock.stage("ica"), one_blas_thread():
            fitted = ica.fit(rows, moments, settings, self.run, stage=Stage("resolving", where))
        identifiable = None
        if diagnose and plates.size >= 2:
            with self.clock.stage("ica, refits", REFITS), one_blas_thread():
                refits = refit(rows, settings, fitted, plates.codes, self.run, where)
                covariance = moments.scatter / moments.n
                stable = stability(fitted.to_components, refits, covariance) if refits else None
                judged = diagnostics.judge(fitted.shape, fitted.directions, fitted.form, stable)
            identifiable = sum(j.identifiable for j in judged) if stable is not None else None
        n, rank = moments.n, fitted.whitener.rank
        few = {"rows": n, "components": rank, "least": FEW_ROWS} if n < FEW_ROWS * rank else {}
        return RowMap.of(
            fitted.to_components,
            converged=fitted.converged,
            identifiable=identifiable,
            gaussian=int(diagnostics.looks_gaussian(fitted.shape).sum()),
            notes=(Note("rows", {"rows": n, **few}),),
            alerts=(Alert("few_rows", {"name": self.blocks.name, **few}),) if few else (),
        )

    def _training_rows(self, splits: Splits | None, fold: int | None) -> Codes | None:
        """The rows a map is fitted to; None is all."""
        if splits is None or fold is None:
            return None
        return np.flatnonzero(~splits.test(fold, np.arange(self.design.n)))

    def _parts(self, splits: Splits | None) -> list[Moments]:
        key = "all" if splits is None else splits.held_out
        if key not in self._moments:
            part = None if splits is None else splits.fold
            count = 1 if splits is None else splits.count

            def gather() -> Arrays:
                with self.clock.stage("moments"):
                    return _moment_arrays(gather_moments([self.blocks], self.run, part=part, n_parts=count))

            self._moments[key] = _moments_of(self.checkpoint.part("moments", gather, part=part))
        return self._moments[key]


def _fitted_to(splits: Splits | None, fold: int | None) -> tuple[str, int | None]:
    return ("all", None) if splits is None or fold is None else (splits.held_out, fold)


def only_transductive(name: str) -> bool:
    """Whether a representation exists only for the rows it was fitted to."""
    return name in CORRECTIONS and CORRECTIONS[name].transductive


def _correction_map(found: Correction) -> RowMap:
    notes = found.notes
    if found.unseen == "no":
        notes = (*notes, Note("fitted_to_test"))
    return RowMap(found.apply, found.width, notes=notes, alerts=found.alerts)


def _moment_arrays(parts: list[Moments]) -> Arrays:
    return {
        "n": np.array([m.n for m in parts]),
        "shift": np.stack([m.shift for m in parts]),
        "total": np.stack([m.total for m in parts]),
        "gram": np.stack([m.gram for m in parts]),
    }


def _moments_of(arrays: Arrays) -> list[Moments]:
    fields = zip(*(np.asarray(arrays[name]) for name in ("n", "shift", "total", "gram")), strict=True)
    return [Moments(int(n), (len(shift),), shift, total, gram) for n, shift, total, gram in fields]
