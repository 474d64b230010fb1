"""InfoMEC: modularity, explicitness and compactness in units of information, in the four versions that circulate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from identifiable._checks import DataError, UsageError
from identifiable.blocks import in_threads
from identifiable.disentanglement import kernels, small
from identifiable.disentanglement.binned import BINS, factor_classes, factor_latent, filled_factors, information
from identifiable.disentanglement.codes import Array, Codes, FactorColumn, Labels, as_codes
from identifiable.disentanglement.kernels import AT_ONCE, CONVERGED, GOES_ON, TAKEN
from identifiable.results import Alert, Metric
from identifiable.run import Run

GRADIENT_TOLERANCE = 1e-4  # scikit-learn's `tol`, here of the gradient of a sum
RELATIVE_TOLERANCE = 2.220446049250313e-09  # scipy's own
Part = Literal["infom", "infoe", "infoc"]
Spread = Literal["range", "iqr"]
PARTS: tuple[Part, ...] = ("infom", "infoe", "infoc")

LARGEST_ONE_HOT = 2**27  # indicators: a gigabyte, and as much again while they are used
LITTLE = 0.1  # largest NMI of noise in 100 rows and more; below, InfoM and InfoC are shares of chance
HIGH_FLOOR = 0.05  # in-sample InfoE of noise from which on it is said
CONVERGED_STEPS = 2000  # of `converged_infoe`, whose regressions are to end at their optimum
CONVERGED_TOLERANCE = 1e-12


@dataclass(frozen=True)
class Profile:
    """One version of InfoMEC.

    A continuous latent is active if its `spread` is above `active_share` of the largest; a discrete one if it is above
    `discrete_active`, of the largest where `discrete_relative`. `drops_uninformative`: latents without any information take no
    part in InfoM; otherwise they count as 0. `one_hot_floats`: discrete latents that are no whole numbers are one-hot for
    InfoE, too; otherwise they are standardised.
    """

    source: str
    neighbours: int
    spread: Spread
    active_share: float
    discrete_active: float
    discrete_relative: bool
    steps: int
    drops_uninformative: bool
    one_hot_floats: bool


PROFILES = MappingProxyType(
    {
        "hsu-standalone": Profile(
            "Hsu et al. 2023, infomec.py (August 2023)", 10, "range", 1 / 20, 0.0, False, 100, False, True
        ),
        "hsu-training": Profile(
            "Hsu et al. 2023, training code",
            3,
            "range",
            1 / 8,
            1 / 8,
            True,
            100,
            True,
            False,
        ),
        "tripod": Profile("Hsu et al. 2024, tripod", 10, "iqr", 1 / 10, 0.1, False, 100, False, True),
        "factorqvae": Profile("FactorQVAE, an independent port", 3, "range", 1 / 20, 0.0, False, 500, False, True),
    }
)


def infomec(
    latents: Any,
    factors: Any = None,
    *,
    profile: str = "hsu-standalone",
    seed: int = 0,
    holdout: float = 0.0,
    parts: Sequence[Part] = PARTS,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
    workers: int | None = None,
) -> Metric:
    r"""InfoM, InfoE and InfoC of latents and the factors of the same rows.

    Implements Hsu et al. (2023) in one of four named versions. With N_ij the mutual information of factor i and latent j over
    the entropy of the factor, and a latents active (that vary enough), n_s factors,

        InfoM = (mean over active j of max_i N_ij / sum_i N_ij - 1 / n_s) / (1 - 1 / n_s)
        InfoC = (mean over i of max_j N_ij / sum_j N_ij - 1 / a) / (1 - 1 / a), over active j
        InfoE = mean over i of 1 - (cross-entropy of a logistic regression on all latents) / log(classes).

    Continuous latents: N by the nearest neighbours of Ross (2014), exactly; discrete ones: by counting. The regression has no
    penalty, balances classes and stops after the profile's number of L-BFGS steps, converged or not (`details` and an alert say
    so); its null is log(classes), which the original fits. Equal to the original code to 1e-9 where that runs with scikit-learn up
    to 1.3 (the lbfgs of 1.4 and later stops by another rule), InfoE of regressions that stop early to 1e-6: the
    original itself moves by 1e-8 when its rows change their order.

    InfoE is fitted and scored on the same rows, as in the original, so noise raises it: to about d (classes - 1) / (2 n log classes)
    for d latents where that is small, and to 1 where the latents separate the classes. The alert ``infoe_in_sample`` says where that
    level is above 0.05; pass `holdout`, or compare with shuffled factors (``--null``).

    Ours: a ratio 0 / 0 counts as no preference (a score of 0) where the originals give NaN, but is left out under
    ``hsu-training``, as there; InfoM of one factor and InfoC of one active latent, where the originals divide by zero, are 0 with
    an alert. Continuous factors are put into 20 bins of equal width for N, and InfoE takes the R² of least squares for them.

    Scores are not comparable between profiles, nor between discrete and continuous latents. InfoM of an almost perfect code is
    far below 1 if it is noiseless, because mutual information does not care how small a leak is: see `noise_sweep`.

    Parameters
    ----------
    latents, factors
        (n, d) numbers and (n, m) numbers or words, of the same rows.
    profile
        ``hsu-standalone``, ``hsu-training`` (with which the published runs were logged), ``tripod`` or ``factorqvae``.
    seed
        Of the noise of 1e-10 that breaks ties, and of the rows held out.
    holdout
        Share of the rows on which InfoE is scored and not fitted; 0, as in the originals: the same rows for both.
    parts
        Which of the three scores to compute.
    discrete
        Whether latents are discrete codes; by default they are if they are integers.

    >>> rng = np.random.default_rng(0)
    >>> S = rng.integers(4, size=(2000, 2))
    >>> found = infomec(S + 0.1 * rng.standard_normal(S.shape), S)
    >>> round(found.infom, 1), round(found.infoc, 1)
    (1.0, 1.0)
    """
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    chosen = _profile(profile)
    wanted = [p for p in PARTS if p in parts]
    if not wanted or set(parts) - set(PARTS):
        raise UsageError(f"parts {tuple(parts)}: expected some of {', '.join(PARTS)}.")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
        raise UsageError(f"seed {seed!r}: expected a whole number from 0 to 2^32 - 1.")
    if not 0 <= holdout < 1:
        raise UsageError(f"holdout {holdout!r}: expected a share of the rows, from 0 up to below 1.")
    scores: dict[str, float] = dict.fromkeys(wanted, math.nan)
    details: dict[str, Any] = {}
    alerts = list(codes.alerts)
    matrix = None
    # In threads the longest work should begin first: regressions, and of those the ones with many classes.
    explaining = _explained(codes, chosen, holdout, seed) if "infoe" in wanted else []
    order = sorted(range(len(explaining)), key=lambda i: -codes.factors[i].about.classes)
    informing = _informed(codes, chosen, seed) if {"infom", "infoc"} & set(wanted) else []
    tasks = [*(explaining[i] for i in order), *informing]
    prepare(codes, Run())
    done: list[Any] = in_threads(lambda task: task(), tasks, Run(workers=workers))
    if informing:
        normalised: Array = np.stack(done[len(explaining) :], axis=1)
        active = active_latents(codes, chosen)
        concentrated, more, found = _concentrations(normalised, active, chosen, codes)
        found += _told_apart(normalised, active, chosen, codes)
        scores |= {name: value for name, value in concentrated.items() if name in wanted}
        details |= {"active": active.tolist(), **more}
        alerts += found
        matrix = factor_latent("mutual information over factor entropy", normalised)
    if explaining:
        fits: list[_Explained] = [done[order.index(i)] for i in range(len(explaining))]
        scores["infoe"] = float(np.mean([fit.score for fit in fits]))
        details |= {
            "infoe_of_factor": [fit.score for fit in fits],
            "converged_of_factor": [fit.converged for fit in fits],
        }
        alerts += _stopped_early(codes, fits, chosen)
        alerts += _overfitted(codes, chosen) if not holdout else _uninformed(codes, fits)
    settings = {"profile": profile, **asdict(chosen), "latents": "discrete" if codes.discrete else "continuous"}
    settings |= {"seed": seed, "holdout": holdout, "bins of continuous factors": BINS}
    return Metric(scores, settings, matrix, details, tuple(alerts))


def converged_infoe(codes: Codes, *, workers: int | None = None) -> float:
    """InfoE where its regressions have converged, which an invertible linear map of the latents cannot change.

    Ours. Latents are whitened first: the optimum is the same, and is reached in fewer steps.
    """
    centred = codes.latents - codes.latents.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    kept = singular > singular.max(initial=0.0) * max(centred.shape) * np.finfo(np.float64).eps
    rows = design(left[:, kept] * math.sqrt(len(centred)))
    tolerances = {"gradient_tolerance": GRADIENT_TOLERANCE, "relative_tolerance": CONVERGED_TOLERANCE}
    everyone = _Part.of(rows, np.ones(len(rows), dtype=bool))
    prepare(codes, Run())
    _ = everyone.regressors.blocks
    tasks = [partial(_explain, f, CONVERGED_STEPS, everyone, everyone, **tolerances) for f in codes.factors]
    fits = in_threads(lambda task: task(), tasks, Run(workers=workers))
    return float(np.mean([fit.score for fit in fits]))


def active_latents(codes: Codes, profile: Profile) -> NDArray[np.bool_]:
    """Which latents vary enough to count."""
    if profile.spread == "iqr":
        low, high = np.quantile(codes.latents, [0.25, 0.75], axis=0)
        spread = high - low
    else:
        spread = np.ptp(codes.latents, axis=0)
    if codes.discrete:
        threshold = profile.discrete_active * (spread.max() if profile.discrete_relative else 1.0)
    else:
        threshold = spread.max() * profile.active_share
    active: NDArray[np.bool_] = spread > threshold
    return active


def prepare(codes: Codes, run: Run) -> None:
    """Compile what threads will call, unless the table has few numbers."""
    classes = max((factor.about.classes for factor in codes.factors), default=0)
    if codes.n > small.FEW_ROWS or not few(codes.n * (codes.d + 1), classes):
        kernels.prepare(run)


def _profile(name: str) -> Profile:
    if name not in PROFILES:
        raise UsageError(f"profile {name!r}: expected one of {', '.join(PROFILES)}.")
    return PROFILES[name]


def _informed(codes: Codes, profile: Profile, seed: int) -> list[Callable[[], Array]]:
    """One task for each latent: its mutual information with every factor, over the entropy of the factor."""
    if codes.discrete:
        table = information(codes)
        entropies = table.factor_entropy
        return [partial(np.divide, table.mutual[:, j], entropies) for j in range(codes.d)]
    classes = [np.unique(c, return_inverse=True)[1].reshape(-1) for c in factor_classes(codes)]
    entropy = np.array([_entropy(c) for c in classes])
    digammas = digamma_table(codes.n)

    def of_latent(j: int) -> Array:
        column = sorted_column(codes.latents[:, j], seed)
        found: Array = np.array([ross(column, c, profile.neighbours, digammas) for c in classes]) / entropy
        return found

    return [partial(of_latent, j) for j in range(codes.d)]


def _entropy(codes: Labels) -> float:
    share = np.bincount(codes) / len(codes)
    return float(-(share * np.log(share)).sum())


def _concentrations(
    normalised: Array, active: NDArray[np.bool_], profile: Profile, codes: Codes
) -> tuple[dict[str, float], dict[str, Any], list[Alert]]:
    """InfoM and InfoC, the figures of single latents and factors they are means of, and what had to be defined."""
    alerts = []
    n_factors, n_active = len(normalised), int(active.sum())
    kept = normalised[:, active]
    of_latent, told = _preferences(kept.T, profile.drops_uninformative)
    silent = [name for name, tells in zip(np.array(codes.latent_names)[active], told, strict=True) if not tells]
    if silent:
        done = "left_out" if profile.drops_uninformative else "counted_as_0"
        alerts.append(Alert("uninformative_latents", {done: [str(name) for name in silent]}))
    of_factor, _ = _preferences(kept, drop=False)
    infom = _above_chance(of_latent[~np.isnan(of_latent)], n_factors)
    infoc = _above_chance(of_factor, n_active)
    if n_factors == 1:
        alerts.append(Alert("one_factor"))
    if n_active == 0:
        alerts.append(Alert("no_active_latent"))
    elif n_active == 1:
        alerts.append(Alert("one_active_latent"))
    figures: list[float | None] = [None] * codes.d
    for j, value in zip(np.flatnonzero(active), of_latent, strict=True):
        figures[j] = None if math.isnan(value) else float(value)
    more = {"preference_of_latent": figures, "preference_of_factor": of_factor.tolist()}
    return {"infom": infom, "infoc": infoc}, more, alerts


def _told_apart(normalised: Array, active: NDArray[np.bool_], profile: Profile, codes: Codes) -> list[Alert]:
    """Where the mutual information is not what InfoM and InfoC take it for."""
    alerts = []
    if normalised.max() < LITTLE:
        alerts.append(Alert("no_information", {"nmi": float(normalised.max()), "below": LITTLE}))
    pruned = np.flatnonzero(~active & (normalised.max(axis=0) >= LITTLE))
    if pruned.size:
        names = {codes.latent_names[j]: float(normalised[:, j].max()) for j in pruned}
        alerts.append(Alert("pruned_latents", {"informative": names, "spread": profile.spread}))
    alerts += filled_factors(codes)
    if codes.discrete:
        return alerts
    noise, spread = JITTER * np.abs(codes.latents).mean(axis=0), codes.latents.std(axis=0)
    blurred = (noise * codes.n > spread) & (np.ptp(codes.latents, axis=0) > 0)  # values lie a spread / n apart
    if blurred.any():
        alerts.append(
            Alert(
                "far_from_zero",
                {
                    "latents": [codes.latent_names[j] for j in np.flatnonzero(blurred)],
                    "noise": float((noise[blurred] / spread[blurred]).max()),
                },
            )
        )
    return alerts


def _preferences(rows: Array, drop: bool) -> tuple[Array, NDArray[np.bool_]]:
    """Largest over sum of each row, and which rows have a sum; without one: NaN to `drop` it, or what no preference gives."""
    total = rows.sum(axis=1)
    told = total > 0
    none = math.nan if drop else 1 / max(rows.shape[1], 1)
    largest = rows.max(axis=1, initial=0.0)
    return np.where(told, largest / np.where(told, total, 1.0), none), told


def _above_chance(preferences: Array, choices: int) -> float:
    """The mean preference, 0 where all `choices` are alike and 1 where one has it all."""
    if choices < 2 or not len(preferences):
        return 0.0
    return float((preferences.mean() - 1 / choices) / (1 - 1 / choices))


@dataclass(frozen=True)
class _Explained:
    score: float
    converged: bool


def _explained(codes: Codes, profile: Profile, holdout: float, seed: int) -> list[Callable[[], _Explained]]:
    """One task for each factor."""
    rows = design(_features(codes, profile))
    test = np.zeros(codes.n, dtype=bool)
    if holdout:
        test[np.random.default_rng(seed).permutation(codes.n)[: max(1, round(holdout * codes.n))]] = True
    if test.all():
        raise UsageError(f"holdout {holdout}: leaves none of {codes.n} rows to fit on; hold fewer out.")
    train = _Part.of(rows, ~test)
    scored = _Part.of(rows, test) if holdout else train
    if any(factor.codes is not None for factor in codes.factors):
        _ = train.regressors.blocks  # once, before threads ask for them
    return [partial(_explain, factor, profile.steps, train, scored) for factor in codes.factors]


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows, to fit on or to score."""

    chosen: NDArray[np.bool_]
    rows: Array

    @classmethod
    def of(cls, rows: Array, chosen: NDArray[np.bool_]) -> _Part:
        return cls(chosen, rows[chosen])

    @cached_property
    def regressors(self) -> Regressors:
        return Regressors(self.rows)


