"""Metrics from predicting factors: DCI, SAP, explicitness.

Each fits on some rows and scores on others; `seed` draws which. Values of discrete latents count as numbers, as they would
in disentanglement_lib. What a solver leaves unfinished is an alert, never a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2, rankdata
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.inspection import permutation_importance
from sklearn.linear_model import Lasso, LogisticRegression
from sklearn.svm import LinearSVC

from identifiable._checks import DataError, UsageError
from identifiable.disentanglement.binned import (
    BINS,
    constant_alert,
    factor_classes,
    factor_latent,
    filled_factors,
    top_two_gap,
)
from identifiable.disentanglement.codes import LOOKED_AT, Array, Codes, FactorColumn, Labels, as_codes, redundancy
from identifiable.disentanglement.correlated import codes_alert
from identifiable.results import Alert, Metric

LIB_ROWS = (10_000, 5_000)  # disentanglement_lib: rows to fit on, rows to score
FOREST_TEST_SHARE = 0.1  # tripod
TREES = 100  # disentanglement_lib (scikit-learn's default) and tripod
BOOSTED_DEPTH = 3  # disentanglement_lib (scikit-learn's default)
FOREST_DEPTH = 10  # tripod
EXTRA_TREES = 50  # ours: closed forms hold to 0.01 with 30
SMALLEST_SPLIT = 5  # rows; Geurts et al. 2006, for regression
SMALLEST_TESTED = 20  # ours: rows of a node from which on its split is tested, by a statistic for many rows
CHANCE_SPLIT = 1e-3  # ours: level of that test for all splits of a factor together
REDUNDANT = 0.8  # R² of a latent by the others from which on it is called collinear (variance inflation 5)
HIDES_COPIES = ("boosting", "lasso")  # predictors that use one of two equal latents, and never the other
REORDERED = 99  # orders of held-out predictions, of which ...
BY_LUCK = 1  # ... at most so many may be as accurate for a predictor that does not guess: 2 in 100
LASSO_ALPHA = 0.01  # ours: Eastwood and Williams chose one for each model and factor on held-out rows
SHUFFLES = 5  # ours: of each latent, for permutation importance
ENTROPY_GUARD = 1e-11  # disentanglement_lib
SVC_C = 0.01  # disentanglement_lib
ROUNDING = 8 * float(np.finfo(np.float64).eps)  # of the numbers: a latent whose deviation is below is constant
LARGEST, SMALLEST = 1e30, 1e-100  # ours: trees read float32, and liblinear never ends on 1e100 or on 1e-320
LOGISTIC_STEPS = 100  # scikit-learn's default, which disentanglement_lib takes


@dataclass(frozen=True, eq=False)
class Split:
    """Which rows a predictor is fitted on, and which it is scored on."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]

    @property
    def settings(self) -> dict[str, int]:
        return {"train_rows": len(self.train), "test_rows": len(self.test)}


@dataclass(frozen=True, eq=False)
class Fit:
    """How well one predictor did for one factor, on the rows it was fitted on and on the others; whether it finished.

    `guessed`: the score on the others is not above what the same predictions reach in another order, or what the mean reaches.
    """

    train: float
    test: float
    converged: bool = True
    guessed: bool = False


