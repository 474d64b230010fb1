"""Scores that need no factors: agreement of latents between runs (UDR), and their dependence on each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import Lasso

from identifiable._checks import DataError, PairingError, UsageError
from identifiable.disentanglement.binned import BINS, check_bins, information
from identifiable.disentanglement.codes import Array, Column, codes_of, latents_of
from identifiable.disentanglement.correlated import correlations
from identifiable.groups import GRAM_TOLERANCE
from identifiable.moments import Moments
from identifiable.results import Alert, Metric

Mask = NDArray[np.bool_]
Similarity = Literal["spearman", "lasso"]
KL_THRESHOLD = 0.01  # disentanglement_lib, in nats, as the next one
LASSO_PENALTY = 0.1
ACTIVE_STD = 1 / 20  # of the largest standard deviation of a run; ours, where no KL is known


def udr(
    runs: Sequence[Any],
    *,
    kind: Similarity = "spearman",
    kl: Sequence[Any] | None = None,
    active: Sequence[Any] | None = None,
) -> Metric:
    """Unsupervised disentanglement ranking: do latents of one run match single latents of the others?

    Implements Duan et al. 2020. With R[a, b] the similarity of the active latents a of run i and b of run j,
        UDR_ij = 1 / (d_a + d_b) * [sum_b max_a R[a, b]² / sum_a R[a, b]  +  sum_a max_b R[a, b]² / sum_b R[a, b]],
    a term being 0 where its sum is; a run scores the median over the others, ``details["runs"]``, and `udr` is the median
    of those. disentanglement_lib averages the two halves instead, which differs only for runs with different numbers of
    active latents. With many rows of independent latents, runs that agree up to order, sign and (spearman) a monotone map
    of every latent score 1; chance correlations lower that, by 0.04 at 300 rows of 3 latents. A run without active
    latents scores 0.

    Parameters
    ----------
    runs
        Latents (n, d) of two or more runs on the same rows; widths may differ.
    kind
        "spearman": |rank correlation|. "lasso": |coefficient| of lasso regression (penalty 0.1) of latent b on all of
        run i, standardised.
    kl
        Of every run its latents' mean KL divergence from the prior; those above 0.01 are active.
    active
        Or of every run which latents are active. Without either, ours: those with more than a twentieth of the run's
        largest standard deviation.

    >>> Z = np.random.default_rng(0).standard_normal((20_000, 3))
    >>> round(udr([Z, -2 * Z[:, ::-1], Z**3]).udr, 2)
    0.99
    """
    if kind not in get_args(Similarity):
        raise UsageError(f"kind: expected spearman or lasso, got {kind!r}.")
    tables = [latents_of(run, f"run {i + 1}") for i, run in enumerate(runs)]
    if len(tables) < 2:
        raise UsageError(f"runs: expected latents of at least 2 runs, got {len(tables)}.")
    for i, table in enumerate(tables):
        if len(table) != len(tables[0]):
            raise PairingError(
                f"runs: expected {len(tables[0])} rows as of run 1, got {len(table)} of run {i + 1}; pass the same rows."
            )
    masks, rule = _active(tables, kl, active)
    kept = [table[:, mask & (np.ptp(table, axis=0) > 0)] for table, mask in zip(tables, masks, strict=True)]
    pairwise = np.full((len(kept), len(kept)), np.nan)
    for i, source in enumerate(kept):
        for j, target in enumerate(kept):
            if i != j:
                pairwise[i, j] = _relative_strength(_similarity(source, target, kind))
    by_run = np.nanmedian(pairwise, axis=0)
    silent = [i + 1 for i, table in enumerate(kept) if not table.shape[1]]
    return Metric(
        scores={"udr": float(np.median(by_run))},
        settings={"kind": kind, "active": rule} | ({"penalty": LASSO_PENALTY} if kind == "lasso" else {}),
        details={
            "runs": by_run.tolist(),
            "pairwise": pairwise.tolist(),
            "active": [table.shape[1] for table in kept],
        },
        alerts=(Alert("no_active_latents", {"runs": silent}),) if silent else (),
    )


def unsupervised(latents: Any, *, bins: int = BINS) -> Metric:
    """Dependence of latents on each other, 0 for independent ones: three scores without factors.

    Implements the unsupervised scores of Locatello et al. 2019 as in disentanglement_lib. With C the covariance, D its
    diagonal:
    ``total_correlation`` = (log det D - log det C) / 2, of a Gaussian with that covariance, in nats;
    ``wasserstein_correlation`` = 2 tr C - 2 tr (D^½ C D^½)^½, the squared Wasserstein distance of that Gaussian from
    the product of its marginals, and ``wasserstein_correlation_normalised``, divided by tr C;
    ``mutual_information``, the mean over pairs of latents in `bins` bins of equal width, in nats.
    They say nothing about factors: independent noise scores 0 too. A constant latent is independent of all others. The total
    correlation is infinite where latents depend on each other linearly; an alert says so. The plug-in mutual information of
    independent latents is not 0 but about (bins - 1)² / 2n.

    >>> found = unsupervised(np.random.default_rng(0).uniform(size=(5000, 3)))
    >>> found.total_correlation < 0.01 and found.wasserstein_correlation_normalised < 0.01
    True
    """
    check_bins(bins)
    Z = latents_of(latents)
    if len(Z) < 2:
        raise DataError(f"latents: expected at least 2 rows, got {len(Z)}.")
    varies = np.ptp(Z, axis=0) > 0
    if not varies.any():
        raise DataError("latents: every column is constant, so there is nothing to depend on; pass more rows.")
    covariance = Moments.of(Z[:, varies]).scatter / (len(Z) - 1)
    wasserstein = _wasserstein(covariance)
    total, alerts = _total_correlation(covariance)
    information = _mutual_information(Z, varies, bins)
    if not varies.all():
        alerts += (Alert("constant_latents", {"constant": int((~varies).sum()), "of": Z.shape[1]}),)
    if Z.shape[1] == 1:
        alerts += (Alert("one_latent"),)
    return Metric(
        scores={
            "total_correlation": total,
            "wasserstein_correlation": wasserstein,
            "wasserstein_correlation_normalised": wasserstein / float(np.trace(covariance)),
            "mutual_information": float(information[np.triu_indices(Z.shape[1], 1)].mean())
            if Z.shape[1] > 1
            else float("nan"),
        },
        settings={"bins": bins},
        details={"mutual_information": information.tolist()},
        alerts=alerts,
    )


def _active(tables: list[Array], kl: Sequence[Any] | None, active: Sequence[Any] | None) -> tuple[list[Mask], str]:
    if kl is not None and active is not None:
        raise UsageError("expected kl or active, got both; pass one of them.")
    if active is not None:
        return [np.asarray(a, dtype=bool) for a in _by_latent(tables, active, "active")], "given"
    if kl is not None:
        return [np.asarray(k) > KL_THRESHOLD for k in _by_latent(tables, kl, "kl")], f"kl > {KL_THRESHOLD:g}"
    spreads = [table.std(axis=0) for table in tables]
    return [spread > ACTIVE_STD * spread.max() for spread in spreads], f"std > {ACTIVE_STD:g} of the largest"


def _by_latent(tables: list[Array], given: Sequence[Any], name: str) -> list[NDArray[Any]]:
    found = [np.asarray(g) for g in given]
    expected = [(table.shape[1],) for table in tables]
    if [f.shape for f in found] != expected:
        raise UsageError(
            f"{name}: expected one number for each latent of each run, shapes {expected}, got {[f.shape for f in found]}."
        )
    return found


def _similarity(source: Array, target: Array, kind: Similarity) -> Array:
    if not (source.shape[1] and target.shape[1]):
        return np.zeros((source.shape[1], target.shape[1]))
    if kind == "spearman":
        return np.abs(correlations(source, target, "spearman"))
    x, y = ((table - table.mean(axis=0)) / table.std(axis=0) for table in (source, target))
    coefficients = Lasso(alpha=LASSO_PENALTY).fit(x, y).coef_.reshape(target.shape[1], source.shape[1])
    return np.abs(np.asarray(coefficients, dtype=np.float64)).T


def _relative_strength(similarity: Array) -> float:
    if not similarity.size:
        return 0.0
    terms = []
    for axis in (0, 1):
        total = similarity.sum(axis=axis)
        terms.append(np.divide(similarity.max(axis=axis) ** 2, total, out=np.zeros(len(total)), where=total > 0))
    return float(np.concatenate(terms).mean())


def _total_correlation(covariance: Array) -> tuple[float, tuple[Alert, ...]]:
    spread = np.sqrt(np.diag(covariance))
    eigenvalues = np.linalg.eigvalsh(covariance / spread / spread[:, None])
    if eigenvalues[0] > GRAM_TOLERANCE**2 * eigenvalues[-1]:
        return float(-0.5 * np.log(eigenvalues).sum()), ()
    rank = int((eigenvalues > GRAM_TOLERANCE**2 * eigenvalues[-1]).sum())
    return float("inf"), (Alert("rank_deficient", {"directions": rank, "latents": len(spread)}),)


def _wasserstein(covariance: Array) -> float:
    spread = np.sqrt(np.diag(covariance))
    eigenvalues = np.linalg.eigvalsh(covariance * spread * spread[:, None])
    return max(float(2 * np.trace(covariance) - 2 * np.sqrt(eigenvalues.clip(0.0)).sum()), 0.0)


def _mutual_information(Z: Array, varies: Mask, bins: int) -> Array:
    """Of every pair of latents; the diagonal is 0."""
    names = [f"latent {j}" for j in np.flatnonzero(varies)]
    moving = Z[:, varies]
    columns = [Column(name, "continuous", x) for name, x in zip(names, moving.T, strict=True)]
    found = np.zeros((Z.shape[1], Z.shape[1]))
    against_each_other = codes_of(moving, columns, discrete=False, latent_names=names)
    found[np.ix_(varies, varies)] = information(against_each_other, bins).mutual
    np.fill_diagonal(found, 0.0)
    return found
