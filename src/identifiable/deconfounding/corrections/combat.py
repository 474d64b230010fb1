"""ComBat: location and scale of every batch, shrunk towards what the columns of that batch have in common."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError
from identifiable.deconfounding.corrections.control_scaling import GroupScaling
from identifiable.deconfounding.corrections.correcting import Fit, Task, confounded
from identifiable.deconfounding.corrections.group_statistics import Selected, group_moments
from identifiable.deconfounding.design import Mask
from identifiable.moments import Array
from identifiable.results import Alert

CONVERGED = (
    1e-12  # relative step of the posterior means; scanpy stops at 1e-4, which moves its values by about as much / n
)
MAX_ROUNDS = 1000


def fit_combat(task: Task) -> Fit:
    r"""Parametric empirical-Bayes ComBat without covariates.

    Implements Johnson, Li and Rabinovic 2007 as in `scanpy.pp.combat`, from the mean and variance of every batch alone:
    with the overall mean m and the pooled variance s^2 of a column, and posterior means g, D of a batch's shift and variance,
        x -> (x - m - s g) / sqrt(D) + m.
    A batch that was not fitted cannot be corrected. A batch of one row is shifted only; columns that are constant
    within every batch are set to their overall mean and kept out of the priors (scanpy divides zero by zero there).
    """
    groups = task.groups(prefer="batch")
    rows = Selected.of(task, task.rows, groups.labels.codes, groups.labels.size)
    moments = group_moments(task, rows, "ComBat")
    counts, energy = moments.counts, moments.energy
    present = counts > 0
    if present.sum() < 2:
        raise DataError(
            f"{task.design.name}: ComBat needs rows of at least two {groups.levels}, got {int(present.sum())}; "
            "there is nothing to align."
        )
    mean = moments.overall_mean
    spread = np.sqrt(energy.sum(axis=0) / counts.sum())
    varies = spread > 0
    if not varies.any():
        raise DataError(
            f"{task.blocks.name}: every column is constant within every {groups.level}; ComBat has no scale to use."
        )
    centre, scale = np.tile(mean, (len(counts), 1)), np.ones((len(counts), len(mean)))
    for k in np.flatnonzero(present):
        shift = (moments.means[k, varies] - mean[varies]) / spread[varies]
        squares = energy[k, varies] / spread[varies] ** 2
        shift, variance = _posterior(shift, squares, int(counts[k]))
        centre[k, varies] += spread[varies] * shift
        scale[k, varies] = np.sqrt(variance)
        centre[k, ~varies] = moments.means[k, ~varies]
    note = f"{int(counts.sum())} rows of {int(present.sum())} {groups.levels}; rows of any other cannot be corrected"
    alerts = [*_degenerate(groups.levels, groups.names(counts == 1), counts, varies), *confounded(task, groups)]
    step = GroupScaling(groups.labels.codes, centre, scale, base=mean)
    return Fit(step, task.blocks.d, (note,), tuple(alerts), known=present[groups.labels.codes])


def _posterior(shift: Array, squares: Array, n: int) -> tuple[Array, Array]:
    """Posterior means of shift and variance in one batch: normal and inverse-gamma priors matched over its columns.

    `shift` and `squares` are the mean and the centred sum of squares of the n standardised rows in each column.
    """
    typical, width = shift.mean(), shift.var()
    if n == 1:
        return (width * shift + typical) / (width + 1), np.ones_like(shift)
    variance = squares / (n - 1)
    # Over columns one variance has d, the other d - 1 in the denominator: so does scanpy, and only few columns feel it.
    level, breadth = variance.mean(), variance.var(ddof=1) if len(variance) > 1 else 0.0
    if breadth <= (1e-12 * level) ** 2:  # no column differs from the others: the prior is a point
        prior = None
    else:
        prior = (2 * breadth + level**2) / breadth, (level * breadth + level**3) / breadth
    posterior = np.full_like(variance, level) if prior is None else variance
    moved = shift
    for _ in range(MAX_ROUNDS):
        before, moved_before = posterior, moved
        moved = (width * n * shift + posterior * typical) / (width * n + posterior)
        if prior is not None:
            posterior = (0.5 * (squares + n * (shift - moved) ** 2) + prior[1]) / (n / 2 + prior[0] - 1)
        change = max(np.abs(moved - moved_before).max(), np.abs(posterior / before - 1).max())
        if change < CONVERGED:
            return moved, posterior
    raise DataError(
        f"ComBat did not settle in {MAX_ROUNDS} rounds (last change {change:.1e}); are the columns on wild scales?"
    )


def _degenerate(levels: str, alone: str, counts: NDArray[np.int64], varies: Mask) -> list[Alert]:
    alerts = []
    if (counts == 1).any():
        alerts.append(
            Alert(
                "one_row_groups",
                f"{int((counts == 1).sum())} {levels} have one row ({alone}): shifted by ComBat, their spread left as it is.",
            )
        )
    if not varies.all():
        alerts.append(
            Alert(
                "constant_columns",
                f"{int((~varies).sum())} columns are constant within every one of the {levels} "
                f"(first, from 0: {int(np.flatnonzero(~varies)[0])}): they become their overall mean.",
            )
        )
    return alerts
