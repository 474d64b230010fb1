"""Taking out what a known covariate predicts: the mean of a well's position, the effect of the cell count."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.blocks import fold
from identifiable.deconfounding.corrections.control_scaling import GroupScaling
from identifiable.deconfounding.corrections.correcting import Fit, Task, listed
from identifiable.deconfounding.corrections.group_statistics import Selected, group_moments
from identifiable.deconfounding.design import Labels
from identifiable.moments import Array
from identifiable.results import Alert

CountScale = Literal["log", "linear"]


def fit_position(task: Task, *, of: Literal["all", "controls"] = "all") -> Fit:
    """Subtract the mean over plates of every well address.

    Implements the well-position correction of the JUMP recipe (`of="all"`: all rows to fit on). `controls` uses control
    wells only, which spares treatments locked to an address but reaches only addresses where controls stand. An
    address that was not seen gets the overall mean.
    """
    address = task.design.address
    if address is None:
        raise DataError(f"{task.design.name}: position-subtracted needs the row and column of every well; name them.")
    places = task.rows if of == "all" else task.fitted_controls
    moments = group_moments(task, Selected.of(task, places, address.codes, address.size), "addresses")
    means = np.where(moments.counts[:, None] > 0, moments.means, moments.overall_mean)
    step = GroupScaling(address.codes, means, np.ones_like(means))
    seen = int((moments.counts > 0).sum())
    rows = "all rows" if of == "all" else "controls"
    note = f"mean of {rows} at {seen} addresses, {len(places)} rows"
    alerts = [*_few_rows(address, moments.counts), *(_locked(task, address) if of == "all" else [])]
    return Fit(step, task.blocks.d, (note,), tuple(alerts))


@dataclass(frozen=True, eq=False)
class CountRegression:
    """``x - slope * (covariate - mean)``: the mean stays, the trend goes."""

    slope: Array
    mean: float
    covariate: Array

    def __call__(self, X: Array, index: NDArray[np.intp]) -> Array:
        return X - np.outer(self.covariate[index] - self.mean, self.slope)


def fit_count(task: Task, *, scale: CountScale = "log") -> Fit:
    """Subtract the linear effect of the cell count, or of its logarithm (of one more, so that empty wells count).

    Ours, after the cell-count regression of the JUMP recipe: ordinary least squares for each column over the rows
    to fit on. Rows without a count are left as they are, and an alert says how many.
    """
    counts = task.design.cell_count
    if counts is None:
        raise DataError(f"{task.design.name}: count-regressed needs the cell count of every well; name its column.")
    known = np.isfinite(counts) & (counts >= 0)
    if not known[task.rows].any():
        raise DataError(f"{task.design.name}: no row to fit on has a cell count of at least 0.")
    covariate = np.where(known, counts, 0.0)
    covariate = np.log1p(covariate) if scale == "log" else covariate
    places = task.rows[known[task.rows]]
    rows = Selected.of(task, places, np.zeros(task.design.n, dtype=np.intp), 1)
    trend = fold(
        [rows.table],
        partial(Trend, rows, covariate[places]),
        workers=task.workers,
        progress=task.progress,
        stage="cell counts",
    )
    alerts = []
    if trend.flat:
        alerts.append(
            Alert("constant_count", "every row has the same cell count: there is no effect of it to take out.")
        )
    if not known.all():
        alerts.append(
            Alert(
                "missing_counts",
                f"{int((~known).sum())} rows have no cell count of at least 0: they are left as they are.",
            )
        )
    covariate = np.where(known, covariate, trend.center)
    what = "log(1 + cell count)" if scale == "log" else "cell count"
    step = CountRegression(trend.slope, trend.center, covariate)
    return Fit(step, task.blocks.d, (f"linear effect of {what} over {len(places)} rows",), tuple(alerts))


class Trend:
    """Least-squares slope of every column on one covariate; centred chunk by chunk, so large means cost no digits."""

    def __init__(self, rows: Selected, covariate: Array):
        self.rows, self.covariate = rows, covariate
        self.n = 0
        self.center = 0.0
        self.mean = np.zeros(rows.table.d)
        self.square = 0.0
        self.cross = np.zeros(rows.table.d)

    def add(self, first: int, rows: list[NDArray[Any]]) -> None:
        block = self.rows.read(first, rows[0])
        t = self.covariate[first : first + len(block)]
        center, mean = float(t.mean()), block.mean(axis=0)
        self._absorb(len(block), center, mean, float(((t - center) ** 2).sum()), (t - center) @ (block - mean))

    def merge(self, later: Trend) -> None:
        self._absorb(later.n, later.center, later.mean, later.square, later.cross)

    def _absorb(self, n: int, center: float, mean: Array, square: float, cross: Array) -> None:
        total = self.n + n
        along, across = center - self.center, mean - self.mean
        weight = self.n * n / total
        self.square += square + weight * along**2
        self.cross = self.cross + cross + weight * along * across
        self.center += along * n / total
        self.mean = self.mean + across * (n / total)
        self.n = total

    @property
    def flat(self) -> bool:
        """Whether the covariate varies by rounding only."""
        return self.square <= self.n * (1e-12 * max(abs(self.center), 1e-300)) ** 2

    @property
    def slope(self) -> Array:
        return np.zeros_like(self.cross) if self.flat else self.cross / self.square


def _few_rows(address: Labels, counts: NDArray[np.int64]) -> list[Alert]:
    alerts = []
    if (counts == 1).any():
        once = listed(address.names[k] for k in np.flatnonzero(counts == 1))
        alerts.append(
            Alert(
                "addresses_once",
                f"{int((counts == 1).sum())} addresses were seen once ({once}): subtracting their mean leaves nothing of that row.",
            )
        )
    if (counts == 0).any():
        unseen = listed(address.names[k] for k in np.flatnonzero(counts == 0))
        alerts.append(
            Alert(
                "addresses_unseen",
                f"{int((counts == 0).sum())} addresses are not among the rows it was fitted on ({unseen}): they get the overall mean.",
            )
        )
    return alerts


def _locked(task: Task, address: Labels) -> list[Alert]:
    """An alert where most treated rows stand at an address that holds one treatment only."""
    rows = task.rows[~task.design.control[task.rows]]
    if not rows.size:
        return []
    here = address.codes[rows]
    pairs = np.unique(np.column_stack([here, task.design.perturbation.codes[rows]]), axis=0)
    share = float((np.bincount(pairs[:, 0])[here] == 1).mean())
    if share <= 0.5:
        return []
    return [
        Alert(
            "layout_locked",
            f"{share:.0%} of the treated rows stand at an address that holds one treatment only: subtracting the mean of the "
            "address subtracts the treatment.",
        )
    ]
