"""Classifiers that tell a perturbation from controls: trees with the paper's settings, linear probes, and the user's own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, LogisticRegression

from identifiable._checks import UsageError
from identifiable._extras import require
from identifiable.blocks import chunk_rows
from identifiable.deconfounding.checkpoint import fingerprint
from identifiable.deconfounding.design import Codes, Mask
from identifiable.moments import Array

# Table 6 of Nelson et al. (2026).
TABLE_6: Mapping[str, Any] = {
    "is_unbalance": True,
    "learning_rate": 0.05,
    "num_leaves": 31,
    "feature_fraction": 0.6,
    "reg_alpha": 5.0,
    "reg_lambda": 1.0,
    "min_gain_to_split": 0.8,
    "min_data_in_leaf": 30,
}
LEAF = "min_data_in_leaf"
LEAST_LEAF = 3  # wells: fewer are one well and its neighbour
ADDRESS = " at 0x"  # in Python's own text for an object that has none
ROUNDS = 100  # LightGBM's default; the paper gives none, nor early stopping
# Ours, so that a model follows from data and seed. A fit has one thread and several fits run side by side: at 22,000 x 384 on
# 2 cores 5.7 s a fit against 6.5 s with two threads in one fit, and 6 s against 17 s when the cores are shared with other work.
# Histograms by row or by column give the same model, bit for bit, and differ in speed by less than the machine does.
REPRODUCIBLE: Mapping[str, Any] = {
    "objective": "binary",
    "deterministic": True,
    "force_col_wise": True,  # the faster of the two on small screens
    "num_threads": 1,
    "verbosity": -1,
}


class FittedClassifier(Protocol):
    """Scores of rows, higher for positives; `split_counts` of every feature if it is made of trees, else None."""

    @property
    def split_counts(self) -> NDArray[np.int64] | None: ...
    @property
    def converged(self) -> bool: ...
    def scores(self, X: NDArray[Any], /) -> Array: ...


@runtime_checkable
class Classifier(Protocol):
    """Anything with a name that is fitted to rows and two classes."""

    @property
    def name(self) -> str: ...
    def fit(self, X: NDArray[Any], positive: Mask, seed: int, /) -> FittedClassifier: ...


class Trainer(Protocol):
    """Fits a classifier to some rows of one matrix; what those fits share is done once."""

    def fit(self, rows: Codes, positive: Mask, seed: int, /) -> FittedClassifier: ...


def trainer(classifier: Classifier, X: NDArray[Any], rows: Codes) -> Trainer:
    """A trainer on `rows` of X, ascending: the classifier's own if it has one (`prepare`), else one that takes rows as they come."""
    prepare = getattr(classifier, "prepare", None)
    return prepare(X, rows) if prepare is not None else _PlainTrainer(classifier, X)


@dataclass(frozen=True, eq=False)
class _PlainTrainer:
    classifier: Classifier
    X: NDArray[Any]

    def fit(self, rows: Codes, positive: Mask, seed: int) -> FittedClassifier:
        return self.classifier.fit(self.X[rows], positive, seed)


# -- trees


