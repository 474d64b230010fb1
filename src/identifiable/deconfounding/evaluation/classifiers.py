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
ADDRESS = " at 0x"  # in Python's own text for an object that has none
ROUNDS = 100  # LightGBM's default; the paper gives none, nor early stopping
# Ours, so that a model follows from data and seed. A fit has one thread and several fits run side by side: at 22,000 x 384 on
# 2 cores 5.7 s a fit against 6.5 s with two threads in one fit, and 6 s against 17 s when the cores are shared with other work.
# Histograms by row or by column give the same model, bit for bit, and differ in speed by less than the machine does.
REPRODUCIBLE: Mapping[str, Any] = {
    "objective": "binary",
    "deterministic": True,
    "force_row_wise": True,
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
    """Gradient-boosted trees with the settings of Table 6. Implements step 6 of the paper's protocol; rounds and seed are ours."""

    rounds: int = ROUNDS
    settings: Mapping[str, Any] = field(default_factory=lambda: dict(TABLE_6))
    name: str = "lightgbm"

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

    def _parameters(self, seed: int) -> dict[str, Any]:
        return {**REPRODUCIBLE, **self.settings, "seed": seed}


@dataclass(frozen=True, eq=False)
class _BinnedRows:
    classifier: LightGBM
    binned: Any
    rows: Codes

    def fit(self, rows: Codes, positive: Mask, seed: int) -> FittedClassifier:
        import lightgbm

        chosen = self.binned.subset(np.searchsorted(self.rows, rows).tolist()).construct()
        chosen.set_label(positive.astype(np.float32))
        booster = lightgbm.train(self.classifier._parameters(seed), chosen, num_boost_round=self.classifier.rounds)
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
        centred = np.asarray(X, dtype=np.float64) - np.asarray(X, dtype=np.float64).mean(axis=0)
        n, d = centred.shape
        response = positive - positive.mean()
        variances, axes = np.linalg.eigh(centred.T @ centred / n)
        variances = variances.clip(0)
        loading = axes.T @ (centred.T @ response) / n
        scale = float(variances.sum()) / d
        if scale <= 0:
            return _Linear(np.zeros(d))
        best, lowest = float(PENALTIES[-1]) * scale, np.inf
        for penalty in PENALTIES * scale:
            shrunk = variances + penalty
            freedom = float((variances / shrunk).sum()) + 1
            error = float(response @ response) / n - float((loading**2 * (2 / shrunk - variances / shrunk**2)).sum())
            if freedom < n and error / (1 - freedom / n) ** 2 < lowest:
                best, lowest = float(penalty), error / (1 - freedom / n) ** 2
        return _Linear(axes @ (loading / (variances + best)))


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


# -- what never sees the embedding


@dataclass(frozen=True, eq=False)
class PlaceOdds:
    """Log odds of the place a row is in, from how many of each class the place held in training: for position and plate alone.

    Ours. `score` is the one audit judges layouts by. Trees that need 30 rows in a leaf cannot split 12 wells, and would
    call a layout that tells everything harmless (0.500 where it tells all); this needs no settings, and no rows beyond one.
    Choosing the better of several classifiers instead would let the layout seem to tell what chance told one of them.
    The only column of the rows is the number of the place; `features` names what places are.
    """

    score: Callable[[Array, Array], Array]
    places: int
    features: str
    name: str = "odds"

    def __repr__(self) -> str:
        return f"PlaceOdds of {self.features}"

    def fit(self, X: NDArray[Any], positive: Mask, seed: int) -> FittedClassifier:
        place = X[:, 0].astype(np.intp)
        ones, zeros = (
            np.bincount(place[mask], minlength=self.places).astype(np.float64) for mask in (positive, ~positive)
        )
        return _PlaceScores(self.score(ones, zeros))


@dataclass(frozen=True, eq=False)
class _PlaceScores:
    of_place: Array
    converged: bool = True
    split_counts: None = None

    def scores(self, X: NDArray[Any]) -> Array:
        return self.of_place[X[:, 0].astype(np.intp)]


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
    if is_dataclass(value) and not isinstance(value, PlaceOdds):
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
