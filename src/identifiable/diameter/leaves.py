"""Rows cut into small leaves, and bounds on the distance between two leaves."""

from __future__ import annotations

import numpy as np

from identifiable.diameter.frame import Float32, Float64, Index


def tree_order(points: Float32, leaf: int) -> Index:
    """Order rows so that every run of `leaf` rows is a cell of a k-d tree, cut across the widest axis."""
    order = np.arange(len(points))
    ranges = [(0, len(points))]
    while ranges:
        a, b = ranges.pop()
        if b - a <= leaf:
            continue
        inside = points[order[a:b]]
        axis = int(np.argmax(inside.var(axis=0)))
        half = leaf * max(-(-(b - a) // (2 * leaf)), 1)  # whole leaves on the left
        cut = np.argpartition(inside[:, axis], half)
        order[a:b] = order[a:b][cut]
        ranges += [(a, a + half), (a + half, b)]
    return order


def tree_bounds(heads: Float32, tails: Float32, radius: Float64, leaf: int, turning: float) -> Float32:
    """Upper bounds of the distance between any two rows of two leaves, for all pairs of leaves.

    On the leading axes the smaller of a ball bound and an angular bound (law of cosines at the widest angle),
    then Pythagoras with the remaining norms, then never more than the sum of radii.
    """
    starts = np.arange(0, len(heads), leaf)
    sizes = np.diff(np.append(starts, len(heads)))
    points = heads.astype(np.float64)
    middle = np.add.reduceat(points, starts) / sizes[:, None]
    each = np.repeat(np.arange(len(starts)), sizes)
    spread = np.maximum.reduceat(np.linalg.norm(points - middle[each], axis=1), starts)
    length = np.linalg.norm(points, axis=1)
    longest, shortest = np.maximum.reduceat(length, starts), np.minimum.reduceat(length, starts)
    tail, reach = np.maximum.reduceat(tails, starts), np.maximum.reduceat(radius, starts)

    size = np.linalg.norm(middle, axis=1)
    directed = (size > 1e-6 * longest) & (shortest > 1e-6 * longest)
    toward = middle / np.where(directed, size, 1)[:, None]
    unit = points / np.where(length > 0, length, 1)[:, None]
    chord = np.maximum.reduceat(np.linalg.norm(unit - toward[each], axis=1), starts)
    width = np.where(directed, 2 * np.arcsin(np.minimum(chord / 2, 1)), np.pi)

    squares = np.einsum("ij,ij->i", middle, middle)
    bounds = np.empty((len(starts), len(starts)), np.float32)
    for a in range(0, len(starts), 256):
        rows = slice(a, a + 256)
        gap = np.sqrt(np.maximum(squares[rows, None] + squares - 2 * (middle[rows] @ middle.T), 0)) + 1e-7 * reach.max()
        ball = gap + spread[rows, None] + spread
        angle = np.arccos(np.clip(toward[rows] @ toward.T, -1, 1)) + width[rows, None] + width + 1e-6
        cosine = np.cos(np.minimum(angle, np.pi))
        product = np.where(cosine < 0, longest[rows, None] * longest, shortest[rows, None] * shortest)
        angular = np.sqrt(longest[rows, None] ** 2 + longest**2 - 2 * product * cosine)
        radii = reach[rows, None] + reach
        head = np.minimum(ball, angular) + turning * radii
        bounds[rows] = np.minimum(np.sqrt(head**2 + (tail[rows, None] + tail) ** 2), radii) * (1 + 1e-6)
    return bounds
