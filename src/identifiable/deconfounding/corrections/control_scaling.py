"""Control scaling: each plate or batch centred and scaled by its own negative controls, in any linear coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from identifiable.deconfounding.corrections.correcting import Fit, Groups, Level, Task, serving_controls
from identifiable.deconfounding.corrections.group_statistics import Selected, group_moments, group_summaries
from identifiable.deconfounding.design import Codes
from identifiable.groups import AffineMap, haar_rotation
from identifiable.moments import Array
from identifiable.results import Alert

MAD_TO_SD = 1.4826  # of a Gaussian; the constant of pycytominer and of R's mad()


@dataclass(frozen=True, eq=False)
class GroupScaling:
    """``(first(x) - centre) / scale + base`` with the centre and scale of the group of each row."""

    codes: Codes
    centre: Array
    scale: Array
    base: Array | float = 0.0
    first: AffineMap | None = None

    def __call__(self, X: Array, index: Codes) -> Array:
        rows = X if self.first is None else self.first(X)
        group = self.codes[index]
        scaled: Array = (rows - self.centre[group]) / self.scale[group] + self.base
        return scaled


def fit_control_scaling(
    task: Task, *, spread: Literal["sd", "mad"] = "sd", prefer: Level = "plate", first: AffineMap | None = None
) -> Fit:
    """Centre and scale by controls: mean and standard deviation (n in the denominator), or median and 1.4826 MAD.

    Implements `StandardScaler` and `RobustMAD` of pycytominer fitted to the controls of each plate, and
    `centerscale_on_controls` of EFAAR. Ours: a spread of zero, which they divide by 1 or by 1e-18, is replaced by that
    of the other groups in the same column (pooled variance; median of the MADs), and by 1 where that is zero too.
    """
    groups = task.groups(prefer=prefer)
    places, notes, alerts = serving_controls(task, groups)
    rows = Selected.of(task, places, groups.labels.codes, groups.labels.size, first)
    found = _by_moments(task, rows) if spread == "sd" else _by_medians(task, rows)
    alerts += _zero_spread(groups, found)
    centre = np.where(found.counts[:, None] > 0, found.centre, found.typical_centre)
    scale = np.where(found.scale > 0, found.scale, found.typical_scale)  # of one control, or of none, it is zero too
    scale[scale == 0] = 1.0
    step = GroupScaling(groups.labels.codes, centre, scale, first=first)
    return Fit(step, rows.table.d, tuple(notes), tuple(alerts))


def random_rotation(white: AffineMap, seed: int) -> AffineMap:
    """The white coordinates turned by a uniformly random rotation: what ICA is compared with."""
    rank = white.matrix.shape[1]
    turn = haar_rotation(rank, np.random.default_rng(seed))
    return white.then(AffineMap(turn, np.zeros(rank)))


@dataclass(frozen=True, eq=False)
class _Measured:
    """Controls, centre and scale of every group; centre and scale of the groups together, for those without their own."""

    counts: NDArray[np.int64]
    centre: Array
    scale: Array
    typical_centre: Array
    typical_scale: Array


def _by_moments(task: Task, rows: Selected) -> _Measured:
    moments = group_moments(task, rows, "controls")
    counts, energy = moments.counts, moments.energy
    several = counts > 1
    pooled = energy[several].sum(axis=0) / max(int(counts[several].sum()), 1)
    scale = np.sqrt(energy / np.maximum(counts, 1)[:, None])
    return _Measured(counts, moments.means, scale, moments.overall_mean, np.sqrt(pooled))


def _by_medians(task: Task, rows: Selected) -> _Measured:
    found = group_summaries(task, rows, _median_and_mad, "controls")
    counts = np.bincount(rows.codes, minlength=rows.size).astype(np.int64)
    centre, scale = np.zeros((rows.size, rows.table.d)), np.zeros((rows.size, rows.table.d))
    for group, (median, mad) in found.items():
        centre[group], scale[group] = median, mad
    several = scale[counts > 1]
    typical = np.median(several, axis=0) if len(several) else np.zeros(rows.table.d)
    return _Measured(counts, centre, scale, np.median(centre[counts > 0], axis=0), typical)


def _median_and_mad(rows: Array) -> tuple[Array, Array]:
    median = np.median(rows, axis=0)
    return median, MAD_TO_SD * np.median(np.abs(rows - median), axis=0)


def _zero_spread(groups: Groups, found: _Measured) -> list[Alert]:
    constant = found.typical_scale == 0
    here = (found.scale == 0) & ~constant & (found.counts > 1)[:, None]
    alerts = []
    if constant.any():
        alerts.append(
            Alert(
                "constant_on_controls",
                f"{int(constant.sum())} columns have no spread on the controls of any {groups.level} "
                f"(first, from 0: {int(np.flatnonzero(constant)[0])}): they are centred, not scaled.",
            )
        )
    if here.any():
        alerts.append(
            Alert(
                "zero_spread",
                f"in {int(here.any(axis=1).sum())} {groups.levels} ({groups.names(here.any(axis=1))}) the controls have no "
                f"spread in some columns: there the spread of the other {groups.levels} is used.",
            )
        )
    return alerts
