"""Which rows a map carries worst: labels, and regions of the source that a short rule describes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.alignment.retrieval import Parts, bounded_share, recalls
from identifiable.moments import Array
from identifiable.neighbours import Index, Lists
from identifiable.results import Region
from identifiable.run import Run

LEVEL = 0.05  # of naming any label, or any region, where all are alike
GAP = 0.1  # least loss of recall that is worth naming
LEAST_UNITS = 8  # rows, or groups of rows, below which a label is not judged
MOST = 5  # labels, and regions, that are named
DEPTH = 3
DRAWS = 999
PENALTIES = 10.0 ** np.arange(-4, 2.5, 0.5)  # of the axis, a row
SHARE_TESTED, LEAST_TESTED = (
    1 / 4,
    200,
)  # queries that a rule is tested on: a gap shows on few, a direction is found on many
AXIS_FOLDS, AXIS_NAMES = 5, 3
LOW = 0.1  # of the rows: those whose mean a ball may be about
COMPONENTS, CENTRES = 10, 12  # principal components, and typical rows from which distances are measured


def worst_regions(
    row_recall: Array,
    rows: NDArray[Any] | None = None,
    labels: NDArray[Any] | None = None,
    *,
    columns: Sequence[str] | None = None,
    ids: Sequence[Any] | NDArray[Any] | None = None,
    parts: Parts = None,
    rng: np.random.Generator,
) -> tuple[Region, ...]:
    """The labels, then the regions of the source `rows`, whose recall@10 is at least .1 below that of the other rows.

    Ours. A label is named if its mean is lower than permutations allow: its standardised gap exceeds the largest gap of any
    label in 95 % of 999 permutations of the recalls over the rows, so the number of labels is accounted for.

    Regions come from a regression tree of depth 3, fitted to three quarters of the queries (half, below 800): on the columns of the
    source, its principal components, the distances from the mean and from twelve typical rows (a region that is a cluster has no
    short rule in columns), and the recall that one direction predicts (a half-space has none either). Its nodes
    with the largest gaps are tested in the same way on the other queries, and only what is seen there is reported; so no region is
    named where there is none. Whole `parts` are on one side, and rows of a part and a label count once.

    A rule names columns (`columns`, or numbers from 1) and typical rows (`ids`, or the number of the query from 1).
    """
    found: list[Region] = []
    if labels is not None:
        names, label = np.unique(np.asarray(labels).astype(str), return_inverse=True)
        for i in _low(row_recall, label, np.eye(len(names), dtype=bool), parts, rng):
            found.append(_region(str(names[i]), None, row_recall, label == i, parts))
    if rows is not None and len(rows) >= 4 * LEAST_UNITS:
        fitted, regions = regions_by_rule(row_recall, rows, columns=columns, ids=ids, parts=parts, rng=rng)
        held = None if parts is None else np.asarray(parts)[~fitted]
        for i, (rule, inside) in enumerate(regions):
            found.append(_region(f"region {i + 1}", rule, row_recall[~fitted], inside[~fitted], held))
    return tuple(found)


def regions_by_rule(
    row_recall: Array,
    rows: NDArray[Any],
    *,
    columns: Sequence[str] | None = None,
    ids: Sequence[Any] | NDArray[Any] | None = None,
    parts: Parts = None,
    rng: np.random.Generator,
) -> tuple[NDArray[np.bool_], list[tuple[str, NDArray[np.bool_]]]]:
    """Which rows the rules were found on, and of every region that the other rows confirm its rule and the rows that are in it."""
    units = np.arange(len(rows)) if parts is None else np.unique(parts, return_inverse=True)[1]
    count = int(units.max()) + 1
    tested = min(max(round(count * SHARE_TESTED), LEAST_TESTED), count // 2)
    fitted = rng.permutation(count)[units] >= tested
    if not np.ptp(rows[fitted], axis=0).any():  # copies of one row, which no rule tells apart
        return fitted, []
    tree = _Tree(rows, row_recall, fitted, columns, ids)
    nodes = tree.lowest()
    held = None if parts is None else np.asarray(parts)[~fitted]
    low = _low(row_recall[~fitted], tree.leaf[~fitted], tree.holds[:, nodes], held, rng)
    return fitted, [(tree.rule(nodes[i]), tree.holds[tree.leaf, nodes[i]]) for i in low]


def own_agreement(found: Lists, source: Lists) -> Array:
    """Of every query, the share of its ten nearest rows in the source that are also among those found through the map.

    Ours. Needs no vector of the target. Rows with a low share have a low recall more often than others (AUROC .53 to .90 on real
    pairs); leverage does not say so (.38 to .62).
    """
    return recalls(found, source)


def _region(name: str, rule: str | None, row_recall: Array, inside: NDArray[np.bool_], parts: Parts) -> Region:
    own = None if parts is None else np.asarray(parts)[inside]
    return Region(
        name=name,
        rule=rule,
        rows=int(inside.sum()),
        recall_10=bounded_share(row_recall[inside], own),
        rest=float(row_recall[~inside].mean()),
        of=len(row_recall),
    )


class _Gaps:
    """How far the mean of some kinds of rows lies below that of the others; `holds[kind, set]` says which kinds a set has."""

    def __init__(self, kind: NDArray[np.int64], holds: NDArray[np.bool_]):
        self.inside = holds[kind].astype(float)
        self.counts = self.inside.sum(axis=0)

    def of(self, values: Array) -> tuple[Array, Array]:
        """The gap of every set, and in standard errors of random sets of its size; (..., rows) to (..., sets)."""
        n = values.shape[-1]
        inside = values @ self.inside
        with np.errstate(invalid="ignore", divide="ignore"):  # a set of no rows, or of all
            gap = (values.sum(axis=-1, keepdims=True) - inside) / (n - self.counts) - inside / self.counts
            scaled = gap / (values.std(axis=-1, keepdims=True) * np.sqrt(1 / self.counts + 1 / (n - self.counts)))
        return gap, np.where((self.counts >= LEAST_UNITS) & np.isfinite(scaled), scaled, -np.inf)


def _low(
    row_recall: Array, kind: NDArray[np.int64], holds: NDArray[np.bool_], parts: Parts, rng: np.random.Generator
) -> list[int]:
    """The sets of kinds whose mean is lower than permutations allow, widest gap first."""
    values = row_recall
    if parts is not None:
        cells, cell = np.unique(np.c_[np.unique(parts, return_inverse=True)[1], kind], axis=0, return_inverse=True)
        values, kind = np.bincount(cell.ravel(), row_recall) / np.bincount(cell.ravel()), cells[:, 1]
    gaps = _Gaps(kind, holds)
    gap, observed = gaps.of(values)
    if not np.any((observed > 0) & (gap >= GAP)):
        return []
    at_once = max(1, 2**20 // len(values))
    counts = [min(at_once, DRAWS - done) for done in range(0, DRAWS, at_once)]
    drawn = (rng.permuted(np.tile(values, (count, 1)), axis=1) for count in counts)
    largest = np.concatenate([gaps.of(permuted)[1].max(axis=1) for permuted in drawn])
    p = (1 + (largest[:, None] >= observed).sum(axis=0)) / (1 + DRAWS)
    low = np.flatnonzero((p <= LEVEL) & (gap >= GAP))
    return [int(i) for i in low[np.argsort(-gap[low], kind="stable")][:MOST]]


class _Tree:
    """Regions of low recall: nodes of a shallow regression tree, `holds[leaf, node]` (both by number of the node)."""

    def __init__(
        self,
        rows: NDArray[Any],
        row_recall: Array,
        fitted: NDArray[np.bool_],
        columns: Sequence[str] | None,
        ids: Sequence[Any] | NDArray[Any] | None,
    ):
        from sklearn.cluster import KMeans
        from sklearn.decomposition import PCA
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.tree import DecisionTreeRegressor

        known = rows[fitted]
        count = min(COMPONENTS, *known.shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # of fewer different rows than clusters: centres repeat
            centres = KMeans(min(CENTRES, len(known)), n_init=1, random_state=0).fit(known).cluster_centers_
        typical = np.unique(Index(known, metric="euclidean").nearest(centres, 1, run=Run(workers=1)))
        places = np.flatnonzero(fitted)[typical]
        named = columns or [f"column {i + 1}" for i in range(rows.shape[1])]
        axis, along = _axis(rows, row_recall, fitted)
        features = np.hstack(
            [
                rows,
                PCA(count, random_state=0).fit(known).transform(rows),
                np.stack([np.linalg.norm(rows - row, axis=1) for row in (*known[typical], known.mean(axis=0))], axis=1),
                along,
            ]
        )
        steepest = ", ".join(
            named[i] for i in np.argsort(-np.abs(axis) * known.std(axis=0), kind="stable")[:AXIS_NAMES]
        )
        self.names = [
            *named,
            *(f"principal component {i + 1}" for i in range(count)),
            *(f"distance from row {place + 1 if ids is None else ids[place]}" for place in places),
            "distance from the mean",
            f"expected recall (mostly by {steepest})",
            "distance from low-recall rows",
        ]
        model = DecisionTreeRegressor(
            max_depth=DEPTH, min_samples_leaf=max(LEAST_UNITS, len(known) // 25), random_state=0
        ).fit(features[fitted], row_recall[fitted])
        self.tree, self.leaf = model.tree_, model.apply(features)
        self.gaps = row_recall[fitted], self.leaf[fitted]
        self.parent = {
            int(child): node
            for node in range(self.tree.node_count)
            for child in (self.tree.children_left[node], self.tree.children_right[node])
            if child >= 0
        }
        self.holds = np.zeros((self.tree.node_count,) * 2, bool)
        for leaf in range(self.tree.node_count):
            self.holds[leaf, [leaf, *self._above(leaf)]] = True

    def _above(self, node: int) -> list[int]:
        return [] if node not in self.parent else [self.parent[node], *self._above(self.parent[node])]

    def lowest(self) -> list[int]:
        """Nodes with the largest standardised gaps on the rows that the tree was fitted to, none within another."""
        values, leaf = self.gaps
        gap, scaled = _Gaps(leaf, self.holds).of(values)
        chosen: list[int] = []
        for node in np.argsort(-scaled, kind="stable"):
            apart = not any(self.holds[node, other] or self.holds[other, node] for other in chosen)
            if apart and np.isfinite(scaled[node]) and gap[node] >= GAP and len(chosen) < MOST:
                chosen.append(int(node))
        return chosen

    def rule(self, node: int) -> str:
        """The conditions of a node, one for each name and side."""
        limits: dict[tuple[str, str], float] = {}
        for child, above in zip([node, *self._above(node)], self._above(node), strict=False):
            side = "<=" if self.tree.children_left[above] == child else ">"
            name = self.names[self.tree.feature[above]]
            limits.setdefault((name, side), float(self.tree.threshold[above]))  # the innermost is the tightest
        return " and ".join(f"{name} {side} {value:.3g}" for (name, side), value in reversed(limits.items()))


def _axis(rows: NDArray[Any], row_recall: Array, fitted: NDArray[np.bool_]) -> tuple[Array, Array]:
    """The direction in which recall falls (ridge); the recall that it predicts, and the distance from the mean of the rows of low recall.

    Both are of a fitted row by the other fifths: its own recall must not be in them, or a tree would take it for a rule. Squared
    distance from the mean goes with the columns: a ball is a direction and a distance.
    """
    values = rows - rows[fitted].mean(axis=0)
    spread = np.sqrt(np.square(values[fitted]).mean()) or 1.0
    squares = np.square(values).sum(axis=1, keepdims=True)
    inputs = np.hstack([values / spread, squares / (squares[fitted].std() or 1.0)])
    places = np.flatnonzero(fitted)
    found = np.empty((len(rows), 2))
    by = np.zeros(inputs.shape[1])
    for k in range(AXIS_FOLDS + 1):  # the last is of all fitted rows, for the others
        asked = places[k::AXIS_FOLDS] if k < AXIS_FOLDS else np.flatnonzero(~fitted)
        known = np.setdiff1d(places, asked)
        by, start = _ridge(known, inputs, row_recall)
        low = known[row_recall[known] <= np.quantile(row_recall[known], LOW)]
        found[asked, 0] = inputs[asked] @ by + start
        found[asked, 1] = np.linalg.norm(rows[asked] - rows[low].mean(axis=0), axis=1)
    return by[:-1], found


def _ridge(places: NDArray[np.intp], inputs: Array, row_recall: Array) -> tuple[Array, float]:
    """Coefficients and start of ridge regression, its penalty by generalised cross-validation."""
    x, y = inputs[places], row_recall[places]
    mean, level = x.mean(axis=0), float(y.mean())
    x, y = x - mean, y - level
    squares, directions = np.linalg.eigh(x.T @ x / len(x))
    turned = directions.T @ (x.T @ y) / len(x)
    kept = 1 / (squares.clip(0) + PENALTIES[:, None])
    left = np.mean(y**2) - 2 * kept @ turned**2 + (kept**2 * squares.clip(0)) @ turned**2
    free = 1 - (1 + (kept * squares.clip(0)).sum(axis=1)) / len(x)
    best = int(np.argmin(np.where(free > 0, left / np.where(free > 0, free, 1) ** 2, np.inf)))
    by: Array = directions @ (kept[best] * turned)
    return by, level - float(mean @ by)
