"""Corrections fitted in passes over the rows: control scaling, ComBat, sphering, TVN, well positions and cell counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.blocks import fold
from identifiable.deconfounding.corrections.tasks import (
    Affine,
    Fit,
    Groups,
    Level,
    PrincipalAxes,
    Selected,
    Step,
    Task,
    confounded,
    group_moments,
    group_summaries,
    serving_controls,
)
from identifiable.deconfounding.design import Codes, Labels, Mask
from identifiable.groups import AffineMap, haar_rotation
from identifiable.intake import gather_moments
from identifiable.moments import Array
from identifiable.results import Alert, Note
from identifiable.run import Stage

MAD_TO_SD = 1.4826  # of a Gaussian; the constant of pycytominer and of R's mad()
CONVERGED = 1e-12  # of ComBat: relative step of the posterior means; scanpy stops at 1e-4, which moves its values by about as much / n
MAX_ROUNDS = 1000  # of ComBat
SPHERING_EPSILON = (
    0.01  # ours: a direction of the controls with 1 % of a column's standard deviation is half shrunk away
)
EPSILON_GRID = np.logspace(-4, 1, 25)  # evenly spaced in the logarithm, as the JUMP recipe tries; the range is ours
CORAL_RIDGE = 0.5  # efaar.tvn_on_controls
SEEN_DIRECTIONS = (
    0.25  # ours: below this share of directions seen by a batch's controls its CORAL is called mostly ridge
)

SpheringMethod = Literal["ZCA-cor", "ZCA"]
TvnMethod = Literal["batch", "efaar-1.0"]
CountScale = Literal["log", "linear"]


# -- each plate or batch centred and scaled by its own negative controls, in any linear coordinates


@dataclass(frozen=True, eq=False)
class GroupScaling:
    """``(first(x) - centre) / scale + base`` with the centre and scale of the group of each row."""

    codes: Codes
    centre: Array
    scale: Array
    base: Array | float = 0.0
    first: AffineMap | None = None

    def __call__(self, X: Array, index: Codes) -> Array:
        rows = X if self.first is None else self.first.apply(X)
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
                {"columns": int(constant.sum()), "level": groups.level, "first": int(np.flatnonzero(constant)[0])},
            )
        )
    if here.any():
        alerts.append(Alert("zero_spread", groups.named(here.any(axis=1))))
    return alerts


# -- ComBat: location and scale of every batch, shrunk towards what the columns of that batch have in common


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
    fitted = {"rows": int(counts.sum()), "groups": int(present.sum()), "level": groups.level}
    alerts = [*_degenerate(groups, counts, varies), *confounded(task, groups)]
    step = GroupScaling(groups.labels.codes, centre, scale, base=mean)
    return Fit(step, task.blocks.d, (Note("combat", fitted),), tuple(alerts), known=present[groups.labels.codes])


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


def _degenerate(groups: Groups, counts: NDArray[np.int64], varies: Mask) -> list[Alert]:
    alerts = []
    if (counts == 1).any():
        alerts.append(Alert("one_row_groups", groups.named(counts == 1)))
    if not varies.all():
        alerts.append(
            Alert(
                "constant_columns",
                {"columns": int((~varies).sum()), "level": groups.level, "first": int(np.flatnonzero(~varies)[0])},
            )
        )
    return alerts


# -- aligning on controls: sphering, and typical variation normalisation (TVN) with CORAL for each batch


def control_axes(task: Task, *, scaled: bool) -> PrincipalAxes:
    """The principal axes of the controls among the rows to fit on."""
    controls = task.blocks.select(task.fitted_controls)
    moments = gather_moments([controls], task.run)[0]
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
    note = Note("sphering", {"controls": axes.n, "epsilon": epsilon})
    return Fit(Affine(axes.map(turned)), len(axes.mean), (note,), axes.alerts)


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The covariance C of n centred rows, n - 1 in the denominator, as what it is on the directions they span."""

    n: int
    basis: Array
    variances: Array

    @classmethod
    def of(cls, rows: Array) -> Spectrum:
        _, singular, right = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
        return cls(len(rows), right.T, singular**2 / (len(rows) - 1))

    @property
    def scatter(self) -> Array:
        products: Array = (self.basis * ((self.n - 1) * self.variances)) @ self.basis.T
        return products

    def decorrelated(self, X: Array, ridge: float) -> Array:
        """X @ (C + ridge I)^(-1/2) = X / sqrt(ridge) + (X @ basis * gain) @ basis^T: exact, and as small as the rows it came from."""
        gain = 1 / np.sqrt(self.variances + ridge) - 1 / np.sqrt(ridge)
        turned: Array = X / np.sqrt(ridge) + (X @ self.basis * gain) @ self.basis.T
        return turned


