"""Which perturbations move an axis: mean differences from the controls of their plates, tested with plates as the unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma
from scipy.stats import t

from identifiable.deconfounding.components.axis_values import Slabs
from identifiable.deconfounding.components.replicate_variance import Replicates
from identifiable.deconfounding.components.variance_shares import whole_variance
from identifiable.deconfounding.metrics.replicates import q_values
from identifiable.moments import Array
from identifiable.results import TopPerturbation

FEWEST_TO_BORROW = 10  # perturbations below which their variances say too little about each other
NEWTON_STEPS = 20


@dataclass(frozen=True, eq=False)
class PerturbationEffects:
    """(perturbations, axes): mean effect in standard deviations of the axis, and its p-value."""

    names: tuple[str, ...]
    wells: NDArray[np.intp]
    effect: NDArray[np.float32]
    p: Array

    def q(self) -> Array:
        """Benjamini-Hochberg over all perturbations and axes together."""
        return q_values(self.p.ravel()).reshape(self.p.shape)

    def top(self, axis: int, q: Array, count: int) -> tuple[TopPerturbation, ...]:
        """The perturbations of smallest p on an axis, larger effects first where p is equal."""
        p, effect = self.p[:, axis], self.effect[:, axis]
        order = np.lexsort((-np.abs(effect), p))[:count]
        return tuple(
            TopPerturbation(self.names[k], float(effect[k]), int(self.wells[k]), float(p[k]), float(q[k, axis]))
            for k in order.tolist()
            if np.isfinite(p[k])
        )


def perturbation_effects(slabs: Slabs, replicates: Replicates) -> PerturbationEffects:
    """Effect of every perturbation that lies on two plates or more, on every axis.

    Ours, with the moderated t-test of limma (Smyth 2004). The effect on a plate is the mean of its wells less that of the plate's
    controls; plates are the unit, so neither many wells of one plate nor the noise of its controls passes for evidence.
    A perturbation on few plates borrows from the others how much effects on an axis vary from plate to plate.
    """
    cells = replicates.cells
    adding = cells.by_owner.astype(np.float64)
    plates = np.asarray(adding @ np.ones(adding.shape[1]))
    wells = np.asarray(adding @ cells.counts).round().astype(np.intp)
    effects, p = [], []
    for slab in slabs:
        means = (cells.adding @ replicates.deviations(slab, replicates.from_reference)) / cells.counts[:, None]
        effect = (adding @ means) / plates[:, None]
        squares = adding @ (means - effect[cells.owner]) ** 2
        effects.append((effect / np.sqrt(whole_variance(slab))).astype(np.float32))
        p.append(moderated_p(effect, squares / (plates - 1)[:, None], plates))
    return PerturbationEffects(replicates.names, wells, np.concatenate(effects, axis=1), np.concatenate(p, axis=1))


def moderated_p(mean: Array, variance: Array, plates: Array) -> Array:
    """Two-sided p-values of means over `plates` units of the given sample variances: (perturbations, axes).

    Implements limma's `eBayes` (Smyth 2004): on each axis true variances are taken as scaled inverse chi-square, and each
    sample variance is drawn towards their centre in proportion to what it lacks in degrees of freedom.
    """
    freedom = (plates - 1)[:, None]
    prior, centre = _prior(variance, freedom)
    with np.errstate(invalid="ignore"):
        drawn = np.where(np.isinf(prior), centre, (prior * centre + freedom * variance) / (prior + freedom))
    error = np.sqrt(drawn / plates[:, None])
    ratio = np.divide(np.abs(mean), error, out=np.full(mean.shape, np.nan), where=error > 0)
    return np.asarray(2 * t.sf(ratio, np.minimum(prior + freedom, 1e9)), np.float64)


def _prior(variance: Array, freedom: Array) -> tuple[Array, Array]:
    """Degrees of freedom and centre of the variances of an axis, from the spread of their logarithms (limma's `fitFDist`)."""
    axes = variance.shape[1]
    if len(variance) < FEWEST_TO_BORROW:
        return np.zeros(axes), np.ones(axes)
    floor = 1e-5 * np.maximum(np.median(variance, axis=0), np.finfo(np.float64).tiny)  # as limma: no logarithm of zero
    logs = np.log(np.maximum(variance, floor)) - digamma(freedom / 2) + np.log(freedom / 2)
    excess = logs.var(axis=0, ddof=1) - polygamma(1, freedom / 2).mean()
    prior = np.where(excess > 0, 2 * _inverse_trigamma(np.maximum(excess, 1e-12)), np.inf)
    finite = np.minimum(prior, 1e12)
    centre = np.exp(logs.mean(axis=0) + digamma(finite / 2) - np.log(finite / 2))
    return prior, centre


def _inverse_trigamma(value: Array) -> Array:
    """The number whose trigamma is `value`, by Newton's method on its reciprocal (Smyth 2004, appendix)."""
    found = 0.5 + 1 / value
    for _ in range(NEWTON_STEPS):
        trigamma = polygamma(1, found)
        found += trigamma * (1 - trigamma / value) / polygamma(2, found)
    return np.asarray(found)
