"""`Aligner`: the map from one representation into another as a scikit-learn estimator of two views."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_is_fitted

from identifiable._checks import DataWarning, PairingError, UsageError, as_array
from identifiable.alignment import Aligned
from identifiable.alignment.aligned import unit
from identifiable.alignment.choosing import Choice, chosen_map
from identifiable.api.aligning import Aligned as Loaded
from identifiable.api.aligning import Carries
from identifiable.api.estimator import TableTransformer, accepted, called, columns_named, in_our_words, is_lazy, seed_of
from identifiable.api.opening import open_sources
from identifiable.api.transforming import apply_basis, arranged
from identifiable.blocks import Blocks
from identifiable.intake import as_representation, blocks_of, gather_moments
from identifiable.options import MapOptions
from identifiable.representation import Representation, frame_of, is_frame
from identifiable.results import Candidate, Reason
from identifiable.run import Run

SAME = ("group", "ridge", "rank", "normalize")  # as `align` calls them
LEAST_ROWS = 4  # two folds of two


def _has_inverse(model: Aligner) -> bool:
    return not hasattr(model, "aligned_") or model.aligned_.back is not None


class Aligner(Carries, TableTransformer):
    """The map that carries rows of one representation into another, chosen by the nearest rows that it finds there.

    Ours; see `identifiable.align`, which also evaluates the map on rows that it has not seen. `fit` chooses a family of maps and
    its penalty by cross-validated recall of the nearest rows (cosine), then fits it to all rows.

    Parameters
    ----------
    group
        Kind of map: "signed_permutation", "rigid", "similarity" or "linear"; "auto" tries them all.
    ridge
        Penalty of a linear map, as a share of the mean variance of `X`; "auto" chooses it.
    rank
        Dimensions of the target that a linear map predicts; None for all.
    normalize
        Divide rows by their length on both sides, before and after the map.
    random_state
        An integer is the seed of folds and samples; None is the seed 0; a `numpy.random.Generator` or `RandomState` draws one at
        every fit.
    workers
        Threads; None for one per core. Does not affect results.

    Attributes
    ----------
    matrix_ : (n_features, n_targets), offset_ : (n_targets,)
        ``transform(X) = X @ matrix_ + offset_``, without `normalize`.
    family_, group_, penalty_
        What was chosen, and the group of maps it belongs to; see `identifiable.alignment.families`.
    tried_ : tuple of Candidate
        Every family at its best penalty, with its cross-validated recall and R².
    why_ : Reason
        Why it was chosen: ``why_.message``.
    aligned_ : Aligned
        The map, its inverse and the reach of the rows it was fitted to.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    `fit`, `transform` and `score` also take paths, `Blocks`, `Representation`s and Dask arrays, which are read in blocks; tables with
    ids are joined by them. `family_`, `penalty_`, `tried_` and `why_` are not in a saved file.

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 3))
    >>> Y = X @ [[0, 2, 0], [0, 0, 2], [-2, 0, 0]] + 0.1 * rng.standard_normal((200, 3))
    >>> model = Aligner().fit(X, Y)
    >>> model.group_, round(model.score(X, Y), 2)
    ('similarity', 1.0)
    >>> np.allclose(model.inverse_transform(model.transform(X)), X)
    True
    """

    kind_out = "columns of y"

    def __init__(
        self,
        group: str = "auto",
        *,
        ridge: Any = "auto",
        rank: int | None = None,
        normalize: bool = False,
        random_state: Any = None,
        workers: int | None = None,
    ):
        self.group = group
        self.ridge = ridge
        self.rank = rank
        self.normalize = normalize
        self.random_state = random_state
        self.workers = workers

    def fit(self, X: Any, y: Any) -> Self:
        """Choose and fit the map from the rows of `X` to those of `y`, the second view."""
        options = MapOptions(**{name: getattr(self, name) for name in SAME})
        run = Run(seed_of(self.random_state), self.workers)
        found, self.choice_ = chosen_map(*self._both(frame_of(X), frame_of(y)), options, run)
        seed = None if self.random_state is None else run.seed
        self.aligned_ = replace(found, settings={**self.get_params(), "random_state": seed})
        return self

    inverse_transform = available_if(_has_inverse)(
        TableTransformer.inverse_transform
    )  # only of maps that can be inverted

    def score(self, X: Any, y: Any) -> float:
        """R² of the target: 1 - sum |y - f(x)|² / sum |y - mean|². Of held-out rows, if these rows were not fitted to."""
        check_is_fitted(self)
        done = apply_basis(self.aligned_, self._rows(frame_of(X)))
        table, alerts = arranged(_table(frame_of(y), "y"), self.aligned_, inverse=True)
        for alert in (*done.alerts, *alerts):
            if alert.code == "columns_not_checked":  # whether rows are unlike those of the fit, the score says
                warnings.warn(f"{alert.code}: {alert.message}", stacklevel=2)
        mapped, target = np.asarray(done.values), blocks_of(table)
        if target.shape != mapped.shape:
            raise PairingError(
                f"y: expected {len(mapped)} rows and {mapped.shape[1]} columns, got {target.n} and {target.d}."
            )
        if self.aligned_.normalize:
            target = target.through(unit, target.d)
        both = gather_moments([Blocks(mapped), target], Run(workers=self.workers))[0]
        apart = both.mean_x - both.mean_y
        left = float(np.trace(both.xx) + np.trace(both.yy) - 2 * np.trace(both.xy)) + both.n * float(apart @ apart)
        spread = float(both.energy[mapped.shape[1] :].sum())
        if spread > 0:
            return 1 - left / spread
        warnings.warn("y: every row is the same, so R² is undefined (NaN); pass more rows.", DataWarning, stacklevel=2)
        return float("nan")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The fitted estimator of a map file, of `save` or of `align`, with its parameters; runs no code from the file.

        A generator as `random_state` comes back as the seed that it drew.
        """
        found = Loaded.load(path)
        settings: dict[str, Any] = dict(found.settings or {})
        if found.result is not None:
            settings = {**found.result.settings, "random_state": found.result.provenance.seed}
        known = {name: settings[name] for name in cls._get_param_names() if name in settings}
        model = cls(**{**known, "normalize": found.normalize})
        model.aligned_ = found
        model._remember(len(found.map.matrix), found.columns)
        return model

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns of the second view; where it had none, "aligner0", "aligner1", …"""
        check_is_fitted(self)
        if self.aligned_.target_columns is not None:
            return np.array(self.aligned_.target_columns, dtype=object)
        names: NDArray[Any] = super().get_feature_names_out(input_features)
        return names

    @property
    def matrix_(self) -> NDArray[Any]:
        return self.aligned_.map.matrix

    @property
    def offset_(self) -> NDArray[Any]:
        return self.aligned_.map.offset

    @property
    def family_(self) -> str:
        return self._choice.family

    @property
    def group_(self) -> str:
        return self._choice.group

    @property
    def penalty_(self) -> float | None:
        return self._choice.penalty

    @property
    def tried_(self) -> tuple[Candidate, ...]:
        return self._choice.tried

    @property
    def why_(self) -> Reason:
        return self._choice.why

    @property
    def _choice(self) -> Choice:
        if not hasattr(self, "choice_"):
            raise AttributeError("a map that was read from a file does not say what was tried; fit again.")
        return self.choice_

    @property
    def _n_features_out(self) -> int:
        return len(self.offset_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags

    def _fitted(self) -> Aligned:
        check_is_fitted(self)
        return self.aligned_

    def _both(self, X: Any, y: Any) -> tuple[Representation, Representation]:
        """The two views, opened and checked."""
        if is_lazy(X):
            return self._opened(X), _table(y, "y")
        if is_lazy(y):
            rows = self._validated(X, ensure_min_samples=LEAST_ROWS)
            return Representation(rows, name="X", columns=columns_named(X)), _table(y, "y")
        names = columns_named(y)
        if all(is_frame(each) and hasattr(each, "index") for each in (X, y)) and not X.index.equals(y.index):
            raise UsageError(
                "X and y have different row labels (index); pass y.loc[X.index], or arrays in the same order."
            )
        rows, target = self._validated(X, y, ensure_min_samples=LEAST_ROWS, multi_output=True, y_numeric=True)
        target = target if target.ndim > 1 else target[:, None]
        target = in_our_words(check_array, target, dtype=accepted(target), input_name="y", estimator=self)
        return Representation(rows, name="X", columns=columns_named(X)), Representation(target, name="y", columns=names)


def _table(rows: Any, name: str) -> Representation:
    """A table that is not X: opened where it is a path, called `name` where it has none."""
    source = called(rows, name) if is_lazy(rows) else rows if is_frame(rows) else as_array(rows, name)
    return as_representation(open_sources([source], None, None)[0], name=name)
