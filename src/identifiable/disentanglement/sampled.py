"""BetaVAE and FactorVAE scores and IRS, from one encoding of the rows: draws with one factor fixed are draws of rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from identifiable._checks import DataError, UsageError
from identifiable.disentanglement.binned import (
    BINS,
    check_bins,
    constant_alert,
    constant_latents,
    equal_width,
    factor_classes,
    factor_latent,
)
from identifiable.disentanglement.codes import Array, Codes, Labels, as_codes
from identifiable.results import Alert, Metric

Rows = NDArray[np.intp]
SAMPLES = 64  # disentanglement_lib, as the next three
TRAIN = 10_000
TEST = 5_000
PRUNE_BELOW = 0.05  # standard deviation of a latent that is taken for collapsed to the prior
FEWEST_TRAIN = 100  # so that no factor is missing among the training examples


def betavae_score(
    latents: Any,
    factors: Any = None,
    *,
    samples: int = SAMPLES,
    train: int = TRAIN,
    test: int = TEST,
    seed: int = 0,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    """Accuracy of telling which factor pairs of rows share, from how far their latents are apart.

    Implements the score of Higgins et al. 2017 as in disentanglement_lib: an example is a factor drawn at random and
    `samples` pairs of rows, each pair with the same value of it; its features are the mean |z - z'| of every latent.
    Logistic regression (scikit-learn's defaults: penalty C = 1, so the scale of the latents matters) learns the factor
    from `train` examples; the score is its accuracy on `test` others. Guessing gives 1 / factors.

    Pairs are drawn with replacement among the rows given. On a complete grid of factor values this is the sampling of the
    original; on any other table it is exact for the distribution of its rows, correlated factors included. A value that
    a single row has cannot be paired, and that row is not drawn. Continuous factors are left out: no two rows share a value.

    >>> S = np.stack(np.meshgrid(range(4), range(5)), -1).reshape(-1, 2)
    >>> betavae_score(S.astype(float), S, train=500, test=200).betavae
    1.0
    """
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    rng = np.random.default_rng(seed)
    draws, names, alerts = _groups(codes)
    settings = _settings(samples, train, test, seed) | {"classifier": "logistic regression, C = 1, 100 iterations"}
    if len(draws) < 2:
        return _nothing_to_tell("betavae", settings, names, alerts)
    columns = np.asfortranarray(codes.latents)
    train_x, train_y = _differences(columns, draws, train, samples, rng)
    test_x, test_y = _differences(columns, draws, test, samples, rng)
    model = LogisticRegression()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model.fit(train_x, train_y)
    if any(issubclass(w.category, ConvergenceWarning) for w in caught):
        alerts += (Alert("not_converged", {"iterations": 100}),)
    right = model.predict(test_x) == test_y
    return Metric(
        scores={"betavae": float(right.mean())},
        settings=settings,
        details={
            "factors": names,
            "by_factor": _means_by(test_y, right, len(draws)),
            "train_accuracy": float((model.predict(train_x) == train_y).mean()),
            "chance": 1 / len(draws),
        },
        alerts=alerts,
    )


def factorvae_score(
    latents: Any,
    factors: Any = None,
    *,
    samples: int = SAMPLES,
    train: int = TRAIN,
    test: int = TEST,
    prune_below: float = PRUNE_BELOW,
    seed: int = 0,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    """Accuracy of telling which factor is fixed from the one latent that varies least.

    Implements the score of Kim and Mnih 2018 as in disentanglement_lib: an example is a factor drawn at random and
    `samples` rows with one value of it; it votes for the latent of least variance relative to its variance over all rows.
    Each latent stands for the factor it got most of `train` votes from; the score is the share of `test` votes for which
    that is right. Guessing gives 1 / factors.

    Latents whose standard deviation is below `prune_below` do not take part, as in disentanglement_lib, where latents have
    the scale of a unit prior; those of an autoencoder have no such scale, so look at the alert or pass 0. Constant
    latents never take part. Without any latent left the score is 0, as there. How rows are drawn: see `betavae_score`.

    >>> S = np.stack(np.meshgrid(range(4), range(5)), -1).reshape(-1, 2)
    >>> factorvae_score(S.astype(float), S, train=500, test=200).factorvae
    1.0
    """
    if not prune_below >= 0:
        raise UsageError(f"prune_below: expected a standard deviation of 0 or more, got {prune_below}.")
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    rng = np.random.default_rng(seed)
    draws, names, alerts = _groups(codes)
    settings = _settings(samples, train, test, seed) | {"prune_below": prune_below}
    if len(draws) < 2:
        return _nothing_to_tell("factorvae", settings, names, alerts)
    spread = codes.latents.std(axis=0, ddof=1)
    active = (spread >= prune_below) & (np.ptp(codes.latents, axis=0) > 0)
    alerts += _pruned_alert(codes, active, prune_below)
    if not active.any():
        return Metric(
            {"factorvae": 0.0}, settings, details={"factors": names, "active": active.tolist()}, alerts=alerts
        )
    columns = np.asfortranarray(codes.latents[:, active] / spread[active])
    train_votes = _votes(columns, draws, train, samples, rng)
    test_votes = _votes(columns, draws, test, samples, rng)
    stands_for = train_votes.argmax(axis=0)
    latents_kept = np.arange(int(active.sum()))
    votes = np.zeros((len(draws), codes.d))
    votes[:, active] = train_votes / train_votes.sum(axis=1, keepdims=True).clip(min=1)
    complete = len(draws) == len(codes.factors)
    return Metric(
        scores={"factorvae": float(test_votes[stands_for, latents_kept].sum() / test)},
        settings=settings,
        matrix=factor_latent("share of the factor's votes", votes) if complete else None,
        details={
            "factors": names,
            "active": active.tolist(),
            "train_accuracy": float(train_votes[stands_for, latents_kept].sum() / train),
            "chance": 1 / len(draws),
        },
        alerts=alerts,
    )


@dataclass(frozen=True, eq=False)
class _SharedValue:
    """Draws of rows that share a value of one factor; rows sorted by value, so that a draw is an offset."""

    codes: Labels
    drawable: Rows  # rows whose value another row has too
    order: Rows
    starts: Rows
    counts: Rows

    @classmethod
    def of(cls, codes: Labels) -> _SharedValue:
        counts = np.bincount(codes)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        return cls(codes, np.flatnonzero(counts[codes] > 1), np.argsort(codes, kind="stable"), starts, counts)

    def first(self, shape: tuple[int, ...], rng: np.random.Generator) -> Rows:
        return self.drawable[rng.integers(len(self.drawable), size=shape)]

    def same_as(self, rows: Rows, shape: tuple[int, ...], rng: np.random.Generator) -> Rows:
        """Rows with the value that `rows` (broadcast to `shape`) have."""
        values = self.codes[rows]
        return self.order[self.starts[values] + (rng.random(shape) * self.counts[values]).astype(np.intp)]


def _groups(codes: Codes) -> tuple[list[_SharedValue], list[str], tuple[Alert, ...]]:
    """What draws rows for each usable factor, the names of those, and what to know of the others."""
    alerts = list(codes.alerts)
    kept: list[_SharedValue] = []
    names: list[str] = []
    for factor in codes.factors:
        name = factor.about.name
        if factor.codes is None:
            alerts.append(Alert("continuous_factor", {"factor": name}))
            continue
        draws = _SharedValue.of(factor.codes)
        alone = codes.n - len(draws.drawable)
        if alone:
            alerts.append(Alert("unpaired_rows", {"factor": name, "alone": alone, "rows": codes.n}))
        if len(draws.drawable):
            kept.append(draws)
            names.append(name)
    if not kept:
        raise DataError(
            f"factors: expected discrete factors with values that rows share, got none in {', '.join(codes.names)}; bin "
            "them, or pass kinds='discrete' if they are class numbers."
        )
    return kept, names, tuple(alerts)


def _settings(samples: int, train: int, test: int, seed: int) -> dict[str, Any]:
    for name, value, least in (("samples", samples, 2), ("train", train, FEWEST_TRAIN), ("test", test, 1)):
        if value < least:
            raise UsageError(f"{name}: expected at least {least}, got {value}.")
    return {"samples": samples, "train": train, "test": test, "seed": seed}


def _nothing_to_tell(score: str, settings: dict[str, Any], names: list[str], alerts: tuple[Alert, ...]) -> Metric:
    alert = Alert("one_factor", {"factor": names[0]})
    return Metric({score: float("nan")}, settings, details={"factors": names}, alerts=(*alerts, alert))


def _differences(
    columns: Array, draws: list[_SharedValue], n: int, samples: int, rng: np.random.Generator
) -> tuple[Array, Labels]:
    """Examples of the BetaVAE score: mean |z - z'| over pairs that share a factor, and which."""
    fixed = rng.integers(len(draws), size=n)
    features = np.empty((n, columns.shape[1]))
    for i, draw in enumerate(draws):
        mine = np.flatnonzero(fixed == i)
        left = draw.first((len(mine), samples), rng)
        right = draw.same_as(left, left.shape, rng)
        for j, column in enumerate(columns.T):  # one column at a time stays in the cache
            features[mine, j] = np.abs(column[left] - column[right]).mean(axis=1)
    return features, fixed


def _votes(
    columns: Array, draws: list[_SharedValue], n: int, samples: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Votes of the FactorVAE score (factors, latents) for the column of least variance; columns have unit variance."""
    fixed = rng.integers(len(draws), size=n)
    votes = np.zeros((len(draws), columns.shape[1]), dtype=np.intp)
    for i, draw in enumerate(draws):
        examples = int((fixed == i).sum())
        rows = draw.same_as(draw.first((examples, 1), rng), (examples, samples), rng)
        variance = np.stack([column[rows].var(axis=1, ddof=1) for column in columns.T])
        votes[i] = np.bincount(variance.argmin(axis=0), minlength=columns.shape[1])
    return votes


def _means_by(labels: Labels, values: NDArray[np.bool_], n: int) -> list[float]:
    counts = np.bincount(labels, minlength=n)
    sums = np.bincount(labels, values, minlength=n)
    return np.divide(sums, counts, out=np.full(n, np.nan), where=counts > 0).tolist()  # type: ignore[no-any-return]


def _pruned_alert(codes: Codes, active: NDArray[np.bool_], prune_below: float) -> tuple[Alert, ...]:
    if active.all():
        return ()
    out = [name for name, on in zip(codes.latent_names, active, strict=True) if not on]
    return (Alert("pruned_latents", {"latents": out, "below": prune_below}),)


# -- The interventional robustness score: does a latent stay put while everything but one factor changes?

QUANTILE = 0.99  # disentanglement_lib; the paper has the maximum, 1


def irs(
    latents: Any,
    factors: Any = None,
    *,
    quantile: float = QUANTILE,
    bins: int = BINS,
    bin_classes: bool = False,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    r"""Interventional robustness score of Suter et al. 2019.

    Implements disentanglement_lib's form. With Q the 99th percentile over the rows where factor i has value v,
        R(i, j) = 1 - mean_v Q|z_j - E(z_j | s_i = v)| / max |z_j - E z_j|,
        irs = sum_j w_j max_i R(i, j) / sum_j w_j,  w_j = max |z_j - E z_j|.
    It takes the rows for a full grid of independent factors. It is weighted by spread, so rescaling one latent
    changes it; permuting or mirroring them, or one scale for all, does not. A value that few rows have looks robust: pure
    noise scores near 0 only with hundreds of rows for each value.

    Constant latents are left out, with an alert, as in disentanglement_lib; where all are, the score is 0. Ours: a
    continuous factor is put into `bins` bins of equal width, of which only filled ones count; its perfect code
    scores about 1 - 1/bins. Values of discrete latents
    count as numbers.

    Parameters
    ----------
    bin_classes
        Bin discrete factors too, as disentanglement_lib does: neighbouring classes of a factor with more than `bins` of
        them become one. No difference up to `bins` classes.

    >>> grid = np.indices((4, 4)).reshape(2, -1).T
    >>> round(irs(grid * 0.5, grid).irs, 6)
    1.0
    """
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    if not 0 < quantile <= 1:
        raise UsageError(f"quantile: expected a number above 0 and up to 1, got {quantile!r}.")
    check_bins(bins)
    if bin_classes:
        classes = [equal_width(f.values, bins) for f in codes.factors]
    else:
        classes = factor_classes(codes, bins)
    still = constant_latents(codes)
    centred = codes.latents - codes.latents.mean(axis=0)
    spread = np.where(still, 0.0, np.abs(centred).max(axis=0))
    moved = np.array([_deviation(centred, factor, quantile) for factor in classes])
    robust = np.where(still, 0.0, 1 - moved / np.where(still, 1.0, spread))
    best = robust.max(axis=0)
    score = float((best * spread).sum() / spread.sum()) if spread.any() else 0.0
    return Metric(
        {"irs": score},
        {"quantile": float(quantile), "bins": int(bins), "bin_classes": bool(bin_classes)},
        factor_latent("interventional robustness, factor held fixed", robust),
        _details(codes, robust, best, spread),
        codes.alerts + constant_alert(codes, "weight"),
    )


def _details(codes: Codes, robust: Array, best: Array, spread: Array) -> dict[str, Any]:
    return {
        "irs_of_latent": best.tolist(),
        "factor_of_latent": robust.argmax(axis=0).tolist(),
        "weight_of_latent": spread.tolist(),
        "active_latents": int((~constant_latents(codes)).sum()),
    }


def _deviation(latents: Array, factor: Labels, quantile: float) -> Array:
    """For each latent, how far it strays from its mean at a value of the factor, at that quantile; mean over values."""
    order = np.argsort(factor, kind="stable")
    cuts = np.flatnonzero(np.diff(factor[order])) + 1
    groups = np.split(latents[order], cuts)
    return np.asarray(np.mean([np.quantile(np.abs(g - g.mean(axis=0)), quantile, axis=0) for g in groups], axis=0))
