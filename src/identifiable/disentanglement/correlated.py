"""MCC: how well latents and factors pair up, by correlation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.stats import beta, rankdata

from identifiable._checks import DataError, UsageError
from identifiable.disentanglement.binned import factor_latent
from identifiable.disentanglement.codes import Array, Codes, as_codes
from identifiable.groups import WhiteBasis
from identifiable.moments import Moments
from identifiable.results import Alert, Metric

Rows = NDArray[np.intp]
Correlation = Literal["pearson", "spearman"]
After = Literal["none", "linear"]
FEWEST_ROWS = 10  # to fit on some and hold some out
HIGH_CHANCE = 0.2  # MCC of noise from which on it is said
MANY_LATENTS = 10  # latents for each factor, from which on a random mixture is likely to be close to a factor
HALF = 0.5  # of the rows are held out from the canonical correlation analysis


def mcc(
    latents: Any,
    factors: Any = None,
    *,
    kind: Correlation = "pearson",
    after: After = "none",
    seed: int = 0,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    """Mean correlation coefficient: the mean of |correlation| over the best pairing of factors and latents.

    Implements the MCC of the nonlinear-ICA literature (Hyvärinen and Morioka 2016),
        max over pairings pi of  1/m sum_i |corr(S_i, Z_pi(i))|.
    Every factor needs a latent of its own: one that is left without counts 0, a latent that is left over counts nothing.
    A constant latent correlates 0 with everything. Discrete factors enter by their class numbers, in sorted order: that is
    meaningful for ordered classes only, and whether they are (shapes and names are not) cannot be seen from the values.

    The factors may be the latents of another run on the same rows: pass them with ``kinds="continuous"``, and the score
    says how far the two runs agree up to order, sign and scale. With more latents than one side has, it is not symmetric.

    MCC is trustworthy where factors are independent, rows are many, and latents are not many more than factors. `details` has
    what noise would score (`chance_of_noise`) and what random mixtures of independent factors would (`chance_of_mixtures`): see
    `chance_level`. Alerts say where the first is above 0.2, or latents are more than 10 times as many as factors.

    Parameters
    ----------
    after
        "linear": the weak form, after the best linear map of both sides. Canonical variates are fitted on one half of
        the rows and correlated on the other, so that noise does not score; a negative correlation there counts 0, and the
        mean is over the directions in which factors vary.
    seed
        Of the halves; used with ``after="linear"`` only.

    >>> S = np.random.default_rng(0).uniform(size=(500, 2))
    >>> round(mcc(S[:, ::-1] * [3.0, -2.0], S).mcc, 12)
    1.0
    """
    if kind not in get_args(Correlation):
        raise UsageError(f"kind: expected pearson or spearman, got {kind!r}.")
    if after not in get_args(After):
        raise UsageError(f"after: expected none or linear, got {after!r}.")
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    Z, S = codes.latents, np.column_stack([f.values for f in codes.factors])
    alerts = (*codes.alerts, *words_alert(codes), *codes_alert(codes), *_dead_alert(codes))
    settings: dict[str, Any] = {"kind": kind, "after": after, "classes": "numbers"}
    if after == "linear":
        canonical = _held_out_canonical(Z, S, kind, seed)
        return Metric(
            scores={"mcc": float(canonical.mean())},
            settings={**settings, "held_out": HALF, "seed": seed},
            details={"canonical_correlations": canonical.tolist()},
            alerts=alerts,
        )
    signed = correlations(S, Z, kind)
    pairing = best_pairing(np.abs(signed))
    chance, said = _chance(codes)
    return Metric(
        scores={"mcc": float(np.mean([0.0 if j is None else abs(signed[i, j]) for i, j in enumerate(pairing)]))},
        settings=settings,
        matrix=factor_latent(f"|{kind.capitalize()} correlation|", np.abs(signed)),
        details={
            "latent": pairing,
            "correlation": [0.0 if j is None else float(signed[i, j]) for i, j in enumerate(pairing)],
            **chance,
        },
        alerts=(*alerts, *said),
    )


def chance_level(latents: int, factors: int, directions: int) -> float:
    """MCC of latents and factors that are random directions: about the mean of the largest |cosine| over `latents` of them.

    Ours. The squared cosine of two random directions of a k-dimensional space is Beta(1/2, (k - 1)/2). Noise on n rows has
    n - 1 dimensions; mixtures of m independent factors have m. Latents count as independent. Since every factor takes the best
    latent for itself, the level is a little too high where latents are few: by 0.02 for 3 latents and 100 rows.

    >>> round(chance_level(400, 3, 3), 2), round(chance_level(3, 3, 9_999), 2)
    (1.0, 0.01)
    """
    if directions < 2:
        return min(latents, factors) / factors
    cosine = np.linspace(0.0, 1.0, 2001)
    below = beta.cdf(cosine**2, 0.5, (directions - 1) / 2) ** latents
    return float(np.trapezoid(1 - below, cosine)) * min(latents, factors) / factors


def _chance(codes: Codes) -> tuple[dict[str, float], tuple[Alert, ...]]:
    """What noise and what mixtures would score, and an alert where that is much."""
    d, m = codes.d, len(codes.factors)
    noise, mixtures = chance_level(d, m, codes.n - 1), chance_level(d, m, m)
    known = {"chance_of_noise": noise, "chance_of_mixtures": mixtures}
    many = m > 1 and d > MANY_LATENTS * m
    if noise <= HIGH_CHANCE and not many:
        return known, ()
    values = {"latents": d, "factors": m, "rows": codes.n, "noise": noise} | ({"mixtures": mixtures} if many else {})
    return known, (Alert("chance_level", values),)


def words_alert(codes: Codes) -> tuple[Alert, ...]:
    """That factors given as words entered in the order of the alphabet, which means nothing."""
    names = [f.about.name for f in codes.factors if f.about.words and f.about.classes > 2]
    if not names:
        return ()
    return (Alert("words_as_numbers", {"factors": names}),)


def codes_alert(codes: Codes) -> tuple[Alert, ...]:
    """That discrete latents entered as numbers, which means nothing where they only name entries of a code book."""
    names = [z for z, k in zip(codes.latent_names, codes.latents.T, strict=True) if len(np.unique(k)) > 2]
    return (Alert("codes_as_numbers", {"latents": names}),) if codes.discrete and names else ()


def _dead_alert(codes: Codes) -> tuple[Alert, ...]:
    dead = [name for name, spread in zip(codes.latent_names, np.ptp(codes.latents, axis=0), strict=True) if not spread]
    if not dead:
        return ()
    return (Alert("dead_latents", {"latents": dead}),)


def correlations(X: Array, Y: Array, kind: Correlation) -> Array:
    """Correlation of every column of X (rows of the result) with every column of Y; 0 where a column is constant."""
    if kind == "spearman":
        X, Y = rankdata(X, axis=0), rankdata(Y, axis=0)
    found: Array = (_unit_columns(X).T @ _unit_columns(Y)).clip(-1.0, 1.0)
    return found


def best_pairing(gain: Array) -> list[int | None]:
    """The column of every row in the one-to-one pairing of largest total gain; None for a row left over."""
    rows, columns = linear_sum_assignment(gain, maximize=True)
    pairing: list[int | None] = [None] * len(gain)
    for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
        pairing[i] = j
    return pairing


def split_rows(n: int, held_out: float, seed: int, rows: int | None = None) -> tuple[Rows, Rows]:
    """Numbers of the rows to fit on and of those held out, at random; of at most `rows` of the n."""
    if n < FEWEST_ROWS:
        raise DataError(f"latents: expected at least {FEWEST_ROWS} rows to hold some out, got {n}; pass more rows.")
    order = np.random.default_rng(seed).permutation(n)[:rows]
    first = len(order) - round(held_out * len(order))
    return order[:first], order[first:]


def _unit_columns(X: Array) -> Array:
    """Columns centred and scaled to length 1; zeros for a constant one, whose mean alone would leave rounding."""
    varies = np.ptp(X, axis=0) > 0
    centred = np.where(varies, X - X.mean(axis=0), 0.0)
    centred /= np.where(varies, np.abs(centred).max(axis=0), 1.0)  # squares of any size stay within range
    unit: Array = centred / np.where(varies, np.linalg.norm(centred, axis=0), 1.0)
    return unit


def _held_out_canonical(Z: Array, S: Array, kind: Correlation, seed: int) -> Array:
    """Canonical correlations on rows that the variates were not fitted to, one for each direction of the factors."""
    fitted, held_out = split_rows(len(Z), HALF, seed)
    d = Z.shape[1]
    both = np.hstack([Z, S])
    moments = Moments.of(both[fitted], widths=(d, S.shape[1]))
    white_z, white_s = WhiteBasis.of(moments.alone(0)), WhiteBasis.of(moments.alone(1))
    left, _, right = np.linalg.svd(white_z.basis.T @ moments.xy @ white_s.basis, full_matrices=False)
    variates_z = (Z[held_out] - moments.mean_x) @ white_z.basis @ left
    variates_s = (S[held_out] - moments.mean_y) @ white_s.basis @ right.T
    found = np.diag(correlations(variates_z, variates_s, kind)).clip(0.0)
    directions = WhiteBasis.of(Moments.of(S)).rank
    return np.concatenate([found, np.zeros(max(directions - len(found), 0))])
