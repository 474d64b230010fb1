"""The interventional robustness score: does a latent stay put while everything but one factor changes?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from identifiable._checks import UsageError
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
from identifiable.results import Metric

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
