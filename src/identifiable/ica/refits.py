"""Refits on halves of the rows that have no row, and no group, in common."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import PairingError, UsageError, as_array
from identifiable.blocks import Blocks
from identifiable.groups import WhiteBasis, haar_rotation
from identifiable.ica.contrasts import contrast
from identifiable.ica.curvature import curvature_errors, pair_curvature
from identifiable.ica.diagnostics import MOST_RESIDUAL, PAIR_ANGLE, PAIR_ROWS, looks_gaussian
from identifiable.ica.fitting import Fit, affordable_starts, fit, starts_of
from identifiable.ica.passes import Passes, RowChoice
from identifiable.ica.search import orthogonal
from identifiable.ica.solver import Near
from identifiable.ica.stability import Refit
from identifiable.ica.whitening import Whitener
from identifiable.intake import gather_moments
from identifiable.moments import Array, Moments
from identifiable.options import IcaOptions
from identifiable.representation import Representation
from identifiable.rows import uniforms
from identifiable.run import PLAIN, Run, Stage

REFIT_STARTS = (
    2  # one from far rows, one from random directions; a refit need not be the best, only an honest second try
)
MANY_OPTIMA = 0.5  # rows for every square of a component, below which optima are many
DOUBTFUL = PAIR_ANGLE / 2  # radians of standard error between two components: half of what is listed as unresolved
SHAKEN = (
    np.pi / 6
)  # radians: |r| 0.87 with the fit, where 0.93 is asked for; at 45 degrees nothing would say which way back
LABELLED = 2**18  # rows given their half at a time


def refit(
    blocks: Blocks,
    settings: IcaOptions,
    fitted: Fit,
    groups: NDArray[np.intp] | None = None,
    run: Run = PLAIN,
    of: str = "",
) -> list[Refit]:
    """`settings.stability` refits in pairs on disjoint halves, each whitened anew.

    Where starts cost little, or rows are too few for one optimum, each is searched anew from its own start; else it begins
    at the fit, `shaken`. `groups` numbers the group of every row, and groups stay whole. `of` is what progress calls the table.
    """
    refits: list[Refit] = []
    rank = fitted.whitener.rank
    for k in range(settings.stability // 2):
        # Far from the seeds of other analyses, so that no two of them share their halves.
        seed = int(np.random.default_rng([settings.seed, 1 + k, 77]).integers(2**40))
        parts = _halves(blocks, seed, groups, run)
        if not all(_has_variance(moments) for _, moments, _ in parts):
            continue  # both, so that refits stay in pairs
        for which, (rows, moments, choice) in enumerate(parts):
            starts = min(REFIT_STARTS, starts_of(settings, moments.n, rank))
            alone = replace(settings, seed=seed + which, restarts=starts, stability=0)
            if settings.rank != "auto":
                alone = replace(alone, rank=min(rank, WhiteBasis.of(moments).rank))
            stage = Stage(f"refit {len(refits) + 1} of {settings.stability}", of)
            other_half = Stage(f"{stage.name}, on the other half", of)
            near = partial(shaken, fitted) if begins_near(moments, rank) else None
            again = fit(rows, moments, alone, run, choice=choice, first=which, stage=stage, near=near)
            other_rows, other_moments, other_choice = parts[1 - which]
            unseen = Passes(other_rows, again.whitener, other_choice or RowChoice(seed), run, other_half)
            curvature = None
            if near is None or k == 0:  # further pairs of halves are the same rows again
                score = contrast(settings.contrast, again.passes.numbers)
                rotation = _of_unit_variance(again, other_moments)
                means = unseen.curvatures(rotation, score, PAIR_ROWS / max(unseen.n, 1))
                signs = again.directions.signs
                curvature = pair_curvature(means.bend, means.own, signs), curvature_errors(means, signs)
            refits.append(
                Refit(
                    to_components=again.to_components,
                    curvature=curvature,
                    passes=(again.passes.spent + unseen.spent) * moments.n / blocks.n,
                    converged=again.converged,
                )
            )
    return refits


def begins_near(moments: Moments, rank: int) -> bool:
    """Whether a refit on rows with these moments begins at the fit: where a search takes long, and optima are not many."""
    same_rank = WhiteBasis.of(moments).rank >= rank
    return same_rank and affordable_starts(moments.n, rank) == 1 and moments.n >= MANY_OPTIMA * rank**2


def shaken(fitted: Fit, whitener: Whitener, rng: np.random.Generator) -> Near:
    """The components of a fit as a start for other rows, turned so far that rows which do not turn them back refuse them.

    Ours. Components that the fit cannot tell apart (Gaussian ones, pairs that another sample may turn into each other, and
    what such pairs connect) are turned at random among themselves, as a search from a random start would leave them. Every other
    component is turned by `SHAKEN` into that one from which it is hardest to tell: where the curvature of that pair is only
    chance, it stays there, and |r| with the fit is below what a reproducible component needs.
    """
    from scipy.sparse.csgraph import connected_components

    rotation = orthogonal((whitener.back @ fitted.to_components.matrix).T)
    found = fitted.directions
    gaussian = looks_gaussian(fitted.shape) | (found.signs == 0)
    doubtful = (found.pair_se > DOUBTFUL) | np.logical_and.outer(gaussian, gaussian)
    group = connected_components(doubtful, directed=False)[1]
    size = np.bincount(group)
    turn = np.eye(len(rotation))
    for which in np.flatnonzero(size > 1):
        some = np.flatnonzero(group == which)
        turn[np.ix_(some, some)] = haar_rotation(len(some), rng)
    single = size[group] == 1
    for i, j in _pairs(np.where(np.logical_and.outer(single, single), found.curvature, np.inf)):
        c, s = np.cos(SHAKEN), np.sin(SHAKEN) * rng.choice([-1, 1])
        turn[np.ix_([i, j], [i, j])] = [[c, s], [-s, c]]
    scattered = np.flatnonzero(~single & ~gaussian)
    return Near(turn @ rotation, gaussian, scattered, fitted.contrast, MOST_RESIDUAL)


def _pairs(curvature: Array) -> list[tuple[int, int]]:
    """Disjoint pairs, the flattest first."""
    first, second = np.nonzero(np.triu(np.isfinite(curvature), 1))
    free, pairs = np.ones(len(curvature), bool), []
    for p in np.argsort(curvature[first, second], kind="stable"):
        i, j = int(first[p]), int(second[p])
        if free[i] and free[j]:
            free[[i, j]] = False
            pairs.append((i, j))
    return pairs


def _of_unit_variance(fitted: Fit, moments: Moments) -> Array:
    """The rotation of a fit with its components scaled to unit variance on rows with these moments."""
    unmixing = fitted.to_components.matrix
    variance = np.einsum("ij,ij->j", unmixing, moments.scatter @ unmixing) / moments.n
    scaled: Array = fitted.rotation / np.sqrt(np.maximum(variance, 1e-12))[:, None]
    return scaled


def group_numbers(labels: Any, representation: Representation) -> NDArray[np.intp]:
    """Labels of the rows as numbers from 0."""
    labels = as_array(labels, "group_by")
    if labels.shape != (representation.n,):
        raise PairingError(
            f"group_by: expected one label for each of the {representation.n} rows of {representation.name}, got shape "
            f"{labels.shape}."
        )
    names, numbers = np.unique(labels.astype(str), return_inverse=True)
    if len(names) < 2:
        raise UsageError(f"group_by: expected at least two groups to split into halves, got {len(names)}.")
    return numbers.astype(np.intp)


def _halves(
    blocks: Blocks, seed: int, groups: NDArray[np.intp] | None, run: Run
) -> list[tuple[Blocks, Moments, RowChoice | None]]:
    """Two halves, each with its rows, their moments, and which of the rows are meant."""
    if groups is None:
        half = np.empty(blocks.n, np.int8)
        for a in range(0, blocks.n, LABELLED):  # a byte for every row, and not the tens of their random numbers
            half[a : a + LABELLED] = uniforms(seed, a, min(LABELLED, blocks.n - a)) >= 0.5
        parts = gather_moments([blocks], run, part=half, n_parts=2)
        return [(blocks, parts[0], RowChoice(seed, 0.0, 0.5)), (blocks, parts[1], RowChoice(seed, 0.5, 1.0))]
    order = np.argsort(uniforms(seed, 0, int(groups.max()) + 1), kind="stable")
    side = np.empty(len(order), dtype=np.int64)
    side[order] = np.arange(len(order)) % 2  # every second group in a random order: as many on either side
    tables = [blocks.select(np.flatnonzero(side[groups] == which)) for which in (0, 1)]
    return [(table, gather_moments([table], run)[0], None) for table in tables]


def _has_variance(moments: Moments) -> bool:
    return moments.n >= 2 and bool(moments.energy.any())
