"""`ICA`: whitening and unmixing as a scikit-learn transformer.

The only module that imports scikit-learn when it is loaded.
"""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from identifiable import ica
from identifiable._checks import (
    DataError,
    DataWarning,
    IdentifiableError,
    KindError,
    UsageError,
    as_array,
    check_numeric,
    check_plain,
    said,
)
from identifiable.api.opening import is_path, open_sources
from identifiable.api.transforming import as_basis, columns_in_order, transform
from identifiable.blocks import Blocks, silent
from identifiable.ica import Resolved
from identifiable.intake import as_representation
from identifiable.io import save_basis
from identifiable.io.basis_files import Basis
from identifiable.moments import Array
from identifiable.options import IcaOptions, ResolveOptions
from identifiable.representation import Representation, frame_of, is_frame, kind_of
from identifiable.results import Alert, Resolution

ACCEPTED = (np.float64, np.float32)  # what is kept as it is; anything else becomes the first
SINGLE = ("float32", ">f4", "float16", ">f2", "bfloat16")  # inputs after which attributes and components are in float32
LEAST_ROWS = 2  # one row has no variance
NO_NUMBERS = (str, bytes, date, timedelta)  # among Python objects
ABOVE_RANK = "n_components_above_rank"
WARNED = ("rank_deficient", "few_rows", ABOVE_RANK)  # alerts that are Python warnings, too

FASTICA = {
    "copy": "leave it out: what is passed is never changed",
    "algorithm": "leave it out: there is one solver",
    "fun": "use contrast='logcosh', 'exp' or 'cube'",
    "fun_args": "leave it out: a contrast has no parameters, alpha is 1",
    "max_iter": "use tol: the solver stops there, or sets converged_ to False",
    "w_init": "use random_state and restarts",
    "whiten": "leave it out: components always have unit variance",
    "whiten_solver": "leave it out: whitening always uses the covariance",
}
"""Arguments of scikit-learn's FastICA and of its methods that ICA does not have, and what to do instead."""

M = TypeVar("M", bound=Callable[..., Any])

SAME = ("contrast", "order", "restarts", "stability", "tol", "precision", "workers")  # as `resolve` calls them


def _answers_fastica(method: M) -> M:
    """A method that answers arguments of `FastICA` with what to use instead; its signature stays as it is."""
    name = "" if method.__name__ == "__init__" else f".{method.__name__}"
    kind = ValueError if method.__name__ == "set_params" else TypeError  # as scikit-learn has them

    @wraps(method)
    def checked(self: Any, *arguments: Any, **options: Any) -> Any:
        instead = [f"{option} ({FASTICA[option]})" for option in options if option in FASTICA]
        if instead:
            said = f"{type(self).__name__}{name}() takes no {' and no '.join(instead)}"
            raise kind(f"{said}; see docs/coming-from-fastica.md.")
        return method(self, *arguments, **options)

    return cast(M, checked)


class TableTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc] # untyped bases
    """What estimators share: rows from arrays, data frames and tables that are read in blocks, checked as scikit-learn does."""

    kind_out = "components"

    @abstractmethod
    def _fitted(self) -> Basis:
        """What is applied to rows."""

    @_answers_fastica
    def transform(self, X: Any) -> NDArray[Any]:
        """The rows of `X` transformed, in float32 if that is what `X` is in."""
        check_is_fitted(self)
        rows = frame_of(X)
        if rows is not X and is_frame(rows):
            result: NDArray[Any] = self.transform(rows)  # set_output then names the rows by its index
            return result
        return transform(self._fitted(), self._rows(rows))

    @_answers_fastica
    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Rows from what `transform` gives, its columns by their names. Directions that were dropped come back as their mean."""
        check_is_fitted(self)
        X = frame_of(X)
        X = called(X) if is_lazy(X) else self._alone(X)
        own = tuple(map(str, self.get_feature_names_out()))
        if isinstance(X, Representation) and set(X.columns or ()) & set(own):
            X = replace(columns_in_order(X, own), columns=None)
        return transform(self._fitted(), self._of_width(X, self._n_features_out, self.kind_out), inverse=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _rows(self, X: Any) -> Any:
        """New rows, refused if they are not like those of the fit."""
        known = self._fitted().columns
        if not is_lazy(X):
            if known is not None and columns_named(X) is not None and not hasattr(self, "feature_names_in_"):
                return self._alone(X)  # names that scikit-learn does not know of
            rows = self._validated(X, reset=False)  # which checks names
            return Representation(rows, name="X", columns=None if known is None else columns_named(X) or known)
        if known is None:  # with names, the columns are looked for among any number
            X = self._of_width(X, self.n_features_in_, "features")
        return called(X)

    def _validated(self, *tables: Any, **how: Any) -> Any:
        """Tables as scikit-learn checks them, which remembers or compares their width and names."""
        return in_our_words(partial(validate_data, self), *tables, dtype=accepted(tables[0]), **how)

    def _alone(self, X: Any) -> Representation:
        """One table as scikit-learn checks it, without what it knows of the fit; "X" is what messages call it."""
        rows = in_our_words(check_array, X, dtype=accepted(X), estimator=self, input_name="X")
        return Representation(rows, name="X", columns=columns_named(X))

    def _opened(self, X: Any) -> Representation:
        """What is read in blocks, opened for a fit, which remembers its width and names."""
        source = as_representation(open_sources([called(X)], None, None)[0])
        self._remember(source.d, source.columns)
        return source

    def _remember(self, width: int, columns: tuple[str, ...] | None) -> None:
        """What scikit-learn keeps of a fit."""
        self.n_features_in_ = width
        if columns is not None and words(columns):
            self.feature_names_in_ = np.array(columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):  # of an earlier fit to a data frame
            del self.feature_names_in_

    def _of_width(self, X: Any, width: int, of: str) -> Any:
        """`X`, refused if it has another number of columns; a file is for `transform` to refuse, by its name."""
        X = called(X)
        if not is_path(X) and X.d != width:
            raise DataError(
                f"{X.name} has {X.d} features, but {type(self).__name__} is expecting {width} {of} as input."
            )
        return X


class ICA(TableTransformer):
    """Independent components in a canonical order and sign, with a verdict on each.

    Implements the recipe of Theorem 2 (Nelson et al. 2026) as `identifiable.resolve` does, as a scikit-learn
    transformer. Two fits to samples of one distribution give the same components with the same signs
    wherever `identifiable_` is True, and in the same order where the order is certain: `result_.ties` lists neighbours that
    may swap, and `match_components` needs no order.

    Parameters
    ----------
    n_components
        Principal directions to keep before unmixing; None keeps all that carry variance. A larger number than
        those warns at `fit`, and keeps them all.
    contrast
        "logcosh", "exp" or "cube".
    order
        What components are sorted by: "negentropy", "variance" or "kurtosis".
    restarts
        Starts of the solver, the best of which is kept; "auto" makes as many as cost little, up to three if they agree and
        24 (or half a minute) if not.
    stability
        Refits on halves of the rows, an even number; 0 for none: then nothing is tested, and `identifiable_` is False
        everywhere, with a `DataWarning`.
    tol
        Stop when a Newton step would gain less than this share of the contrast.
    precision
        Of the products in each pass over the rows: "single" or "double".
    random_state
        An integer is the seed; None is the seed 0, so that a fit is reproducible unless asked otherwise; a
        `numpy.random.Generator` or `RandomState` draws one at every fit.
    workers
        Threads; None for one per core. Does not affect results.

    Attributes
    ----------
    components_ : (n_components, n_features)
        The unmixing: ``transform(X) = (X - mean_) @ components_.T``.
    mixing_ : (n_features, n_components)
        The way back: ``inverse_transform(Z) = Z @ mixing_.T + mean_``.
    whitening_ : (n_components, n_features)
        Principal components of unit variance: ``(X - mean_) @ whitening_.T``. `components_` is a rotation of it. This is
        `FastICA.whitening_` times the square root of the number of rows.
    mean_ : (n_features,)
    identifiable_ : (n_components,)
        Whether another sample would give this component again; False where it was not tested (``stability=0``). Why is in
        ``result_.components[i].reason``.
    converged_ : bool
        Also a `ConvergenceWarning` where False.
    n_iter_ : int
        Steps of the solver from the start that was kept.
    result_ : Resolution
        All there is to know about the fit: ``result_.table()``, ``result_.report("page.html")``.
    basis_ : Resolved
        The two maps and the result, as `identifiable.resolve` returns them.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    `components_`, `mixing_`, `whitening_` and `mean_` are in float32 after a fit to float32 rows.

    `fit` and `transform` also take paths, `Blocks`, `Representation`s and Dask arrays, which are read in blocks, and
    AnnData objects, of which `X`, `obs_names` and `var_names` are used.

    The alerts `rank_deficient`, `few_rows` and `n_components_above_rank` of `result_` are also given as a
    `identifiable.DataWarning`. Arguments of `sklearn.decomposition.FastICA` that are not taken give an error that says
    what to use.

    >>> X = np.random.default_rng(0).laplace(size=(2000, 2)) @ [[2, 1], [1, 1]]
    >>> model = ICA().fit(X)
    >>> np.allclose(model.inverse_transform(model.transform(X)), X)
    True
    """

    @_answers_fastica
    def __init__(
        self,
        n_components: int | None = None,
        *,
        contrast: str = "logcosh",
        order: str = "negentropy",
        restarts: Any = "auto",
        stability: int = 0,
        tol: float = IcaOptions.tol,
        precision: str = "single",
        random_state: Any = None,
        workers: int | None = None,
    ):
        self.n_components = n_components
        self.contrast = contrast
        self.order = order
        self.restarts = restarts
        self.stability = stability
        self.tol = tol
        self.precision = precision
        self.random_state = random_state
        self.workers = workers

    @_answers_fastica
    def set_params(self, **params: Any) -> Self:
        """Set parameters by their names, as scikit-learn does."""
        changed: Self = super().set_params(**params)
        return changed

    def fit(self, X: Any, y: Any = None) -> Self:
        """Resolve the rows of `X`; `y` is ignored."""
        options = self._options()
        source = self._opened_for_fit(frame_of(X))
        try:
            self.basis_: Resolved = ica.resolve(source, options)
        except UsageError:
            if self.n_components is None:
                raise
            # The options themselves were checked: only the rank depends on the data.
            self.basis_ = self._with_clipped_rank(ica.resolve(source, replace(options, rank="auto")))
        for message, category in self._warnings():
            warnings.warn(message, category, stacklevel=2)
        return self

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted basis to a `.safetensors` file, with the names of its features."""
        check_is_fitted(self)
        return save_basis(path, self.basis_)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The fitted estimator of a basis file, with the settings it was fitted with (what `auto` became); runs no code from the file."""
        basis = as_basis(path)
        settings = dict(basis.result.settings)
        rank = settings.pop("rank", "auto")
        seed = settings.pop("seed", None)
        known = cls._get_param_names()
        model = cls(
            None if rank == "auto" else rank,
            random_state=seed,
            **{name: value for name, value in settings.items() if name in known},
        )
        model.basis_ = basis
        model._remember(basis.result.inputs[0].d, basis.columns)
        return model

    @property
    def components_(self) -> NDArray[Any]:
        return self._in_dtype_of_fit(self.basis_.to_components.matrix.T)

    @property
    def mixing_(self) -> NDArray[Any]:
        return self._in_dtype_of_fit(self.basis_.from_components.matrix.T)

    @property
    def whitening_(self) -> NDArray[Any]:
        # The mixing is (principal directions, scaled) @ (a rotation): undo the rotation. Signs as in FastICA.
        rotation = np.linalg.svd(self.basis_.from_components.matrix.T, full_matrices=False)[2]
        whitening = rotation @ self.basis_.to_components.matrix.T
        return self._in_dtype_of_fit(whitening * np.where(whitening[:, :1] < 0, -1.0, 1.0))

    @property
    def mean_(self) -> NDArray[Any]:
        return self._in_dtype_of_fit(self.basis_.from_components.offset)

    @property
    def result_(self) -> Resolution:
        return self.basis_.result

    @property
    def identifiable_(self) -> NDArray[np.bool_]:
        components = self.result_.components
        if all(component.stability is None for component in components):
            why = "rows are too few for refits" if self.stability else "the fit made no refits; pass stability=6"
            warnings.warn(
                f"identifiable_ is False everywhere because nothing was tested ({why}). Reasons are in result_.components.",
                DataWarning,
                stacklevel=2,
            )
        return np.array([component.identifiable for component in components])

    @property
    def converged_(self) -> bool:
        return self.result_.converged

    @property
    def n_iter_(self) -> int:
        return max(len(self.result_.steps), 1)

    @property
    def _n_features_out(self) -> int:
        """What scikit-learn names the columns of the output by."""
        return len(self.components_)

    def _options(self) -> ResolveOptions:
        """The options of `ica.resolve`, checked."""
        if self.n_components is not None and not (_is_whole(self.n_components) and self.n_components >= 1):
            raise UsageError(f"n_components {self.n_components!r}: expected None or a whole number of at least 1.")
        return ResolveOptions(
            rank="auto" if self.n_components is None else int(self.n_components),
            seed=seed_of(self.random_state),
            command="identifiable.ICA(...).fit(...)",
            **{name: getattr(self, name) for name in SAME},
        )

    def _opened_for_fit(self, X: Any) -> Representation:
        if not is_lazy(X):
            return Representation(self._validated(X, ensure_min_samples=LEAST_ROWS), name="X", columns=columns_named(X))
        return self._opened(X)

    def _fitted(self) -> Resolved:
        return self.basis_

    def _with_clipped_rank(self, basis: Resolved) -> Resolved:
        """`basis` with the alert that fewer components were kept than asked for."""
        found = basis.result
        asked = {"name": found.inputs[0].name, "n_components": self.n_components, "rank": found.rank}
        alert = Alert(ABOVE_RANK, asked)
        settings = {**found.settings, "rank": int(self.n_components or 0)}  # as asked for, which a file gives back
        return replace(basis, result=replace(found, alerts=(alert, *found.alerts), settings=settings))

    def _warnings(self) -> list[tuple[str, type[Warning]]]:
        """What a user must hear about the fit without asking for it."""
        as_asked = {"rank_deficient"} if self.result_.whitening.rule == "given" else set()
        found: list[tuple[str, type[Warning]]] = [
            (f"{alert.message} (alert {alert.code})", DataWarning)
            for alert in self.result_.alerts
            if alert.code in WARNED and alert.code not in as_asked
        ]
        if not self.converged_:
            message = "ICA did not converge (converged_ is False); pass a larger tol, or more rows per component."
            found.append((message, ConvergenceWarning))
        return found

    def _in_dtype_of_fit(self, values: Array) -> NDArray[Any]:
        if self.result_.inputs[0].dtype not in SINGLE:
            return values
        with silent():
            single = values.astype(np.float32)
        return single if np.isfinite(single).all() else values  # of rows whose scale is at the ends of float32


def is_lazy(X: Any) -> bool:
    """Whether `X` is read in blocks by us; the rest is scikit-learn's to check."""
    return is_path(X) or isinstance(X, (Blocks, Representation)) or hasattr(X, "__dask_graph__")