@dataclass(frozen=True)
class LightGBM:
    """Gradient-boosted trees with the settings of Table 6. Implements step 6 of the paper's protocol; rounds and seed are ours.

    `adapts` (ours, for small screens): a leaf needs half of the training wells of the smaller class, at least `LEAST_LEAF` and at
    most what Table 6 says. A leaf of 30 cannot hold a class of 16 wells without 14 others, so trees would make no split; half of
    a class lets a tree cut a class from the rest, and cut it once more. From 60 wells on this is Table 6.
    """

    rounds: int = ROUNDS
    settings: Mapping[str, Any] = field(default_factory=lambda: dict(TABLE_6))
    name: str = "lightgbm"
    adapts: bool = False

    def __post_init__(self) -> None:
        require("lightgbm", extra="bio", what="the classifier 'lightgbm'")

    def fit(self, X: NDArray[Any], positive: Mask, seed: int) -> FittedClassifier:
        return self.prepare(X, np.arange(len(X))).fit(np.arange(len(X)), positive, seed)

    def prepare(self, X: NDArray[Any], rows: Codes) -> Trainer:
        """Bin the features of all training rows once. Ours: binning is a third of a fit, and needs no labels.

        Bins are quantiles over the training rows of all targets instead of one; the trees choose among the same few hundred
        thresholds per feature.
        """
        import lightgbm

        # Labels only keep the constructor content; every fit brings its own.
        labels = np.zeros(len(rows), dtype=np.float32)
        binned = lightgbm.Dataset(np.ascontiguousarray(X[rows]), labels, params=self._parameters(0)).construct()
        return _BinnedRows(self, binned, rows)

    def _parameters(self, seed: int, positive: Mask | None = None) -> dict[str, Any]:
        parameters = {**REPRODUCIBLE, **self.settings, "seed": seed}
        if self.adapts:
            parameters["feature_pre_filter"] = False  # columns are binned before the size of a leaf is known
            if positive is not None:
                smaller = int(min(positive.sum(), (~positive).sum()))
                parameters[LEAF] = min(parameters[LEAF], max(smaller // 2, LEAST_LEAF))
        return parameters


@dataclass(frozen=True, eq=False)
class _BinnedRows:
    classifier: LightGBM
    binned: Any
    rows: Codes

    def fit(self, rows: Codes, positive: Mask, seed: int) -> FittedClassifier:
        import lightgbm

        chosen = self.binned.subset(np.searchsorted(self.rows, rows).tolist()).construct()
        chosen.set_label(positive.astype(np.float32))
        parameters = self.classifier._parameters(seed, positive)
        booster = lightgbm.train(parameters, chosen, num_boost_round=self.classifier.rounds)
        return _Trees(booster)


@dataclass(frozen=True, eq=False)
class _Trees:
    booster: Any
    converged: bool = True

    @cached_property
    def split_counts(self) -> NDArray[np.int64]:
        return np.asarray(self.booster.feature_importance("split"), dtype=np.int64)

    def scores(self, X: NDArray[Any]) -> Array:
        return np.asarray(self.booster.predict(X, raw_score=True, num_threads=1), dtype=np.float64)


# -- linear probes


@dataclass(frozen=True, eq=False)
class _Linear:
    weights: Array
    converged: bool = True
    split_counts: None = None

    def scores(self, X: NDArray[Any]) -> Array:
        return np.asarray(X, dtype=np.float64) @ self.weights


PENALTIES = 10.0 ** np.arange(-10.0, 2.1, 0.5)  # in units of the mean variance of a column
PENALTIES.flags.writeable = False


@dataclass(frozen=True)
class Ridge:
    r"""Least squares on the two classes with a quadratic penalty chosen by generalised cross-validation. Ours.

    The direction is (S + lambda I)^-1 (m_1 - m_0) with the total covariance S: that of a linear discriminant. Classes need no
    weights, which move the threshold and not the direction, and would give few positives a noisy say in S. The penalties
    tried, and so the scores, do not change when the rows are rotated.
    """

    name: str = "ridge"

    def fit(self, X: NDArray[Any], positive: Mask, seed: int) -> FittedClassifier:
        return self.prepare(X, np.arange(len(X))).fit(np.arange(len(X)), positive, seed)

    def prepare(self, X: NDArray[Any], rows: Codes) -> Trainer:
        """What the targets of a fold share: their centre, and the moments of the rows they are told from."""
        return _RidgeRows(X, np.asarray(X[rows], dtype=np.float64).mean(axis=0))


@dataclass(eq=False)
class _RidgeRows:
    """Of fewer rows than columns the products of rows are decomposed, else those of columns: the same weights, the smaller matrix."""

    X: NDArray[Any]
    centre: Array
    _shared: tuple[bytes, tuple[Array, Array]] | None = None

    def fit(self, rows: Codes, positive: Mask, seed: int) -> FittedClassifier:
        n, d = len(rows), self.X.shape[1]
        response = positive - positive.mean()
        return self._of_rows(rows, response) if n < d else self._of_columns(rows, positive, response)

    def _of_rows(self, rows: Codes, response: Array) -> FittedClassifier:
        n, d = len(rows), self.X.shape[1]
        centred = self._values(rows)
        centred -= centred.mean(axis=0)
        variances, axes = np.linalg.eigh(centred @ centred.T / n)
        variances = variances.clip(0)
        loading = axes.T @ response
        scale = float(variances.sum()) / d
        if scale <= 0:
            return _Linear(np.zeros(d))
        penalties = PENALTIES[:, None] * scale
        errors = (loading**2 * (penalties / (variances + penalties)) ** 2).sum(axis=1) / n
        best = scale * _least_gcv(variances, penalties, errors, n)
        return _Linear(centred.T @ (axes @ (loading / (variances + best))) / n)

    def _of_columns(self, rows: Codes, positive: Mask, response: Array) -> FittedClassifier:
        n, d = len(rows), self.X.shape[1]
        zeros, ones = self._negatives(rows[~positive]), self._moments(rows[positive])
        mean = (zeros[0] + ones[0]) / n
        variances, axes = np.linalg.eigh((zeros[1] + ones[1]) / n - np.outer(mean, mean))
        variances = variances.clip(0)
        share = len(rows[positive]) / n
        loading = axes.T @ (ones[0] - share * (zeros[0] + ones[0])) / n
        scale = float(variances.sum()) / d
        if scale <= 0:
            return _Linear(np.zeros(d))
        penalties = PENALTIES[:, None] * scale
        shrunk = variances + penalties
        errors = float(response @ response) / n - (loading**2 * (2 / shrunk - variances / shrunk**2)).sum(axis=1)
        return _Linear(axes @ (loading / (variances + scale * _least_gcv(variances, penalties, errors, n))))

    def _values(self, rows: Codes) -> Array:
        return np.asarray(self.X[rows], dtype=np.float64) - self.centre

    def _moments(self, rows: Codes) -> tuple[Array, Array]:
        values = self._values(rows)
        return values.sum(axis=0), values.T @ values

    def _negatives(self, rows: Codes) -> tuple[Array, Array]:
        """Moments of controls, which most targets share; those of the last ones are kept."""
        key, kept = rows.tobytes(), self._shared
        if kept is None or kept[0] != key:
            kept = self._shared = (key, self._moments(rows))
        return kept[1]


def _least_gcv(variances: Array, penalties: Array, errors: Array, n: int) -> float:
    """The penalty of the least error by generalised cross-validation, as one of `PENALTIES`."""
    freedom = (variances / (variances + penalties)).sum(axis=1) + 1
    left = 1 - freedom / n
    scores = np.divide(errors, left**2, out=np.full(len(errors), np.inf), where=left > 0)
    return float(PENALTIES[np.argmin(scores)] if np.isfinite(scores).any() else PENALTIES[-1])


@dataclass(frozen=True)
class Logistic:
    """Logistic regression with balanced classes and a quadratic penalty, on rows brought to one scale: unchanged by rotations."""

    name: str = "logistic"
    C: float = 1.0
    most_steps: int = 1000

    def fit(self, X: NDArray[Any], positive: Mask, seed: int) -> FittedClassifier:
        rows = np.asarray(X, dtype=np.float64)
        rows = rows - rows.mean(axis=0)
        scale = float(np.sqrt((rows**2).mean())) or 1.0
        model = LogisticRegression(C=self.C, class_weight="balanced", max_iter=self.most_steps)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it becomes the field `converged`
            model.fit(rows / scale, positive)
        return _Linear(model.coef_[0] / scale, converged=bool(model.n_iter_[0] < self.most_steps))


@dataclass(frozen=True)
class Sparse:
    r"""Least squares with an L1 penalty on standardised columns: a linear probe that, as trees do, sees the axes. Ours.

    The penalty is sd(y) sqrt(2 log d / n), what the largest of d correlations reaches where nothing is to be found.
    """

    name: str = "l1"

    def fit(self, X: NDArray[Any], positive: Mask, seed: int) -> FittedClassifier:
        rows = np.asarray(X, dtype=np.float64)
        spread = rows.std(axis=0)
        spread[spread == 0] = 1.0
        n, d = rows.shape
        response = positive - positive.mean()
        alpha = float(response.std()) * float(np.sqrt(2 * np.log(max(d, 2)) / n))
        model = Lasso(alpha=alpha, fit_intercept=False)
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always", ConvergenceWarning)
            model.fit((rows - rows.mean(axis=0)) / spread, response)
        settled = not any(issubclass(w.category, ConvergenceWarning) for w in raised)
        return _Linear(model.coef_ / spread, converged=settled)


# -- neighbours


@dataclass(frozen=True)
class Nearest:
    """How much nearer the nearest well of the target is than the nearest well it is told from: 1-NN as a score. Ours.

    Distances are Euclidean in columns of unit variance over the training rows. Of more than `most` wells of a class so many are
    drawn.
    """

    name: str = "1-nn"
    most: int = 2000

    def fit(self, X: NDArray[Any], positive: Mask, seed: int) -> FittedClassifier:
        rows = np.asarray(X, dtype=np.float64)
        mean, spread = rows.mean(axis=0), rows.std(axis=0)
        scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
        rng = np.random.default_rng([seed, 29])
        ones, zeros = ((rows[self._some(np.flatnonzero(mask), rng)] - mean) * scale for mask in (positive, ~positive))
        return _Neighbours(mean, scale, ones, zeros)

    def _some(self, rows: Codes, rng: np.random.Generator) -> Codes:
        return rows if len(rows) <= self.most else np.sort(rng.permutation(rows)[: self.most])


@dataclass(frozen=True, eq=False)
class _Neighbours:
    mean: Array
    scale: Array
    ones: Array
    zeros: Array
    converged: bool = True
    split_counts: None = None

    def scores(self, X: NDArray[Any]) -> Array:
        step = chunk_rows(X.shape[1] + len(self.ones) + len(self.zeros))
        parts = [self._differences(X[a : a + step]) for a in range(0, len(X), step)]
        return np.concatenate(parts) if parts else np.empty(0)

    def _differences(self, X: NDArray[Any]) -> Array:
        rows = (np.asarray(X, dtype=np.float64) - self.mean) * self.scale
        own = (rows**2).sum(axis=1)
        to_one, to_zero = (((kept**2).sum(axis=1) - 2 * rows @ kept.T).min(axis=1) for kept in (self.ones, self.zeros))
        found: Array = np.sqrt((own + to_zero).clip(0)) - np.sqrt((own + to_one).clip(0))
        return found


# -- classifiers of the user


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A scikit-learn classifier: cloned for every fit, its `random_state` set to the seed."""

    estimator: Any

    @property
    def name(self) -> str:
        return type(self.estimator).__name__

    def __repr__(self) -> str:
        return repr(self.estimator)

    def fit(self, X: NDArray[Any], positive: Mask, seed: int) -> FittedClassifier:
        model = clone(self.estimator)
        if "random_state" in model.get_params():
            model.set_params(random_state=seed)
        return _WrappedFit(model.fit(X, positive))


@dataclass(frozen=True, eq=False)
class _WrappedFit:
    model: Any
    converged: bool = True
    split_counts: None = None

    def scores(self, X: NDArray[Any]) -> Array:
        if hasattr(self.model, "decision_function"):
            return np.asarray(self.model.decision_function(X), dtype=np.float64)
        return np.asarray(self.model.predict_proba(X)[:, 1], dtype=np.float64)


def settings_text(value: Any) -> str:
    """A classifier, or a setting of one, as text that names all it is set to; what cannot be written down, by its class.

    scikit-learn shortens how its objects show themselves, and an object without a text of its own shows its address: neither
    may stand for its settings.
    """
    return _written(value)[0]


def has_settings_text(value: Any) -> bool:
    """Whether its text tells a classifier from every other one, in other runs too."""
    return _written(value)[1]


def _written(value: Any) -> tuple[str, bool]:
    if isinstance(value, Wrapped):
        return _written(value.estimator)
    if isinstance(value, np.ndarray):
        return fingerprint(value), not value.dtype.hasobject
    if isinstance(value, (list, tuple, dict)):
        pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        return _with_parts(type(value).__name__, pairs)
    if hasattr(value, "get_params") and not isinstance(value, type):
        return _with_parts(_class_name(value), sorted(value.get_params(deep=False).items()))
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}", "<locals>" not in value.__qualname__
    if callable(value) and hasattr(value, "__qualname__"):  # a function is known by where it stands, unless nowhere
        return f"{value.__module__}.{value.__qualname__}", "<" not in value.__qualname__
    shown = repr(value)
    if ADDRESS in shown:
        return _class_name(value), False
    if is_dataclass(value):
        return _with_parts(_class_name(value), [(f.name, getattr(value, f.name)) for f in fields(value)])
    return shown, True


def _with_parts(name: str, parts: Sequence[tuple[Any, Any]]) -> tuple[str, bool]:
    written = [(key, *_written(part)) for key, part in parts]
    return f"{name}({', '.join(f'{key}={text}' for key, text, _ in written)})", all(known for *_, known in written)


def _class_name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


CLASSIFIERS: Mapping[str, Callable[[], Classifier]] = {
    "lightgbm": LightGBM,
    "ridge": Ridge,
    "logistic": Logistic,
    "l1": Sparse,
    "1-nn": Nearest,
}


def classifier_of(given: Any) -> Classifier:
    """A classifier by its name, one of ours, or a scikit-learn classifier of the user's.

    >>> classifier_of("ridge").name
    'ridge'
    """
    if isinstance(given, str):
        if given not in CLASSIFIERS:
            raise UsageError(f"classifier {given!r}: expected {', '.join(CLASSIFIERS)}, or a scikit-learn classifier.")
        return CLASSIFIERS[given]()
    if isinstance(given, Classifier):
        return given
    scores = hasattr(given, "decision_function") or hasattr(given, "predict_proba")
    if hasattr(given, "fit") and hasattr(given, "get_params") and scores:
        return Wrapped(given)
    raise UsageError(
        f"classifier {given!r:.80}: expected {', '.join(CLASSIFIERS)}, or an object of scikit-learn with fit and "
        "decision_function or predict_proba."
    )
