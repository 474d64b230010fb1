"""Metrics from binned mutual information: MIG, MIG-sup, JEMMIG, DCIMIG, modularity.

All five read one table: the plug-in mutual information, in nats, of every factor with every latent. A continuous latent
is put into `bins` bins of equal width over its range; the last bin includes the maximum. This is what disentanglement_lib
does. Discrete latents and factors keep their values. Ours: a continuous factor is binned as a latent is.

The binning follows the range of a latent, so one far outlier empties most bins. Permuting latents changes no score.
Scaling or mirroring one changes none either, unless a value lies on the edge of a bin, since bins are closed on the left.
The plug-in estimate is above 0 for noise, by about (bins - 1)(classes - 1)/2n. Bins cannot hold a factor of more values than
there are bins: of 40 values, log 20 / log 40 = 0.81 of its entropy at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import UsageError
from identifiable.disentanglement.codes import Array, Codes, Labels, as_codes
from identifiable.results import Alert, FactorLatentMatrix, Metric

BINS = 20  # disentanglement_lib, every configuration of its study


@dataclass(frozen=True, eq=False)
class Information:
    """Plug-in entropies and mutual information, in nats. `sizes` are the bins, or the values, that a latent can fall into."""

    mutual: Array
    factor_entropy: Array
    latent_entropy: Array
    sizes: Labels
    alerts: tuple[Alert, ...]


def information(codes: Codes, bins: int = BINS) -> Information:
    """Mutual information of every factor (row) with every latent (column), and their entropies.

    Kept as long as `codes` is: the five metrics of this module ask for the same table.
    """
    known = _KNOWN.setdefault(codes, {})
    if bins not in known:
        known[bins] = _information(codes, bins)
    return known[bins]


_KNOWN: WeakKeyDictionary[Codes, dict[int, Information]] = WeakKeyDictionary()


def factor_classes(codes: Codes, bins: int = BINS) -> list[Labels]:
    """Every factor as classes 0, 1, …: its own where it is discrete, its bins where it is continuous (some may be empty)."""
    check_bins(bins)
    return [equal_width(f.values, bins) if f.codes is None else f.codes for f in codes.factors]


def equal_width(column: Array, bins: int) -> Labels:
    """The bin, 0 to bins - 1, of every value, among bins of equal width from the least to the greatest value."""
    low, high = column.min(), column.max()
    if low == high:
        return np.zeros(len(column), dtype=np.int64)
    edges = np.linspace(low, high, bins + 1)[1:-1]
    return np.searchsorted(edges, column, side="right").astype(np.int64)


def check_bins(bins: int) -> None:
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 2:
        raise UsageError(f"bins: expected a whole number of at least 2, got {bins!r}; disentanglement_lib uses {BINS}.")


def constant_latents(codes: Codes) -> NDArray[np.bool_]:
    """Which latents have the same value in every row."""
    return np.asarray(codes.latents.max(axis=0) == codes.latents.min(axis=0))


def constant_alert(codes: Codes, what: str) -> tuple[Alert, ...]:
    """An alert that names the constant latents, and what of them counts as 0; none if there are none."""
    names = [name for name, still in zip(codes.latent_names, constant_latents(codes), strict=True) if still]
    return (Alert("constant_latents", {"latents": names, what: 0}),) if names else ()


def top_two_gap(matrix: Array, axis: int) -> Array:
    """The largest entry less the second largest, along an axis; where there is only one, less 0."""
    ordered = np.sort(matrix, axis=axis)
    best = np.take(ordered, -1, axis=axis)
    second = np.take(ordered, -2, axis=axis) if matrix.shape[axis] > 1 else 0.0
    return np.asarray(best - second, dtype=np.float64)


def factor_latent(what: str, matrix: Array) -> FactorLatentMatrix:
    return FactorLatentMatrix(what, tuple(tuple(row) for row in matrix.tolist()))


def mig(
    latents: Any,
    factors: Any = None,
    *,
    bins: int = BINS,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    r"""Mutual information gap: is each factor in one latent only?

    Implements Chen et al. 2018, equation 6, as disentanglement_lib computes it. With I(i, j) between factor i and latent j,
        mig = mean_i (I_(1) - I_(2)) / H(S_i),
    the two largest over latents. Ours: with a single latent the second is 0. Two latents with the same information give 0.

    >>> grid = np.indices((4, 4)).reshape(2, -1).T
    >>> round(mig(grid * 0.5, grid).mig, 6)
    1.0
    """
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    table = information(codes, bins)
    gaps = top_two_gap(table.mutual, 1) / table.factor_entropy
    return _metric({"mig": float(gaps.mean())}, codes, table, bins, {"gap_of_factor": gaps.tolist()})


def mig_sup(
    latents: Any,
    factors: Any = None,
    *,
    bins: int = BINS,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    r"""Mutual information gap the other way round: is each latent about one factor only?

    Implements Li et al. 2020, MIG-sup, with 20 bins where the paper leaves the estimate open:
        mig_sup = mean_j (N_(1) - N_(2)),  N(i, j) = I(i, j) / H(S_i),
    the two largest over factors. Every latent counts, so constant ones pull it down; an alert names them. Ours: with a
    single factor the second is 0.

    >>> grid = np.indices((4, 4)).reshape(2, -1).T
    >>> round(mig_sup(grid * 0.5, grid).mig_sup, 6)
    1.0
    """
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    table = information(codes, bins)
    gaps = top_two_gap(table.mutual / table.factor_entropy[:, None], 0)
    alerts = constant_alert(codes, "gap")
    return _metric({"mig_sup": float(gaps.mean())}, codes, table, bins, {"gap_of_latent": gaps.tolist()}, alerts)


def jemmig(
    latents: Any,
    factors: Any = None,
    *,
    bins: int = BINS,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    r"""Joint entropy less the mutual information gap: MIG that also asks that the latent holds nothing else.

    Implements Do and Tran 2020, turned so that 1 is best. With j* the latent of factor i with the most information,
        jemmig = mean_i 1 - (H(S_i, Z_j*) - I_(1) + I_(2)) / (H(S_i) + log bins).
    Ours: for discrete latents the number of values of Z_j* stands for the bins, the most its entropy can be; among latents
    with equal information j* is the one of least entropy, so that their order does not matter; with a single latent I_(2)
    is 0. A low joint entropy is rewarded even where nothing is known: a constant code scores log bins / (H(S_i) + log bins),
    0.68 for four values, and an alert names constant latents. Noise too scores above 0 unless it fills its bins evenly.

    >>> grid = np.indices((4, 4)).reshape(2, -1).T
    >>> round(jemmig(grid * 0.5, grid).jemmig, 6)
    1.0
    """
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    table = information(codes, bins)
    best = np.array([np.lexsort((table.latent_entropy, -row))[0] for row in table.mutual])
    joint = table.factor_entropy + table.latent_entropy[best] - table.mutual.max(axis=1)
    largest = table.factor_entropy + np.log(table.sizes[best])
    scores = 1 - (joint - top_two_gap(table.mutual, 1)) / largest
    details = {"jemmig_of_factor": scores.tolist(), "best_latent_of_factor": best.tolist()}
    alerts = constant_alert(codes, "jemmig")
    return _metric({"jemmig": float(scores.mean())}, codes, table, bins, details, alerts)


def dcimig(
    latents: Any,
    factors: Any = None,
    *,
    bins: int = BINS,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    r"""Share of the factors' entropy that latents hold for one factor alone, one latent for each factor.

    Implements Sepliarskaia et al. 2019, 3CharM. The gap of latent j, between its two largest I(i, j) over factors, is
    credited to its best factor; a factor keeps the largest gap credited to it:
        dcimig = sum_i max_j gap_j / sum_i H(S_i).
    Ours: with a single factor the second largest is 0.

    >>> grid = np.indices((4, 4)).reshape(2, -1).T
    >>> round(dcimig(grid * 0.5, grid).dcimig, 6)
    1.0
    """
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    table = information(codes, bins)
    gaps = top_two_gap(table.mutual, 0)
    credited = np.zeros(len(codes.factors))
    np.maximum.at(credited, table.mutual.argmax(axis=0), gaps)
    score = float(credited.sum() / table.factor_entropy.sum())
    details = {"gap_of_latent": gaps.tolist(), "credit_of_factor": credited.tolist()}
    return _metric({"dcimig": score}, codes, table, bins, details)


def modularity(
    latents: Any,
    factors: Any = None,
    *,
    bins: int = BINS,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    r"""Modularity: how far each latent is from knowing two factors, in squared information.

    Implements Ridgeway and Mozer 2018, equation 2, as disentanglement_lib computes it. With m factors and i* the best of j,
        modularity = mean_j 1 - sum_{i != i*} I(i, j)^2 / (I(i*, j)^2 (m - 1)),
    0 for a latent without information, constant ones included; an alert names those. It is a ratio, so the bias of the
    plug-in estimate makes latents of pure noise score far above 0. NaN with a single factor: every latent would be modular.

    >>> grid = np.indices((4, 4)).reshape(2, -1).T
    >>> round(modularity(grid * 0.5, grid).modularity, 6)
    1.0
    """
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    table = information(codes, bins)
    m = len(codes.factors)
    alerts = constant_alert(codes, "modularity")
    if m == 1:
        alone = Alert("single_factor", {"factor": codes.names[0], "score": "modularity"})
        return _metric({"modularity": float("nan")}, codes, table, bins, {}, (*alerts, alone))
    squared = table.mutual**2
    largest = squared.max(axis=0)
    informed = largest > 0
    share = (squared.sum(axis=0) - largest) / (np.where(informed, largest, 1.0) * (m - 1))
    scores = np.where(informed, 1 - share, 0.0)
    return _metric(
        {"modularity": float(scores.mean())}, codes, table, bins, {"modularity_of_latent": scores.tolist()}, alerts
    )


def _metric(
    scores: dict[str, float],
    codes: Codes,
    table: Information,
    bins: int,
    details: dict[str, Any],
    alerts: tuple[Alert, ...] = (),
) -> Metric:
    settings = {
        "bins": int(bins),
        "latents": "own values" if codes.discrete else "equal-width bins",
        "estimate": "plug-in, nats",
    }
    matrix = factor_latent("mutual information (nats), binned latents", table.mutual)
    entropy = {"factor_entropy": table.factor_entropy.tolist(), "latent_entropy": table.latent_entropy.tolist()}
    return Metric(
        scores, settings, matrix, details | entropy, codes.alerts + table.alerts + alerts + _crowded(codes, bins)
    )


def _crowded(codes: Codes, bins: int) -> tuple[Alert, ...]:
    """That bins of latents cannot tell all classes of a factor apart."""
    classes = {f.about.name: f.about.classes for f in codes.factors if f.about.classes > bins}
    if codes.discrete or not classes:
        return ()
    return (Alert("more_classes_than_bins", {"classes": classes, "bins": int(bins)}),)


def _information(codes: Codes, bins: int) -> Information:
    classes = factor_classes(codes, bins)
    latents, sizes = _latent_bins(codes, bins)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    cells = latents + starts[:-1]
    latent_counts = np.bincount(cells.ravel(), minlength=starts[-1])
    latent_of = np.repeat(np.arange(codes.d), sizes)
    rows = [_row(factor, cells, latent_counts, latent_of, codes.d) for factor in classes]
    return Information(
        mutual=np.array(rows),
        factor_entropy=np.array([_entropy(np.bincount(factor)) for factor in classes]),
        latent_entropy=np.array([_entropy(latent_counts[a:b]) for a, b in pairwise(starts)]),
        sizes=sizes,
        alerts=_filled_latents(codes, latents) + filled_factors(codes, bins),
    )


def _latent_bins(codes: Codes, bins: int) -> tuple[Labels, Labels]:
    """The bin of every row in every latent, and how many bins each latent has."""
    if not codes.discrete:
        return np.column_stack([equal_width(column, bins) for column in codes.latents.T]), np.full(codes.d, bins)
    found = [np.unique(column, return_inverse=True) for column in codes.latents.T]
    inverse = np.column_stack([index.reshape(-1) for _, index in found]).astype(np.int64)
    return inverse, np.array([len(values) for values, _ in found])


def _row(factor: Labels, cells: Labels, latent_counts: Labels, latent_of: Labels, d: int) -> Array:
    """Mutual information of one factor with all latents, from one count over all their cells."""
    n, width = len(factor), len(latent_counts)
    counts = np.bincount((factor[:, None] * width + cells).ravel())
    filled = np.flatnonzero(counts)
    both, cell = counts[filled], filled % width
    alone = np.bincount(factor)[filled // width] * latent_counts[cell]
    terms = both * np.log(both * n / alone)
    found = np.bincount(latent_of[cell], weights=terms, minlength=d) / n
    found[found < np.finfo(np.float64).eps] = 0.0  # rounding; modularity divides by what is left
    return np.asarray(found)


def _entropy(counts: Labels) -> float:
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())


FILLED = 0.99  # ours: a column with more than this share of its rows in one bin is as good as constant to these metrics


def filled_factors(codes: Codes, bins: int = BINS) -> tuple[Alert, ...]:
    """Continuous factors that the bins make all but constant."""
    numbers = [f for f in codes.factors if f.codes is None]
    return _filled_alert("factors", [f.about.name for f in numbers], [equal_width(f.values, bins) for f in numbers])


def _filled_latents(codes: Codes, latents: Labels) -> tuple[Alert, ...]:
    varying = np.flatnonzero([] if codes.discrete else ~constant_latents(codes))
    return _filled_alert("latents", [codes.latent_names[j] for j in varying], [latents[:, j] for j in varying])


def _filled_alert(which: str, names: Sequence[str], columns: Sequence[Labels]) -> tuple[Alert, ...]:
    """Varying columns of which nearly all rows are in one bin, as a far outlier makes them."""
    full = [name for name, bins in zip(names, columns, strict=True) if np.bincount(bins).max() > FILLED * len(bins)]
    return (Alert("one_full_bin", {which: full, "share": FILLED}),) if full else ()
