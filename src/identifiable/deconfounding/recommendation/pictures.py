"""Pictures of a screen before and after a correction: wells in two dimensions, and the mean plate."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Literal

import numpy as np

from identifiable.deconfounding.design import Codes, Design, Labels, address_name
from identifiable.moments import Array
from identifiable.results import PlateMap, WellPicture

MOST_POINTS = 500
MOST_COLOURS = 7  # the eighth is grey, for all others
FAR, EDGE = 2.0, 0.15  # per cent of the points at each end, and how much farther out they are drawn at most
DIGITS = 3  # of a coordinate, in units of the spread


def well_pictures(before: Array, after: Array, design: Design, seed: int) -> tuple[WellPicture, ...]:
    """At most 500 wells on the first two principal components of the z-scored table and of the corrected one; UMAP if installed."""
    rng = np.random.default_rng([seed, design.n, 31])
    rows = np.sort(rng.permutation(design.n)[:MOST_POINTS])
    batch = design.plate if design.batch is None else design.batch
    batches, of_batch = _most_frequent(batch, rows)
    label = design.perturbation if design.target is None else design.target
    labels, of_label = _most_frequent(label, rows[~design.control[rows]], among=rows)
    spaces = _scaled(before)[rows], after[rows]
    found = []
    methods: tuple[Literal["pca", "umap"], ...] = ("pca", "umap") if find_spec("umap") else ("pca",)
    for method in methods:
        x, y = (_plane(space, method, seed) for space in spaces)
        found.append(WellPicture(method, x, y, of_batch, batches, of_label, labels))
    return tuple(found)


def _most_frequent(labels: Labels, rows: Codes, among: Codes | None = None) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The names that most rows have, and the place of each row's name among them; -1 is another."""
    counts = labels.count(rows)
    top = np.argsort(-counts, kind="stable")[:MOST_COLOURS]
    top = top[counts[top] > 0]
    place = np.full(labels.size, -1)
    place[top] = np.arange(len(top))
    shown = place[labels.codes[rows if among is None else among]]
    return tuple(labels.names[k] for k in top), tuple(shown.tolist())


def _scaled(X: Array) -> Array:
    spread = X.std(axis=0)
    scaled: Array = np.divide(X - X.mean(axis=0), spread, out=np.zeros_like(X), where=spread > 0)
    return scaled


def _plane(X: Array, method: Literal["pca", "umap"], seed: int) -> tuple[tuple[float, float], ...]:
    """Coordinates in units of the spread of the first; signs such that the largest value is positive."""
    if method == "umap":
        found = np.asarray(import_module("umap").UMAP(random_state=seed).fit_transform(X), np.float64)
    else:
        left, values, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
        found = left[:, :2] * values[:2]
        found = found * np.sign(found[np.abs(found).argmax(axis=0), range(found.shape[1])])
    found = np.column_stack([found, np.zeros((len(found), 2 - min(2, found.shape[1])))])[:, :2]
    low, high = np.percentile(found, [FAR, 100 - FAR], axis=0)
    found = np.clip(found, low - EDGE * (high - low), high + EDGE * (high - low))  # a few wells would hide all others
    found = (found - found.mean(axis=0)) / max(float(found[:, 0].std()), np.finfo(float).tiny)
    return tuple((float(a), float(b)) for a, b in np.round(found, DIGITS))


def plate_maps(before: Array, after: Array, design: Design) -> tuple[PlateMap, ...]:
    """The mean plate along the direction in which controls vary most within plates; none where wells are not known.

    Wells are centred by their plate, so that what is left is position; values are in units of the spread along the direction.
    """
    if design.row is None or design.column is None:
        return ()
    found = []
    spaces: tuple[tuple[Literal["before", "after"], Array], ...] = (("before", _scaled(before)), ("after", after))
    for space, X in spaces:
        within = _within_plates(X, design.plate)
        rows = within[design.control] if design.control.sum() > 2 else within
        direction = np.linalg.svd(rows, full_matrices=False)[2][0]
        direction = direction * np.sign(direction[np.abs(direction).argmax()])
        along = within @ direction
        along /= max(float(along.std()), np.finfo(float).tiny)
        height, width = int(design.row.max()) + 1, int(design.column.max()) + 1
        place = design.row * width + design.column
        counts = np.bincount(place, minlength=height * width)
        total = np.bincount(place, weights=along, minlength=height * width)
        mean = np.divide(total, counts, out=np.full(len(total), np.nan), where=counts > 0).reshape(height, width)
        letters = tuple(address_name(r, 0).rstrip("0123456789") for r in range(height))
        numbers = tuple(str(c + 1) for c in range(width))
        found.append(PlateMap(space, letters, numbers, tuple(tuple(np.round(line, 2).tolist()) for line in mean)))
    return tuple(found)


def _within_plates(X: Array, plate: Labels) -> Array:
    sums = np.zeros((plate.size, X.shape[1]))
    np.add.at(sums, plate.codes, X)
    centred: Array = X - (sums / plate.counts[:, None])[plate.codes]
    return centred