def called(X: Any, name: str = "X") -> Any:
    """What is read in blocks, called X by messages unless it has a name."""
    if isinstance(X, Representation):
        name = name if X.name == Representation.name else X.name
        return replace(X, name=name, values=called(X.values, name) if isinstance(X.values, Blocks) else X.values)
    if isinstance(X, Blocks):
        return Blocks(X.source, rows=X.rows, name=name) if X.name == Representation.name else X
    return X if is_path(X) else Blocks(X, name=name)


def columns_named(X: Any) -> tuple[str, ...] | None:
    """The names of the columns of a data frame, as text as everywhere else; None of what has none."""
    return tuple(map(str, X.columns)) if is_frame(X) else None


def words(columns: tuple[str, ...] | None) -> bool:
    """Whether columns have names that scikit-learn knows of: numbers are none to it, and are left to us."""
    return columns is not None and not all(name.lstrip("-").replace(".", "", 1).isdecimal() for name in columns)


def accepted(X: Any) -> Any:
    """The types that scikit-learn may leave `X` in, the first of which it converts all else to."""
    return ACCEPTED[::-1] if all(str(kind) in SINGLE for kind in _kinds(X)) else ACCEPTED


def check_kinds(X: Any, name: str) -> None:
    """Refuse what scikit-learn would turn into numbers, and no other call reads: dates, text, extended precision."""
    X = X if is_frame(X) or hasattr(X, "dtype") else as_array(X, name)
    for dtype in _kinds(X):
        kind = kind_of(dtype)
        if kind == "c":
            raise DataError(
                f"{name}: expected real numbers, got complex numbers (dtype {dtype}). Complex data not supported: pass real and "
                "imaginary parts as columns."  # its middle is what scikit-learn's own checks look for
            )
        if kind not in "Oiub":  # numbers among Python objects are scikit-learn's to convert
            check_numeric(dtype if isinstance(dtype, np.dtype) else np.dtype(f"{kind}8"), name)
        elif kind == "O" and any(isinstance(value, NO_NUMBERS) for value in np.asarray(X, object).flat):
            raise DataError(
                f"{name}: expected real numbers, got text or dates; convert them to float32 or float64 first."
            )


def _kinds(X: Any) -> set[Any]:
    """The types of the columns of a data frame, or of an array."""
    return set(X.dtypes) if is_frame(X) else {getattr(X, "dtype", None)}


def in_our_words(check: Callable[..., Any], *tables: Any, **how: Any) -> Any:
    """What a check of scikit-learn gives; its errors as ours, on one line."""
    for table, name in zip(tables, "Xy", strict=False):
        check_plain(table, name)
        check_kinds(table, name)
    try:
        return check(*tables, **how)
    except IdentifiableError:
        raise
    except TypeError as error:
        raise KindError(said(error)) from None
    except ValueError as error:
        raise DataError(said(error)) from None


def seed_of(random_state: Any) -> int:
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if _is_whole(random_state) and random_state >= 0:
        return int(random_state)
    raise UsageError(
        f"random_state {random_state!r}: expected None, a whole number of at least 0, a numpy.random.Generator or a RandomState."
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
