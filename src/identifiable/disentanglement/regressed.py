"""R² and SIS: how much of the factors can be predicted from the latents, on rows held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

from identifiable._checks import DataError, UsageError
from identifiable.disentanglement.binned import factor_latent
from identifiable.disentanglement.codes import Array, Codes, FactorColumn, as_codes
from identifiable.disentanglement.correlated import FEWEST_ROWS, Rows, best_pairing, codes_alert, split_rows
from identifiable.results import Alert, Metric

Predictor = Literal["linear", "kernel"]
Classes = Literal["numbers", "indicators"]
HELD_OUT = 0.2  # of the rows
FAR_BELOW_ZERO = -0.5  # R² of noise where latents are a third of the rows to fit
RIDGE = 1.0  # Brady et al. 2023, objects-identifiability
MAX_KERNEL_ROWS = 2000  # kernel ridge costs the cube of this: 0.1 s


def r2(
    latents: Any,
    factors: Any = None,
    *,
    predictor: Predictor = "linear",
    classes: Classes = "numbers",
    max_rows: int = MAX_KERNEL_ROWS,
    seed: int = 0,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    """R² of predicting each factor from all latents, on a fifth of the rows held out; by factor and their mean.

    1 of the linear predictor says that the factors are an affine function of the latents. R² is below 0 where the
    predictor does worse than the mean; an alert names the factors for which it is below -0.5. Ours in its settings: a random
    80/20 split, latents standardised on the 80 %.

    Parameters
    ----------
    predictor
        "linear": least squares of least norm, so duplicate and constant latents do no harm. "kernel": ridge regression
        (penalty 1) with the Gaussian kernel exp(-|z - z'|² / d) of the d latents that vary.
    classes
        Discrete factors are predicted by their class "numbers", which is meaningful for ordered classes (the default, since
        a latent that is the class number is a perfect code), or, for classes without order, by "indicators" of each
        class: R² is then of all indicators together, weighted by their variance. Words have no order, and always are.
    max_rows
        Of a random subsample that the kernel predictor sees.

    >>> S = np.random.default_rng(0).uniform(size=(500, 2))
    >>> round(r2(S @ [[1.0, 2.0], [-1.0, 1.0]] + 3, S).r2, 12)
    1.0
    """
    if predictor not in get_args(Predictor):
        raise UsageError(f"predictor: expected linear or kernel, got {predictor!r}.")
    if classes not in get_args(Classes):
        raise UsageError(f"classes: expected numbers or indicators, got {classes!r}.")
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    settings: dict[str, Any] = {"predictor": predictor, "classes": classes, "held_out": HELD_OUT, "seed": seed}
    if predictor == "kernel":
        settings |= _kernel_settings(codes, max_rows)
    fitted, held_out = split_rows(codes.n, HELD_OUT, seed, settings.get("rows"))
    targets = [_targets(f, classes) for f in codes.factors]
    owner = np.repeat(np.arange(len(targets)), [t.shape[1] for t in targets])
    wrong, spread = _errors(codes.latents, np.hstack(targets), fitted, held_out, predictor)
    by_factor = _share_explained(*(np.asarray(np.bincount(owner, sums), np.float64) for sums in (wrong, spread)))
    return Metric(
        scores={"r2": _mean_of_defined(by_factor)},
        settings=settings,
        details={"r2": by_factor.tolist()},
        alerts=codes.alerts
        + _words_alert(codes)
        + codes_alert(codes)
        + _undefined_alert(codes, by_factor)
        + _far_below_alert(codes, by_factor, fitted, held_out),
    )


def sis(
    latents: Any,
    factors: Any = None,
    slots_latents: Sequence[Sequence[int]] | None = None,
    slots_factors: Sequence[Sequence[int]] | None = None,
    *,
    max_rows: int = MAX_KERNEL_ROWS,
    seed: int = 0,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    """Slot identifiability score: does each group of latents know one group of factors, and no other?

    Implements the SIS of Brady et al. 2023. R²[i, j] is that of kernel ridge regression (Gaussian kernel, penalty 1) from
    latents of slot j to factors of slot i on a fifth of the rows held out, averaged over the factors of the slot, clipped
    at 0. Slots are paired for the largest sum; the score is the mean over factor slots of the R² of its pair less the
    largest R² of any other slot. A factor slot left without a pair has R² 0 there. Ours: rows are split at random (the
    original takes the last fifth), and standardised on the rows fitted.

    Parameters
    ----------
    slots_latents, slots_factors
        The columns of every slot, counted from 0; one column each if not given.

    >>> S = np.random.default_rng(0).uniform(size=(500, 4))
    >>> sis(S[:, [2, 3, 0, 1]], S, [[0, 1], [2, 3]], [[0, 1], [2, 3]]).sis > 0.9
    True
    """
    codes = as_codes(latents, factors, discrete=discrete, kinds=kinds)
    if slots_factors is not None and any(alert.code == "constant_factors" for alert in codes.alerts):
        raise DataError("slots_factors: a factor is constant and left out, so columns would shift; drop it first.")
    groups_z = _slots(slots_latents, codes.d, "slots_latents")
    groups_s = _slots(slots_factors, len(codes.factors), "slots_factors")
    settings = {
        "slots_latents": groups_z,
        "slots_factors": groups_s,
        "predictor": "kernel",
        "classes": "numbers",
        "held_out": HELD_OUT,
        "seed": seed,
        **_kernel_settings(codes, max_rows),
    }
    fitted, held_out = split_rows(codes.n, HELD_OUT, seed, settings["rows"])
    S = np.column_stack([f.values for f in codes.factors])
    by_column = np.column_stack(
        [_share_explained(*_errors(codes.latents[:, g], S, fitted, held_out, "kernel")) for g in groups_z]
    )
    undefined = np.isnan(by_column).all(axis=1)
    by_slot = np.array([[_mean_of_defined(column[g]) for column in by_column.T] for g in groups_s])
    explained = np.nan_to_num(by_slot).clip(0.0)
    own, other, pairing = _own_and_other(explained)
    one_each = slots_latents is None and slots_factors is None
    what = "held-out R², clipped at 0"
    return Metric(
        scores={"sis": float((own - other).mean())},
        settings=settings,
        matrix=factor_latent(what, explained) if one_each else None,
        details={"r2": explained.tolist(), "pair": pairing, "own": own.tolist(), "largest_other": other.tolist()},
        alerts=codes.alerts + _undefined_alert(codes, np.where(undefined, np.nan, 0.0)),
    )


def _kernel_settings(codes: Codes, max_rows: int) -> dict[str, Any]:
    if max_rows < FEWEST_ROWS:
        raise UsageError(f"max_rows: expected at least {FEWEST_ROWS}, got {max_rows}.")
    return {"kernel": "gaussian", "gamma": "1/d", "penalty": RIDGE, "rows": min(max_rows, codes.n)}


def _targets(factor: FactorColumn, classes: Classes) -> Array:
    if factor.codes is None or (classes == "numbers" and not factor.about.words):
        return factor.values[:, None]
    return np.asarray(factor.codes[:, None] == np.arange(factor.about.classes), dtype=np.float64)


def _errors(Z: Array, targets: Array, fitted: Rows, held_out: Rows, predictor: Predictor) -> tuple[Array, Array]:
    """Sums of squares of every target over the rows held out: of the prediction's error, and about their own mean."""
    center = Z[fitted].mean(axis=0)
    spread = Z[fitted].std(axis=0)
    varies = np.ptp(Z[fitted], axis=0) > 0
    X = (Z[:, varies] - center[varies]) / spread[varies]
    mean = targets[fitted].mean(axis=0)
    predict = _linear if predictor == "linear" else _kernel
    predicted = mean + predict(X[fitted], targets[fitted] - mean, X[held_out])
    truth = targets[held_out]
    total = np.where(np.ptp(truth, axis=0) > 0, ((truth - truth.mean(axis=0)) ** 2).sum(axis=0), 0.0)
    return ((truth - predicted) ** 2).sum(axis=0), total


def _linear(X: Array, targets: Array, new: Array) -> Array:
    return np.asarray(new @ np.linalg.lstsq(X, targets, rcond=None)[0], dtype=np.float64)


def _kernel(X: Array, targets: Array, new: Array) -> Array:
    if not X.shape[1]:
        return np.zeros((len(new), targets.shape[1]))
    scale = -1.0 / X.shape[1]
    gram = np.exp(scale * cdist(X, X, "sqeuclidean"))
    gram[np.diag_indices_from(gram)] += RIDGE
    weights = cho_solve(cho_factor(gram, lower=True, overwrite_a=True), targets)
    predicted: Array = np.exp(scale * cdist(new, X, "sqeuclidean")) @ weights
    return predicted


def _share_explained(wrong: Array, spread: Array) -> Array:
    """R²; NaN where nothing varies among the rows held out."""
    return np.asarray(1.0 - np.divide(wrong, spread, out=np.full(len(wrong), np.nan), where=spread > 0))


def _mean_of_defined(values: Array) -> float:
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if defined.size else float("nan")


def _undefined_alert(codes: Codes, by_factor: Array) -> tuple[Alert, ...]:
    names = [name for name, value in zip(codes.names, by_factor, strict=True) if np.isnan(value)]
    if not names:
        return ()
    return (Alert("constant_when_held_out", {"factors": names}),)


def _words_alert(codes: Codes) -> tuple[Alert, ...]:
    """That words were predicted class by class, which no straight line in the number of the class does."""
    names = [f.about.name for f in codes.factors if f.about.words and f.about.classes > 2]
    return (Alert("words_as_numbers", {"indicators": names}),) if names else ()


def _far_below_alert(codes: Codes, by_factor: Array, fitted: Rows, held_out: Rows) -> tuple[Alert, ...]:
    """That the predictor is far worse than the mean of the factor, and the two usual reasons in numbers."""
    low = {name: value for name, value in zip(codes.names, by_factor, strict=True) if value < FAR_BELOW_ZERO}
    if not low:
        return ()
    known = codes.latents[fitted]
    spread = known.std(axis=0)
    away = np.abs(codes.latents[held_out] - known.mean(axis=0))[:, np.ptp(known, axis=0) > 0]
    reach = float((away / spread[np.ptp(known, axis=0) > 0]).max(initial=0.0))
    worst = min(low, key=lambda name: low[name])
    return (
        Alert(
            "r2_far_below_zero",
            {
                "factors": list(low),
                "worst": worst,
                "r2": low[worst],
                "latents": codes.d,
                "rows": len(fitted),
                "reach": reach,
            },
        ),
    )


def _slots(groups: Sequence[Sequence[int]] | None, width: int, name: str) -> list[list[int]]:
    if groups is None:
        return [[i] for i in range(width)]
    found = [[int(i) for i in group] for group in groups]
    used = [i for group in found for i in group]
    if not found or not all(found) or len(set(used)) < len(used) or not all(0 <= i < width for i in used):
        raise UsageError(
            f"{name}: expected groups of different columns from 0 to {width - 1}, none of them empty, got {found}."
        )
    return found


def _own_and_other(explained: Array) -> tuple[Array, Array, list[int | None]]:
    """Of every factor slot: R² from its pair, the largest from any other latent slot, and the pair."""
    pairing = best_pairing(explained)
    own, rest = np.zeros(len(explained)), explained.copy()
    for i, j in enumerate(pairing):
        if j is not None:
            own[i], rest[i, j] = explained[i, j], 0.0
    return own, rest.max(axis=1), pairing
