"""The ICA step after an autoencoder, in three modes that differ in what is done to the latents first."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from identifiable._checks import DataError, UsageError
from identifiable.disentanglement.codes import Array, latents_of
from identifiable.ica import resolve
from identifiable.options import ResolveOptions
from identifiable.results import Alert

Mode = Literal["centred", "literal", "whitened"]
MAX_ITER = 200  # scikit-learn's default
STARTS = 3  # of the whitened mode; a fixed number, so that the result does not depend on the time they take
ORTHOGONAL = (
    1e-6  # most that a rotation may differ from one; FastICA leaves 1e-9 where it works, 0.5 and more where not
)


@dataclass(frozen=True, eq=False)
class IcaStep:
    """Latents after ICA, ``latents = (given - offset) @ matrix``, and how it went.

    `n_iter` counts steps of the solver. `invertible` is False where directions without variance were dropped.
    """

    latents: Array
    matrix: Array
    offset: Array
    mode: Mode
    converged: bool
    n_iter: int
    n_components: int
    invertible: bool
    alerts: tuple[Alert, ...] = ()

    def __repr__(self) -> str:
        state = "converged" if self.converged else "not converged"
        return f"<IcaStep: {self.mode}, {self.n_components} components, {state} after {self.n_iter} steps>"


def ica_step(latents: Any, *, mode: Mode = "centred", max_iter: int = MAX_ITER, seed: int = 0) -> IcaStep:
    """Turn latents to independent components: the second half of "autoencoder + ICA".

    Implements the ICA step of Nelson et al. 2026, section 4.3, ``FastICA(whiten=False)``: an orthogonal rotation of the
    latents, which keeps inactive ones small.

    Parameters
    ----------
    mode
        "centred" (the default; ours in the detail): the mean is subtracted first. FastICA's fixed point assumes centred
        data, and with ``whiten=False`` scikit-learn does not centre. Constant latents are left out of the rotation.
        "literal": scikit-learn's call on the latents as they are. Its result depends on where the origin is.
        "whitened" (ours): `identifiable.resolve`; only directions that vary are kept, each scaled to variance 1, so constant
        and duplicate latents lower the number of components, and inactive latents that are not quite constant are scaled up.
        Neither of the first two is invariant to the scale of the latents: the fixed point assumes variance 1.
    max_iter
        Of FastICA; "whitened" has its own stopping rule.

    >>> rng = np.random.default_rng(0)
    >>> S = rng.uniform(-1.7, 1.7, (2000, 2))
    >>> step = ica_step(S @ np.array([[0.6, 0.8], [-0.8, 0.6]]) + 5)
    >>> step.converged, np.abs(np.corrcoef(step.latents.T, S.T)[:2, 2:]).max(axis=1).round(2)
    (True, array([1., 1.]))
    """
    if mode not in get_args(Mode):
        raise UsageError(f"mode: expected centred, literal or whitened, got {mode!r}.")
    if max_iter < 1:
        raise UsageError(f"max_iter: expected at least 1, got {max_iter}.")
    Z = latents_of(latents)
    varies = np.ptp(Z, axis=0) > 0
    if not varies.any():
        raise DataError("latents: every column is constant, so there is nothing to resolve; pass more rows.")
    if mode == "whitened":
        return _whitened(Z, seed)
    return _centred(Z, varies, max_iter, seed) if mode == "centred" else _literal(Z, varies, max_iter, seed)


def _whitened(Z: Array, seed: int) -> IcaStep:
    resolved = resolve(Z, ResolveOptions(stability=0, restarts=STARTS, seed=seed))
    matrix, offset = resolved.to_components.matrix, Z.mean(axis=0)
    result = resolved.result
    return IcaStep(
        latents=(Z - offset) @ matrix,
        matrix=matrix,
        offset=offset,
        mode="whitened",
        converged=result.converged,
        n_iter=len(result.steps),
        n_components=result.rank,
        invertible=result.rank == Z.shape[1],
        # That no refits were made is how it was called.
        alerts=tuple(alert for alert in result.alerts if alert.code != "stability_not_measured"),
    )


def _centred(Z: Array, varies: NDArray[np.bool_], max_iter: int, seed: int) -> IcaStep:
    offset = np.where(varies, Z.mean(axis=0), Z[0])  # a constant column becomes exactly 0
    centred = Z - offset
    rotation, n_iter, alerts = _rotation(centred[:, varies], max_iter, seed, "centred")
    matrix = np.eye(Z.shape[1])
    matrix[np.ix_(varies, varies)] = rotation
    if not varies.all():
        alerts += (Alert("constant_latents", {"left_out": (np.flatnonzero(~varies) + 1).tolist()}),)
    return _rotated(centred @ matrix, matrix, offset, "centred", n_iter, alerts)


def _literal(Z: Array, varies: NDArray[np.bool_], max_iter: int, seed: int) -> IcaStep:
    matrix, n_iter, alerts = _rotation(Z, max_iter, seed, "literal")
    if not varies.all():
        alerts += (Alert("constant_latents", {"rotated": (np.flatnonzero(~varies) + 1).tolist()}),)
    return _rotated(Z @ matrix, matrix, np.zeros(Z.shape[1]), "literal", n_iter, alerts)


def _rotated(
    latents: Array, matrix: Array, offset: Array, mode: Mode, n_iter: int, alerts: tuple[Alert, ...]
) -> IcaStep:
    converged = not any(alert.code == "not_converged" for alert in alerts)
    return IcaStep(latents, matrix, offset, mode, converged, n_iter, len(matrix), True, alerts)


def _rotation(Z: Array, max_iter: int, seed: int, mode: Mode) -> tuple[Array, int, tuple[Alert, ...]]:
    """The matrix of FastICA(whiten=False) that acts on rows, the steps it took, and an alert if they were not enough."""
    n, d = Z.shape
    if n < d:
        raise DataError(f"latents: FastICA needs at least as many rows as latents ({d}), got {n}; pass more rows.")
    model = FastICA(whiten=False, random_state=seed, max_iter=max_iter)
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            model.fit(Z)
        except (ValueError, np.linalg.LinAlgError) as error:
            raise _failed(Z, mode, str(error)) from None
    rotation = np.asarray(model.components_, dtype=np.float64).T
    off = float(np.abs(rotation @ rotation.T - np.eye(d)).max())
    if not off < ORTHOGONAL:
        raise _failed(Z, mode, f"its matrix is off orthogonal by {off:.1g}")
    if not any(issubclass(w.category, ConvergenceWarning) for w in caught):
        return rotation, int(model.n_iter_), ()
    return rotation, int(model.n_iter_), (Alert("not_converged", {"mode": mode, "max_iter": max_iter}),)


def _failed(Z: Array, mode: Mode, why: str) -> DataError:
    """FastICA without whitening fails on a scale far above 1 (its tanh saturates) and directions without variance."""
    constant = [str(j + 1) for j in np.flatnonzero(np.ptp(Z, axis=0) == 0)]
    still = f", latents {', '.join(constant)} are constant" if constant else ""
    return DataError(
        f"latents: FastICA ({mode}) found no rotation ({why}); the largest value is {np.abs(Z).max():.3g}{still}; divide "
        "them by their largest standard deviation, or pass mode='whitened'."
    )