def _one_hot(codes: Codes, profile: Profile) -> bool:
    return codes.discrete and (profile.one_hot_floats or bool((codes.latents == np.rint(codes.latents)).all()))


def _features(codes: Codes, profile: Profile) -> Array:
    """Latents one-hot if they are discrete, standardised otherwise."""
    if _one_hot(codes, profile):
        width = sum(len(np.unique(z)) for z in codes.latents.T)
        if width * codes.n > LARGEST_ONE_HOT:
            raise DataError(
                f"latents: {width} values in all, and InfoE of discrete latents takes an indicator of each for {codes.n} rows; pass "
                "discrete=False (--continuous) if they are numbers, or parts=('infom', 'infoc')."
            )
        return np.concatenate([(z[:, None] == np.unique(z)).astype(np.float64) for z in codes.latents.T], axis=1)
    spread = codes.latents.std(axis=0)
    standardised: Array = (codes.latents - codes.latents.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return standardised


def _explain(
    factor: FactorColumn,
    steps: int,
    train: _Part,
    scored: _Part,
    *,
    gradient_tolerance: float = GRADIENT_TOLERANCE,
    relative_tolerance: float = RELATIVE_TOLERANCE,
) -> _Explained:
    if factor.codes is None:
        return _Explained(_r2(factor.values, train, scored), True)
    n_classes = factor.about.classes
    fitted = regress(
        train.regressors,
        factor.codes[train.chosen],
        n_classes,
        steps,
        gradient_tolerance=gradient_tolerance,
        relative_tolerance=relative_tolerance,
    )
    left = cross_entropy(fitted, scored.rows, factor.codes[scored.chosen])
    return _Explained(1 - left / math.log(n_classes), fitted.converged)


def _r2(values: Array, train: _Part, scored: _Part) -> float:
    """R² of least squares."""
    weights, *_ = np.linalg.lstsq(train.rows, values[train.chosen], rcond=None)
    own = values[scored.chosen]
    residual = own - scored.rows @ weights
    return float(1 - (residual**2).mean() / own.var())


def _overfitted(codes: Codes, profile: Profile) -> list[Alert]:
    """Where in-sample InfoE of noise is far from 0: latents × (classes - 1) is not small against the rows."""
    floors = [_noise_floor(f, _free_columns(codes, profile), codes.n) for f in codes.factors]
    worst = int(np.argmax(floors))
    if floors[worst] < HIGH_FLOOR:
        return []
    about = codes.factors[worst].about
    return [
        Alert(
            "infoe_in_sample",
            {
                "rows": codes.n,
                "latents": codes.d,
                "noise": floors[worst],
                "factor": about.name,
                "classes": about.classes,
            },
        )
    ]


def _free_columns(codes: Codes, profile: Profile) -> int:
    """Columns of the regression that are free: latents that vary, or values of discrete ones beyond the first."""
    values = [len(np.unique(z)) - 1 for z in codes.latents.T]
    return sum(values) if _one_hot(codes, profile) else sum(v > 0 for v in values)


def _noise_floor(factor: FactorColumn, columns: int, n: int) -> float:
    """In-sample InfoE of `columns` of noise, to first order: half the degrees of freedom over n log(classes) by Wilks; of R² exactly."""
    if factor.codes is None:
        return min(1.0, columns / (n - 1))
    classes = factor.about.classes
    return min(1.0, columns * (classes - 1) / (2 * n * math.log(classes)))


def _uninformed(codes: Codes, fits: Sequence[_Explained]) -> list[Alert]:
    low = {name: fit.score for name, fit in zip(codes.names, fits, strict=True) if fit.score <= 0}
    if not low:
        return []
    return [Alert("uninformative", {"factors": list(low), "infoe": min(low.values())})]


def _stopped_early(codes: Codes, fits: Sequence[_Explained], profile: Profile) -> list[Alert]:
    names = [name for name, fit in zip(codes.names, fits, strict=True) if not fit.converged]
    if not names:
        return []
    return [Alert("infoe_stopped_early", {"factors": names, "steps": profile.steps})]


# -- Multinomial logistic regression without penalty, as InfoE asks for it: where a given number of L-BFGS steps ends.
#
# Regressions of InfoE often stop before they have converged, so its value is that of a path and not of an optimum. This one
# takes the path that scikit-learn's `LogisticRegression` took up to 1.3, which is what the published code ran on: from zero,
# the sum (not the mean) of balanced losses, the steps and tolerances of scipy's L-BFGS-B (`kernels.descend`).

ROWS = 4096  # at once, where only a score is wanted
STEPS_AT_ONCE = 10
PRODUCTS_AT_ONCE = 10**9  # about a second


@dataclass(frozen=True, eq=False)
class Regression:
    """A fitted regression: weights (classes, features + 1), the intercept last. `steps` of L-BFGS were taken."""

    weights: Array
    converged: bool
    steps: int


def design(features: Array) -> Array:
    """The features with a column of ones."""
    return np.concatenate([features, np.ones((len(features), 1))], axis=1)


@dataclass(frozen=True, eq=False)
class Regressors:
    """Rows of a `design` as `logistic_loss` takes them, made once for all that is regressed on them."""

    rows: Array

    @cached_property
    def blocks(self) -> Array:
        """A few rows at a time, each feature of theirs in one piece; filled up with zeros."""
        n, width = self.rows.shape
        whole = np.zeros((-(-n // AT_ONCE) * AT_ONCE, -(-width // 4) * 4))
        whole[:n, :width] = self.rows
        return np.ascontiguousarray(whole.reshape(-1, AT_ONCE, whole.shape[1]).transpose(0, 2, 1))

    @cached_property
    def longest(self) -> float:
        return float(np.linalg.norm(self.rows, axis=1).max())

    def filled(self, values: NDArray[Any]) -> NDArray[Any]:
        """A value for each row, and 0 for the rows that fill the last block."""
        return np.concatenate([values, np.zeros(len(self.blocks) * AT_ONCE - len(values), values.dtype)])


def few(values: int, classes: int) -> bool:
    """Whether numpy is fast enough for a regression."""
    return values * classes <= small.FEW


def regress(
    of: Regressors,
    codes: Labels,
    n_classes: int,
    max_iter: int,
    *,
    gradient_tolerance: float = GRADIENT_TOLERANCE,
    relative_tolerance: float = RELATIVE_TOLERANCE,
) -> Regression:
    """Fit classes to the rows of a `design`, all classes counting alike (weights n / (classes * size))."""
    n, width = of.rows.shape
    importance = (n / (n_classes * np.bincount(codes, minlength=n_classes)))[codes]
    by: Any = kernels
    if few(of.rows.size, n_classes):
        by = small.descent
        problem = n_classes, of.rows.T, of.longest, codes, importance
    else:
        problem = n_classes, of.blocks, of.longest, of.filled(codes), of.filled(importance)
    state = by.start(width, *problem)
    # Compiled code does not hear Ctrl-C, so it is left now and then.
    at_once = min(STEPS_AT_ONCE, max(1, PRODUCTS_AT_ONCE // (2 * of.rows.size * n_classes)))
    ended = GOES_ON
    while ended == GOES_ON:
        ended = by.descend(at_once, max_iter, state, *problem, gradient_tolerance, relative_tolerance)
    weights = state[0].reshape(width, n_classes).T  # in the order of scikit-learn
    return Regression(np.ascontiguousarray(weights), ended == CONVERGED, int(state[-1][TAKEN]))


def cross_entropy(fitted: Regression, rows: Array, codes: Labels) -> float:
    """Mean of -log p(class) over rows, unweighted."""
    total = 0.0
    for a in range(0, len(rows), ROWS):
        logits = rows[a : a + ROWS] @ fitted.weights.T
        logits -= logits.max(axis=1, keepdims=True)
        own = np.take_along_axis(logits, codes[a : a + ROWS, None], axis=1)[:, 0]
        # scikit-learn's log_loss clips probabilities at the spacing of numbers at 1, which bounds a single loss at 36.
        log_p = own - np.log(np.exp(logits).sum(axis=1))
        total -= float(np.maximum(log_p, np.log(np.finfo(np.float64).eps)).sum())
    return total / len(rows)


# -- Mutual information of one continuous column with classes, from nearest neighbours: the estimator of Ross (2014).
#
# Columns have one dimension, so neighbours are found by sorting instead of by trees: a column is sorted once, and serves
# every factor.

JITTER = 1e-10  # of the spread; breaks ties, as scikit-learn's mutual_info_classif does


@dataclass(frozen=True, eq=False)
class SortedColumn:
    """A column of unit spread in rising order: `values[i]` is that of row `order[i]`."""

    values: Array
    order: NDArray[np.intp]


def sorted_column(column: Array, seed: int) -> SortedColumn:
    """The column over its standard deviation, ties broken by seeded noise of 1e-10.

    The noise is that of ``mutual_info_classif(column, …, random_state=seed)`` of scikit-learn, so that the two agree where
    columns have ties, too. A constant column is left as it is, and only noise.
    """
    spread = column.std()
    values = column / spread if spread > 0 else column.copy()
    draw = np.random.RandomState(seed).standard_normal(len(values))
    values += JITTER * max(1.0, float(np.abs(values).mean())) * draw
    order = np.argsort(values, kind="stable")
    return SortedColumn(values[order], order)


def digamma_table(n: int) -> Array:
    """psi(0), …, psi(n); the first, which is minus infinity, is never asked for."""
    table: Array = np.concatenate([[-np.inf], digamma(np.arange(1, n + 1))])
    return table


def ross(column: SortedColumn, codes: Labels, neighbours: int, digammas: Array) -> float:
    r"""Mutual information of a column with classes, in nats, at least 0.

    Implements the estimator of Ross (2014) as scikit-learn's `mutual_info_classif` means it. Of a row in a class of N_c, r
    is the distance to its k-th neighbour within the class, k = min(neighbours, N_c - 1), and m the number of rows of any
    class nearer than that, itself counted:
        I = psi(N) + mean psi(k) - mean psi(N_c) - mean psi(m).
    Rows alone in their class are left out. `digammas` is a `digamma_table` of at least as many rows.

    scikit-learn agrees to 3e-15, but for classes of at most 2 `neighbours` rows: there it takes distances from rounded squares,
    and often counts the k-th neighbour itself as nearer than itself.
    """
    sizes = np.bincount(codes)
    values, classes = column.values, codes[column.order]
    if (sizes == 1).any():
        kept = sizes[classes] > 1
        values, classes = values[kept], classes[kept]
    sizes = sizes[sizes > 1]
    n = len(values)
    if not n:
        return 0.0
    by_class = np.argsort(_small(classes), kind="stable")
    loops = small if n <= small.FEW_ROWS else kernels
    near = loops.neighbour_digammas(values, by_class, sizes, neighbours, digammas)
    of_class = digammas[np.minimum(neighbours, sizes - 1)] - digammas[sizes]
    return max(0.0, float(digammas[n] + (sizes @ of_class - near) / n))


def _small(classes: Labels) -> NDArray[np.integer]:
    """In the smallest type, for which numpy sorts by counting."""
    top = int(classes.max())
    return classes.astype(np.uint8 if top < 1 << 8 else np.uint16 if top < 1 << 16 else np.int64)
