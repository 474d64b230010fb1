"""Aligning on controls: sphering, and typical variation normalisation (TVN) with CORAL for each batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from identifiable._checks import UsageError
from identifiable.deconfounding.corrections.correcting import Affine, Fit, Task, serving_controls
from identifiable.deconfounding.corrections.group_statistics import Selected, group_summaries
from identifiable.deconfounding.corrections.principal_axes import PrincipalAxes
from identifiable.deconfounding.design import Codes
from identifiable.groups import AffineMap
from identifiable.intake import gather_moments
from identifiable.moments import Array
from identifiable.results import Alert

SPHERING_EPSILON = (
    0.01  # ours: a direction of the controls with 1 % of a column's standard deviation is half shrunk away
)
EPSILON_GRID = np.logspace(
    -4, 1, 25
)  # 25 values evenly spaced in the logarithm, as the JUMP recipe tries; the range is ours
CORAL_RIDGE = 0.5  # efaar.tvn_on_controls
SEEN_DIRECTIONS = (
    0.25  # ours: below this share of directions seen by a batch's controls its CORAL is called mostly ridge
)

SpheringMethod = Literal["ZCA-cor", "ZCA"]


def control_axes(task: Task, *, scaled: bool) -> PrincipalAxes:
    """The principal axes of the controls among the rows to fit on."""
    controls = task.blocks.select(task.fitted_controls)
    moments = gather_moments([controls], workers=task.workers, progress=task.progress)[0]
    return PrincipalAxes.of(moments, scaled=scaled, rows="controls")


def fit_sphering(axes: PrincipalAxes, *, epsilon: float = SPHERING_EPSILON) -> Fit:
    r"""Give the controls the identity as covariance, as near to the columns as that can be (ZCA).

    Implements ZCA and ZCA-cor of Kessy et al. 2016 with the ridge of pycytominer: with E, L the eigenvectors and
    eigenvalues of the correlation (ZCA: covariance) of the controls, n - 1 in the denominator,
        z = (x - mean) / scale @ E (sqrt(L) + epsilon)^-1 E^T.
    pycytominer adds its epsilon to singular values, so `epsilon` here is theirs over sqrt(n - 1). From the covariance, never
    an n x n factor; directions without variance are dropped where pycytominer fails or scales them by the smallest that has.
    """
    if not epsilon >= 0:
        raise UsageError(f"epsilon: expected a number of at least 0, got {epsilon}.")
    spread = np.sqrt(axes.variances * axes.n / (axes.n - 1)) + epsilon
    turned = axes.vectors / spread @ axes.vectors.T
    note = f"sphered on {axes.n} controls with epsilon {epsilon:.3g}"
    return Fit(Affine(axes.map(turned)), len(axes.mean), (note,), axes.alerts)


@dataclass(frozen=True, eq=False)
class Recolouring:
    """``(C + ridge I)^(-1/2)`` for the covariance C of a few rows, as what it does on the directions they span.

    x @ root = x / sqrt(ridge) + (x @ basis * gain) @ basis^T: exact, and as small as the rows it came from.
    """

    basis: Array
    gain: Array
    ridge: float

    @classmethod
    def of(cls, rows: Array, ridge: float) -> Recolouring:
        centred = (rows - rows.mean(axis=0)) / np.sqrt(len(rows) - 1)
        _, singular, right = np.linalg.svd(centred, full_matrices=False)
        return cls(right.T, 1 / np.sqrt(singular**2 + ridge) - 1 / np.sqrt(ridge), ridge)

    def __call__(self, X: Array) -> Array:
        coloured: Array = X / np.sqrt(self.ridge) + (X @ self.basis * self.gain) @ self.basis.T
        return coloured


@dataclass(frozen=True, eq=False)
class TypicalVariation:
    """Whiten by all controls, then recolour every batch by its own; without any, as if their covariance were the identity."""

    whiten: AffineMap
    codes: Codes
    recolour: Mapping[int, Recolouring]
    ridge: float

    def __call__(self, X: Array, index: Codes) -> Array:
        white = self.whiten(X)
        group = self.codes[index]
        for k in np.unique(group).tolist():
            rows = group == k
            white[rows] = self.recolour[k](white[rows]) if k in self.recolour else white[rows] / np.sqrt(1 + self.ridge)
        return white


def fit_tvn(task: Task, *, ridge: float = CORAL_RIDGE) -> Fit:
    r"""Typical variation normalisation: whiten by the controls, then align the covariance of each batch's controls.

    Implements `tvn_on_controls` of EFAAR (after Ando, McLean and Berndl 2017): z-score on controls, PCA on controls,
    z-score again, then in each batch x @ (C + 0.5 I)^(-1/2) with C the covariance of its controls, n - 1 in the denominator.
    Axes without variance on the controls are dropped. Rows of a batch are not centred, as there.
    """
    if not ridge > 0:
        raise UsageError(f"epsilon: the ridge of CORAL must be above 0, got {ridge}.")
    axes = control_axes(task, scaled=True)
    whiten = axes.whitening
    groups = task.groups(prefer="batch")
    places, notes, alerts = serving_controls(task, groups)
    counts = np.bincount(groups.labels.codes[places], minlength=groups.labels.size)
    several = places[counts[groups.labels.codes[places]] > 1]  # one control has no covariance
    rows = Selected.of(task, several, groups.labels.codes, groups.labels.size, whiten)
    width = whiten.matrix.shape[1]
    recolour = group_summaries(task, rows, lambda block: Recolouring.of(block, ridge), "CORAL") if several.size else {}
    seen = float(np.median(np.minimum(counts[counts > 0] - 1, width))) / width
    if seen < SEEN_DIRECTIONS:
        alerts.append(
            Alert(
                "coral_mostly_ridge",
                f"half of the {groups.levels} have so few controls that CORAL sees at most {seen:.0%} of the {width} directions "
                "and the ridge decides the rest; use a level with more controls (a batch of many plates).",
            )
        )
    notes += [f"whitened by {axes.n} controls, then CORAL for each {groups.level} with ridge {ridge:g}"]
    step = TypicalVariation(whiten, groups.labels.codes, recolour, ridge)
    return Fit(step, width, tuple(notes), (*axes.alerts, *alerts))