@dataclass(frozen=True, eq=False)
class TypicalVariation:
    """Rows on white axes of all controls, in which the controls of every group get the same covariance, that of `root` @ `root`.

    A group without controls is taken to have that covariance already; `without` is then what is left to do.
    """

    white: Step
    codes: Codes
    spectra: Mapping[int, Spectrum]
    ridge: float
    root: Array | None = None
    without: float = 1.0

    def __call__(self, X: Array, index: Codes) -> Array:
        rows = self.white(X, index)
        group = self.codes[index]
        for k in np.unique(group).tolist():
            own = group == k
            if k not in self.spectra:
                rows[own] *= self.without
                continue
            plain = self.spectra[k].decorrelated(rows[own], self.ridge)
            rows[own] = plain if self.root is None else plain @ self.root
        return rows


def fit_tvn(task: Task, *, ridge: float = CORAL_RIDGE, method: TvnMethod = "batch") -> Fit:
    r"""Typical variation normalisation: whiten by all controls, then give the controls of every batch the same mean and covariance.

    Implements TVN (Ando, McLean and Berndl 2017) as descendants of EFAAR's `tvn_on_controls` have it: z-score on all controls, PCA
    on them, z-score on the controls of each batch, then in each batch
        x @ (C + 0.5 I)^(-1/2) @ (T + 0.5 I)^(1/2)
    with C the covariance of its controls and T that of all controls, n - 1 in the denominator.

    ``method="efaar-1.0"`` is the released efaar_benchmarking 1.0: the second z-score is on all controls, too, and T is left out. The
    mean of a batch then stays, and CORAL stretches it beside the rest: (C + 0.5 I)^(-1/2) shrinks the directions in which the
    controls of the batch differ, and their mean is none of these. With fewer controls than columns the batch can then be read from
    every control, better than before the correction.

    Axes without variance on the controls are dropped. A batch with one control is centred by it and scaled as the others are.
    """
    if not ridge > 0:
        raise UsageError(f"epsilon: the ridge of CORAL must be above 0, got {ridge}.")
    axes = control_axes(task, scaled=True)
    scaled = fit_control_scaling(task, prefer="batch", first=axes.whitening)
    groups, width = task.groups(prefer="batch"), scaled.width
    places = serving_controls(task, groups)[0]
    counts = groups.labels.count(places)
    several = places[counts[groups.labels.codes[places]] > 1]  # one control has no covariance
    rows = Selected.of(task, several, groups.labels.codes, groups.labels.size, axes.whitening)
    spectrum = Spectrum.of if method == "efaar-1.0" else _standardised_spectrum
    spectra = group_summaries(task, rows, spectrum, "CORAL") if several.size else {}
    alerts = [*axes.alerts, *scaled.alerts]
    seen = float(np.median(np.minimum(counts[counts > 0] - 1, width))) / width
    if seen < SEEN_DIRECTIONS:
        alerts.append(Alert("coral_mostly_ridge", {"level": groups.level, "share": seen, "directions": width}))
    note = Note("coral", {"controls": axes.n, "level": groups.level, "ridge": ridge})
    codes = groups.labels.codes
    if method == "efaar-1.0":
        step = TypicalVariation(Affine(axes.whitening), codes, spectra, ridge, without=1 / np.sqrt(1 + ridge))
    else:
        scatter = sum((own.scatter for own in spectra.values()), np.zeros((width, width)))
        values, vectors = np.linalg.eigh(scatter / max(len(places) - 1, 1))
        root = (vectors * np.sqrt(np.maximum(values, 0.0) + ridge)) @ vectors.T
        step = TypicalVariation(scaled.step, codes, spectra, ridge, root)
    return Fit(step, width, (*scaled.notes, note), tuple(alerts), axes=axes.vectors)


def _standardised_spectrum(rows: Array) -> Spectrum:
    """The covariance of the controls of a group after its own z-score."""
    spread = rows.std(axis=0)
    return Spectrum.of(rows / np.where(spread > 0, spread, 1.0))


# -- what a known covariate predicts: the mean of a well's position, the effect of the cell count


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
    note = Note("position_means", {"of": of, "addresses": seen, "rows": len(places)})
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
        **task.run.how,
        stage=Stage("cell counts"),
    )
    alerts = []
    if trend.flat:
        alerts.append(Alert("constant_count"))
    if not known.all():
        alerts.append(Alert("missing_counts", {"rows": int((~known).sum())}))
    covariate = np.where(known, covariate, trend.center)
    what = "log(1 + cell count)" if scale == "log" else "cell count"
    step = CountRegression(trend.slope, trend.center, covariate)
    return Fit(step, task.blocks.d, (Note("count_effect", {"covariate": what, "rows": len(places)}),), tuple(alerts))


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

    def finish(self) -> None:
        del self.rows, self.covariate  # as in `GroupMoments`

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
        alerts.append(Alert("addresses_once", {"addresses": [address.names[k] for k in np.flatnonzero(counts == 1)]}))
    if (counts == 0).any():
        alerts.append(Alert("addresses_unseen", {"addresses": [address.names[k] for k in np.flatnonzero(counts == 0)]}))
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
    return [Alert("layout_locked", {"treated": share})]