def dci(
    latents: Any,
    factors: Any = None,
    *,
    predictor: str = "extra_trees",
    alpha: float = LASSO_ALPHA,
    seed: int = 0,
    n_jobs: int | None = None,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    r"""Disentanglement, completeness and informativeness, from how much a predictor of each factor uses each latent.

    Implements Eastwood and Williams 2018 with disentanglement_lib's weights. With R(i, j) the importance of latent j for
    factor i, m factors, d latents, and entropies H in base m and d of the normalised columns and rows of R + 1e-11,
        disentanglement = sum_j rho_j (1 - H(R_.j)),  completeness = sum_i rho_i (1 - H(R_i.)),
    rho the share of a latent, or of a factor, in the sum of R (equal shares where R is 0, so that both are 0).
    `informativeness_train` and `_test` are the mean accuracy, or R² for continuous factors and the lasso (R² of ranks with
    extra_trees). Disentanglement is NaN with a single factor, completeness with a single latent: an alert says so.

    The predictor is part of the metric: scores of different predictors are not comparable. Importances of a predictor that predicts
    no better than a guess mean nothing: the alert ``uninformative`` names such factors. ``collinear_latents`` says where the predictor
    uses one of a group of equal latents and hides the others, so that completeness is too high.

    Parameters
    ----------
    predictor
        "extra_trees": the default, and ours. 50 extremely randomised trees (Geurts et al. 2006) of the ranks of latents and of
        continuous factors; each split sees every latent. The importance of a latent is the impurity that its splits remove. Only
        splits of at least 20 rows count, and only where a likelihood-ratio test (level 0.001 for all splits of a factor
        together) does not ascribe them to chance: noise has no importance, and equal latents share theirs. Split as gbt. Chosen
        by closed forms (`tests/disentanglement/test_dci_closed_forms.py`): it satisfies all of them.
        "forest": 100 trees of depth 10, split by entropy, on 90 % of the rows, scored on 10 % (as tripod). For
        discrete factors a split sees only sqrt(d) of the latents, so some must use a wrong one: a perfect code of 10 factors
        with 10 values scores 0.54 in disentanglement and completeness.
        "gbt": 100 boosted trees of depth 3 (disentanglement_lib), 10,000 rows to fit and 5,000 to score, or two thirds and
        one third of fewer. One tree per class and round: about 16 minutes on 10,000 rows of MPI3D, whose two 40-class
        factors take nine tenths of it.
        "boosting": ours, histogram boosting with the same depth, rounds and split, several times faster; its importance is
        the loss of held-out score when a latent is shuffled (5 times, negative ones 0), normalised over latents. It hides duplicates.
        "lasso": |coefficients| of standardised latents for the standardised factor; split as gbt. It hides duplicates. For
        continuous factors, and discrete ones with two values; others are refused, unless ``kinds="continuous"`` says that their
        order counts.
    alpha
        Penalty of the lasso.
    n_jobs
        Threads for "extra_trees" and "forest"; does not affect results.

    >>> grid = np.repeat(np.indices((4, 4)).reshape(2, -1).T, 20, axis=0)
    >>> found = dci(grid * 0.5, grid)
    >>> round(found.disentanglement, 6), round(found.completeness, 6), found.informativeness_test
    (1.0, 1.0, 1.0)
    """
    codes = _of_ordinary_size(as_codes(latents, factors, discrete=discrete, kinds=kinds))
    if predictor not in _SETTINGS:
        raise UsageError(f"predictor: expected {', '.join(_SETTINGS)}, got {predictor!r}.")
    if predictor == "lasso":
        _check_lasso(codes, alpha)
    split = forest_split(codes.n, seed) if predictor == "forest" else lib_split(codes.n, seed)
    settings: dict[str, Any] = {"predictor": predictor, **_SETTINGS[predictor], **split.settings, "seed": seed}
    if predictor == "lasso":
        settings["alpha"] = float(alpha)
    rows, fits = zip(
        *(_predict(predictor, codes.latents, factor, split, seed, n_jobs, alpha) for factor in codes.factors),
        strict=True,
    )
    importance = np.array(rows)
    by_latent, by_factor = disentanglement_of_latents(importance), completeness_of_factors(importance)
    scores = {
        "disentanglement": float(by_latent @ _shares(importance.sum(axis=0))),
        "completeness": float(by_factor @ _shares(importance.sum(axis=1))),
        "informativeness_train": _mean_of_defined([fit.train for fit in fits]),
        "informativeness_test": _mean_of_defined([fit.test for fit in fits]),
    }
    details = {
        "disentanglement_of_latent": by_latent.tolist(),
        "completeness_of_factor": by_factor.tolist(),
        "weight_of_latent": _shares(importance.sum(axis=0)).tolist(),
        "weight_of_factor": _shares(importance.sum(axis=1)).tolist(),
        "train_score_of_factor": [fit.train for fit in fits],
        "test_score_of_factor": [fit.test for fit in fits],
        "converged_of_factor": [fit.converged for fit in fits],
    }
    alerts = codes.alerts + _lonely_alerts(codes) + _converged_alert(codes, [fit.converged for fit in fits])
    alerts += _uninformative_alert(codes, split, fits)
    alerts += _collinear_alert(codes, predictor)
    return Metric(
        scores, settings, factor_latent(f"importance of the latent ({predictor})", importance), details, alerts
    )


def sap(
    latents: Any,
    factors: Any = None,
    *,
    seed: int = 0,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    r"""Separated attribute predictability: is each factor predicted by one latent much better than by any other?

    Implements Kumar et al. 2018 as disentanglement_lib computes it: the mean over factors of the gap between the two best
    scores of a single latent. The score is, on 10,000 rows to fit and 5,000 to score (two thirds and one third of fewer),
        discrete factor    held-out accuracy of LinearSVC(C=0.01, class_weight="balanced"),
        continuous factor  squared correlation on the rows to fit, 0 for a latent that is constant but for rounding (there, whose
                           variance is at most 1e-12).
    For a discrete factor an uninformed latent, a constant one too, keeps the accuracy of a guess, as in disentanglement_lib:
    a perfect code scores 1 for continuous factors, but 1 - 1/2 for one of two classes, and about 0.05 for one of 40, which
    straight lines in one number cannot tell apart. Ours: with a single latent the second best is 0.

    The penalty of the classifier sees the scale of a latent, so SAP of discrete factors changes with scale, though not
    with order or sign.

    >>> rng = np.random.default_rng(0)
    >>> factors = rng.uniform(size=(3000, 2))
    >>> round(sap(factors, factors).sap, 2)
    1.0
    """
    codes = _of_ordinary_size(as_codes(latents, factors, discrete=discrete, kinds=kinds))
    split = lib_split(codes.n, seed)
    rows, converged = zip(*(_sap_row(codes.latents, factor, split) for factor in codes.factors), strict=True)
    matrix = np.array(rows)
    gaps = top_two_gap(matrix, 1)
    settings = {
        "classifier": f"LinearSVC(C={SVC_C}, balanced), single latents",
        **split.settings,
        "seed": seed,
    }
    return Metric(
        {"sap": float(gaps.mean())},
        settings,
        factor_latent("held-out accuracy or squared correlation", matrix),
        {"gap_of_factor": gaps.tolist(), "converged_of_factor": list(converged)},
        codes.alerts
        + codes_alert(codes)
        + constant_alert(codes, "prediction")
        + _converged_alert(codes, list(converged)),
    )


def explicitness(
    latents: Any,
    factors: Any = None,
    *,
    bins: int = BINS,
    seed: int = 0,
    discrete: bool | None = None,
    kinds: str | Sequence[str] = "auto",
) -> Metric:
    r"""Explicitness: can the value of each factor be read off all latents by a linear rule?

    Implements Ridgeway and Mozer 2018 as disentanglement_lib computes it: one logistic regression for each factor on
    standardised latents (lbfgs, C=1, 100 steps), fitted on 10,000 rows and scored on 5,000 (two thirds and one third of
    fewer); the area under the ROC curve of each class against the rest, averaged over classes, then over factors.
    `explicitness` is the held-out one, `explicitness_train` that of the rows it was fitted on. A guess scores 0.5.

    Ours: a continuous factor is put into `bins` bins of equal width; a constant latent is left at 0, where the original
    divides by 0; a class without rows, or without others, is left out, and one that was not fitted has probability 0. A
    factor without any class left is NaN and left out of the mean.

    >>> grid = np.repeat(np.indices((2, 2)).reshape(2, -1).T, 20, axis=0)
    >>> round(explicitness(grid * 0.5, grid).explicitness, 6)
    1.0
    """
    codes = _of_ordinary_size(as_codes(latents, factors, discrete=discrete, kinds=kinds))
    split = lib_split(codes.n, seed)
    scaled = _standardised(codes.latents, split.train)
    fits = [_explicit(scaled, classes, split) for classes in factor_classes(codes, bins)]
    settings = {
        "classifier": "LogisticRegression(C=1, lbfgs)",
        "max_iter": LOGISTIC_STEPS,
        "bins": int(bins),
        **split.settings,
        "seed": seed,
    }
    converged = [fit.converged for fit in fits]
    undefined = [name for name, fit in zip(codes.names, fits, strict=True) if np.isnan(fit.test)]
    return Metric(
        {
            "explicitness": _mean_of_defined([fit.test for fit in fits]),
            "explicitness_train": _mean_of_defined([fit.train for fit in fits]),
        },
        settings,
        None,
        {
            "auc_of_factor": [fit.test for fit in fits],
            "auc_train_of_factor": [fit.train for fit in fits],
            "converged_of_factor": converged,
        },
        codes.alerts
        + codes_alert(codes)
        + filled_factors(codes, bins)
        + _converged_alert(codes, converged)
        + ((Alert("too_few_classes", {"factors": undefined}),) if undefined else ()),
    )


def _of_ordinary_size(codes: Codes) -> Codes:
    """The same codes; values too small to be told from 0 are 0, and values too large for a predictor are refused."""
    size = np.abs(codes.latents)
    if size.max() > LARGEST:
        j = int(size.max(axis=0).argmax())
        raise DataError(
            f"{codes.latent_names[j]}: expected values up to {LARGEST:g} in size, got {size.max():.3g}; rescale it or "
            "remove those rows."
        )
    lost = (size < SMALLEST) & (size > 0)
    return replace(codes, latents=np.where(lost, 0.0, codes.latents)) if lost.any() else codes


def lib_split(n: int, seed: int) -> Split:
    """10,000 rows to fit and 5,000 to score, drawn without repeats; two thirds and one third where there are fewer."""
    train, test = LIB_ROWS if n >= sum(LIB_ROWS) else (round(2 * n / 3), n - round(2 * n / 3))
    order = np.random.default_rng(seed).permutation(n)
    return Split(order[:train], order[train : train + test])


def forest_split(n: int, seed: int) -> Split:
    """Nine tenths of the rows to fit and one tenth to score, at least one row in each."""
    test = max(1, int(np.ceil(FOREST_TEST_SHARE * n)))
    order = np.random.default_rng(seed).permutation(n)
    return Split(order[test:], order[:test])


def disentanglement_of_latents(importance: Array) -> Array:
    """1 less the entropy of each latent's importance over factors, in base of their number. `importance` is factor × latent."""
    return 1 - _entropy_of_columns(importance)


def completeness_of_factors(importance: Array) -> Array:
    """1 less the entropy of each factor's importance over latents, in base of their number. `importance` is factor × latent."""
    return 1 - _entropy_of_columns(importance.T)


def _entropy_of_columns(matrix: Array) -> Array:
    if len(matrix) == 1:
        return np.full(matrix.shape[1], np.nan)  # log 1 is 0: neither spread nor concentrated
    share = (matrix + ENTROPY_GUARD) / (matrix + ENTROPY_GUARD).sum(axis=0)
    return np.asarray(-(share * np.log(share)).sum(axis=0) / np.log(len(matrix)))


def _shares(sums: Array) -> Array:
    total = sums.sum()
    return np.asarray(sums / total if total > 0 else np.full(len(sums), 1 / len(sums)))


def _lonely_alerts(codes: Codes) -> tuple[Alert, ...]:
    found = []
    if len(codes.factors) == 1:
        found.append(Alert("single_factor", {"factor": codes.names[0], "score": "disentanglement"}))
    if codes.d == 1:
        found.append(Alert("single_latent", {"latent": codes.latent_names[0]}))
    return tuple(found)


def _uninformative_alert(codes: Codes, split: Split, fits: Sequence[Fit]) -> tuple[Alert, ...]:
    """Names factors predicted no better than by a guess."""
    low = {name: fit.test for name, fit in zip(codes.names, fits, strict=True) if fit.guessed}
    if not low:
        return ()
    return (Alert("uninformative", {"factors": list(low), "lowest": min(low.values()), "rows": len(split.test)}),)


def _guessed(predicted: NDArray[Any], true: NDArray[Any], score: float) -> bool:
    """Whether predictions of classes agree with the true ones no more than in another order; a perfect score is no guess.

    The accuracy of rare classes is nearly that of always naming the common one, however well they are found.
    """
    rng = np.random.default_rng(0)
    reached = sum(_accuracy(rng.permutation(predicted), true) >= score for _ in range(REORDERED))
    return score < 1.0 - 1e-9 and reached > BY_LUCK


def _collinear_alert(codes: Codes, predictor: str) -> tuple[Alert, ...]:
    """Names latents that others nearly determine, where the predictor uses one of them and hides the rest."""
    if predictor not in HIDES_COPIES or codes.d < 2:
        return ()
    rows = np.random.default_rng(0).permutation(codes.n)[:LOOKED_AT]
    explained = redundancy(codes.latents[rows])
    names = [name for name, share in zip(codes.latent_names, explained, strict=True) if share > REDUNDANT]
    if not names:
        return ()
    values = {"latents": names, "r2": float(explained.max()), "predictor": predictor}
    return (Alert("collinear_latents", values),)


def _converged_alert(codes: Codes, converged: Sequence[bool]) -> tuple[Alert, ...]:
    names = [name for name, done in zip(codes.names, converged, strict=True) if not done]
    return (Alert("not_converged", {"factors": names}),) if names else ()


def _mean_of_defined(values: Sequence[float]) -> float:
    defined = [v for v in values if not np.isnan(v)]
    return float(np.mean(defined)) if defined else float("nan")


def _predict(
    predictor: str, latents: Array, factor: FactorColumn, split: Split, seed: int, n_jobs: int | None, alpha: float
) -> tuple[Array, Fit]:
    """The importance of every latent for one factor, and how well it was predicted."""
    target = factor.values if factor.codes is None else factor.codes
    if predictor == "extra_trees":
        # Their thresholds are uniform over a range, which one outlier would stretch; and a test of means would see outliers only.
        latents = rankdata(latents, axis=0)
        target = rankdata(target) if factor.codes is None else target
    y_train, y_test = target[split.train], target[split.test]
    if (y_train == y_train[0]).all():  # nothing to learn, and scikit-learn would refuse
        guess = y_train[0]
        train, test = ((_accuracy if factor.discrete else _r2)(np.full_like(y, guess), y) for y in (y_train, y_test))
        return np.zeros(latents.shape[1]), Fit(train, test, guessed=test < 1.0 - 1e-9)
    if predictor == "lasso":
        return _lasso(latents, factor.values, split, alpha)
    model = _ENSEMBLES[predictor](factor.discrete, seed, n_jobs)
    _fit(model, latents[split.train], y_train)
    if n_jobs is not None and "n_jobs" in model.get_params():
        model.set_params(n_jobs=1)  # its trees vote in the order in which threads finish, which rounds differently
    score = _accuracy if factor.discrete else _r2
    predicted = model.predict(latents[split.test])
    train, test = score(model.predict(latents[split.train]), y_train), score(predicted, y_test)
    fit = Fit(train, test, guessed=_guessed(predicted, y_test, test) if factor.discrete else test <= 0)
    if predictor == "extra_trees":
        return _tested_importance(model, latents.shape[1], discrete=factor.discrete), fit
    if predictor != "boosting":
        return np.abs(model.feature_importances_), fit
    lost = permutation_importance(model, latents[split.test], y_test, n_repeats=SHUFFLES, random_state=seed)
    kept = np.clip(lost.importances_mean, 0, None)
    return kept / kept.sum() if kept.any() else kept, fit


def _tested_importance(model: Any, d: int, *, discrete: bool) -> Array:
    """The impurity that splits on each latent remove, over the sum, of the splits that chance hardly makes.

    The threshold of a split was drawn without looking at the factor. If the factor is independent of the latent in the rows of the
    node, twice the gain in log-likelihood therefore is chi-squared, with one degree of freedom less than there are classes (one
    for numbers). Every split is the best of d latents, and the level is shared among all of them.
    """
    found = [_splits(member.tree_, discrete=discrete) for member in model.estimators_]
    latent, removed, gain, freedom = (np.concatenate(part) for part in zip(*found, strict=True))
    level = CHANCE_SPLIT / max(d * len(latent), 1)
    kept = gain > chi2.isf(level, np.arange(1, freedom.max(initial=1) + 1))[freedom - 1]
    importance = np.bincount(latent[kept], removed[kept], minlength=d).astype(np.float64)
    return np.asarray(importance / importance.sum() if importance.any() else importance)


def _splits(tree: Any, *, discrete: bool) -> tuple[NDArray[Any], ...]:
    """Of every split of enough rows: its latent, the impurity it removes, twice the gain in log-likelihood, and its degrees of freedom."""
    sizes = tree.weighted_n_node_samples
    inner = np.flatnonzero((tree.children_left >= 0) & (sizes >= SMALLEST_TESTED))
    impurity = sizes * tree.impurity
    before, after = impurity[inner], impurity[tree.children_left[inner]] + impurity[tree.children_right[inner]]
    if discrete:
        gain = 2 * np.log(2) * (before - after)  # scikit-learn counts entropy in bits
        return tree.feature[inner], before - after, gain, (tree.value[inner, 0] > 0).sum(axis=1) - 1
    gain = sizes[inner] * np.log(before / np.maximum(after, before * 1e-300))
    return tree.feature[inner], before - after, gain, np.ones(len(inner), dtype=np.intp)


def _extra_trees(discrete: bool, seed: int, n_jobs: int | None) -> Any:
    common = {
        "n_estimators": EXTRA_TREES,
        "max_features": None,
        "min_samples_split": SMALLEST_SPLIT,
        "random_state": seed,
        "n_jobs": n_jobs,
    }
    return ExtraTreesClassifier(criterion="entropy", **common) if discrete else ExtraTreesRegressor(**common)


def _forest(discrete: bool, seed: int, n_jobs: int | None) -> Any:
    common = {"n_estimators": TREES, "max_depth": FOREST_DEPTH, "random_state": seed, "n_jobs": n_jobs}
    return RandomForestClassifier(criterion="entropy", **common) if discrete else RandomForestRegressor(**common)


def _gbt(discrete: bool, seed: int, n_jobs: int | None) -> Any:
    kind = GradientBoostingClassifier if discrete else GradientBoostingRegressor
    return kind(n_estimators=TREES, max_depth=BOOSTED_DEPTH, random_state=seed)


def _histogram_boosting(discrete: bool, seed: int, n_jobs: int | None) -> Any:
    kind = HistGradientBoostingClassifier if discrete else HistGradientBoostingRegressor
    return kind(max_iter=TREES, max_depth=BOOSTED_DEPTH, early_stopping=False, random_state=seed)


_ENSEMBLES: dict[str, Callable[[bool, int, int | None], Any]] = {
    "extra_trees": _extra_trees,
    "forest": _forest,
    "gbt": _gbt,
    "boosting": _histogram_boosting,
}
_SETTINGS: dict[str, dict[str, Any]] = {
    "extra_trees": {
        "trees": EXTRA_TREES,
        "ranks of": "latents and continuous factors",
        "criterion": "entropy (discrete), squared error (continuous)",
        "importance": "impurity of significant splits",
        "level": CHANCE_SPLIT,
    },
    "forest": {"trees": TREES, "depth": FOREST_DEPTH, "criterion": "entropy (discrete), squared error (continuous)"},
    "gbt": {"trees": TREES, "depth": BOOSTED_DEPTH},
    "boosting": {"trees": TREES, "depth": BOOSTED_DEPTH, "importance": "held-out permutation", "shuffles": SHUFFLES},
    "lasso": {},
}


def _check_lasso(codes: Codes, alpha: float) -> None:
    if not alpha > 0:
        raise UsageError(f"alpha: expected a penalty above 0, got {alpha!r}.")
    many = [f.about.name for f in codes.factors if f.discrete and f.about.classes > 2]
    if many:
        raise DataError(
            f"factors: the lasso expects continuous factors or two values, got more values of {', '.join(many)}; pass "
            "kinds='continuous' if their order counts, or predictor='extra_trees'."
        )


def _fit(model: Any, X: Array, y: Array | Labels) -> None:
    """Fit quietly: whether it converged is a field of the result, and how many classes a factor has is ours to judge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes")
        model.fit(X, y)


def _lasso(latents: Array, values: Array, split: Split, alpha: float) -> tuple[Array, Fit]:
    """A lasso of the standardised factor; the score is R², for a factor of two values too."""
    X = _standardised(latents, split.train)
    y = _standardised(values[:, None], split.train)[:, 0]
    model = Lasso(alpha=alpha)
    _fit(model, X[split.train], y[split.train])
    train, test = (_r2(model.predict(X[rows]), y[rows]) for rows in (split.train, split.test))
    return np.abs(model.coef_), Fit(train, test, bool(model.n_iter_ < model.max_iter), guessed=test <= 0)


def _standardised(values: Array, train: NDArray[np.intp]) -> Array:
    """Mean 0 and deviation 1 on the rows to fit; a column that does not vary there becomes 0."""
    part = values[train]
    still = part.max(axis=0) == part.min(axis=0)
    return np.asarray(np.where(still, 0.0, (values - part.mean(axis=0)) / np.where(still, 1.0, part.std(axis=0))))


def _accuracy(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    return float((predicted == true).mean())


def _r2(predicted: NDArray[Any], true: NDArray[Any]) -> float:
    around = ((true - true.mean()) ** 2).sum()
    return float(1 - ((true - predicted) ** 2).sum() / around) if around > 0 else float("nan")


def _sap_row(latents: Array, factor: FactorColumn, split: Split) -> tuple[list[float], bool]:
    """The score of every single latent for one factor, and whether all its classifiers converged."""
    if factor.codes is None:
        return _squared_correlations(latents[split.train], factor.values[split.train]), True
    y_train, y_test = factor.codes[split.train], factor.codes[split.test]
    if (y_train == y_train[0]).all():
        return [_accuracy(np.full_like(y_test, y_train[0]), y_test)] * latents.shape[1], True
    scores, converged = [], True
    for column in latents.T:
        model = LinearSVC(C=SVC_C, class_weight="balanced", dual=False)
        _fit(model, column[split.train, None], y_train)
        converged = converged and bool(model.n_iter_ < model.max_iter)
        scores.append(_accuracy(model.predict(column[split.test, None]), y_test))
    return scores, converged


def _squared_correlations(latents: Array, factor: Array) -> list[float]:
    """Of every latent with the factor; 0 where one of them does not vary by more than the rounding of its own numbers."""
    (x, varies), (y, asks) = _of_length_one(latents), _of_length_one(factor[:, None])
    found: list[float] = np.where(varies & asks, (y[:, 0] @ x) ** 2, 0.0).tolist()
    return found


def _of_length_one(columns: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Columns about their means, divided by their lengths, and which of them vary: no column is judged by the units of another."""
    centred = columns - columns.mean(axis=0)
    centred -= centred.mean(axis=0)  # the rounding of a mean over many rows
    length = np.linalg.norm(centred, axis=0)
    varies = np.ptp(columns, axis=0) > 0
    varies &= length > ROUNDING * np.abs(columns).max(axis=0) * np.sqrt(len(columns))
    return centred / np.where(varies, length, 1.0), varies


def _explicit(latents: Array, classes: Labels, split: Split) -> Fit:
    y_train, y_test = classes[split.train], classes[split.test]
    if (y_train == y_train[0]).all():
        return Fit(float("nan"), float("nan"))
    model = LogisticRegression(max_iter=LOGISTIC_STEPS)
    _fit(model, latents[split.train], y_train)
    areas = []
    for rows, true in ((split.train, y_train), (split.test, y_test)):
        probability = np.zeros((len(rows), int(classes.max()) + 1))
        probability[:, model.classes_] = model.predict_proba(latents[rows])
        areas.append(_mean_area(probability, true))
    return Fit(areas[0], areas[1], bool(np.max(model.n_iter_) < LOGISTIC_STEPS))


def _mean_area(probability: Array, true: Labels) -> float:
    """Mean over classes of the area under the ROC curve of one class against the rest, from ranks; ties count half."""
    counts = np.bincount(true, minlength=probability.shape[1])
    shown = np.flatnonzero((counts > 0) & (counts < len(true)))
    if not len(shown):
        return float("nan")
    ranks = rankdata(probability[:, shown], axis=0)
    inside = np.array([ranks[true == c, k].sum() for k, c in enumerate(shown)])
    size = counts[shown]
    return float(np.mean((inside - size * (size + 1) / 2) / (size * (len(true) - size))))
