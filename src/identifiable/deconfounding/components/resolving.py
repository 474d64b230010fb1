"""The basis of a screen: features on one scale, no more axes than its wells can carry, whitening and ICA."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import Blocks
from identifiable.deconfounding.design import Design
from identifiable.groups import AffineMap, WhiteBasis
from identifiable.ica import Resolved, resolve
from identifiable.ica.resolving import FEW_ROWS
from identifiable.intake import blocks_of, gather_moments
from identifiable.moments import Array, Moments
from identifiable.options import AttributeOptions, ResolveOptions
from identifiable.representation import Representation
from identifiable.results import Alert
from identifiable.run import Run

NOISE_QUANTILE = (
    2.02  # of the Tracy-Widom law of order 1, at 99 %: noise alone exceeds its edge in one table of a hundred
)
FEWEST_AXES = 2  # a single axis leaves ICA nothing to choose


@dataclass(frozen=True, eq=False)
class Scaling:
    """Features in standard deviations over all rows. Constant features become 0 and come back as they were."""

    mean: Array
    spread: Array  # 0 for a constant feature

    @classmethod
    def of(cls, moments: Moments) -> Scaling:
        return cls(moments.mean, np.sqrt(moments.energy / max(moments.n, 1)))

    @property
    def _factor(self) -> Array:
        return np.divide(1.0, self.spread, out=np.zeros_like(self.spread), where=self.spread > 0)

    def __call__(self, rows: NDArray[Any]) -> Array:
        return np.asarray((rows - self.mean) * self._factor, np.float64)

    def on(self, blocks: Blocks) -> Blocks:
        """The same table, scaled as it is read."""
        return blocks.through(self, blocks.d)

    def into(self, to_axes: AffineMap) -> AffineMap:
        """A map of scaled rows as one of raw rows."""
        matrix = self._factor[:, None] * to_axes.matrix
        return AffineMap(matrix, to_axes.offset - self.mean @ matrix)

    def of_scaled(self, from_axes: AffineMap) -> Array:
        """What axes contribute to the scaled rows, of a map to raw rows: (axes, features)."""
        return np.asarray(from_axes.matrix * self._factor, np.float64)

    def out_of(self, from_axes: AffineMap) -> AffineMap:
        """A map to scaled rows as one to raw rows."""
        return AffineMap(from_axes.matrix * self.spread, from_axes.offset * self.spread + self.mean)


@dataclass(frozen=True)
class CarriedRank:
    """How many principal axes of the scaled features ICA is fitted to, of how many that vary, and the two bounds it comes from."""

    rank: int
    varying: int
    above_noise: int
    by_rows: int


def screen_basis(table: Representation, design: Design, options: AttributeOptions, run: Run) -> Resolved:
    """Whiten and unmix a screen: what `attribute` and `clean` call its components. Ours.

    Features are z-scored over all rows first, so units do not decide which axes are kept; the scaling is folded into both maps, which
    take and give raw rows. Constant features are left out. With ``rank="auto"`` as many axes are kept as the rows can carry
    (`carried_rank`). Refits for stability are on halves of the plates.
    """
    blocks = blocks_of(table)
    moments = gather_moments([blocks], run)[0]
    scaling = Scaling.of(moments)
    carried = carried_rank(moments)
    bounded = options.rank == "auto" and carried.rank < carried.varying
    asked = replace(
        options.shared(ResolveOptions),
        rank=carried.rank if bounded else options.rank,
        group_by=design.plate.codes,
        ids=None,
        command="",
    )
    found = resolve(replace(table, values=scaling.on(blocks)), asked, group_by_name="plate", cluster=run.cluster)
    result = found.result
    alerts = result.alerts
    if bounded:
        said = {"name": table.name, "rows": moments.n, "least": FEW_ROWS, **vars(carried)}
        alerts = (Alert("rank_bounded", said), *(a for a in alerts if a.code != "rank_deficient"))
    if constant := int((scaling.spread == 0).sum()):
        alerts = (Alert("constant_columns", {"name": table.name, "constant": constant, "columns": blocks.d}), *alerts)
    return Resolved(
        scaling.into(found.to_components),
        scaling.out_of(found.from_components),
        replace(
            result,
            inputs=tuple(run.inputs) or result.inputs,
            settings={**result.settings, "scaled": True, **({"rank_rule": vars(carried)} if bounded else {})},
            alerts=alerts,
        ),
    )


@dataclass(frozen=True)
class ReproducibleRank:
    """A rank, and how many of its components refits on halves of the plates find again."""

    rank: int
    reproducible: int


def reproducible_rank(
    table: Representation, design: Design, options: AttributeOptions, run: Run, found: Resolved
) -> ReproducibleRank | None:
    """A lower rank at which more components are reproducible: half of it, a quarter, ..., until half of the components are.

    The best of those tried, which together cost less than the first fit; None where none has a reproducible component, or where
    half of the components are reproducible already, or no refits are made.
    """
    known = sum(component.identifiable for component in found.result.components)
    if not options.stability or 2 * known >= found.result.rank:
        return None
    best, rank = ReproducibleRank(found.result.rank, known), found.result.rank // 2
    while rank >= FEWEST_AXES and 2 * best.reproducible < best.rank:
        again = screen_basis(table, design, replace(options, rank=rank), run)
        tried = ReproducibleRank(rank, sum(component.identifiable for component in again.result.components))
        if tried.reproducible * best.rank > best.reproducible * tried.rank:  # a larger share
            best = tried
        rank //= 2
    return best if best.rank < found.result.rank else None


def carried_rank(moments: Moments) -> CarriedRank:
    """How many principal axes of the scaled features the rows can carry. Ours.

    Where there are `FEW_ROWS` (10) rows for each axis that varies, all of them. Otherwise the smaller of two numbers:

    - axes above the noise: those whose variance is larger than the largest that as many independent features would have in a sample
      of n rows (`axes_above_noise`);
    - one axis for 10 rows. The directions of k components take k (k - 1) / 2 angles. Where the error of an angle is about
      1 / sqrt(n), as for Laplace sources, a component shares k / n of its variance with the others by chance: a tenth at 10 rows
      an axis, which is |r| = 0.95 to its own direction. `resolve` has the same limit (alert `few_rows`).
    """
    varying = WhiteBasis.of(moments).rank
    by_rows = moments.n // FEW_ROWS
    spread = np.sqrt(moments.energy[moments.energy > 0])
    kept = np.flatnonzero(moments.energy > 0)
    correlation = moments.scatter[np.ix_(kept, kept)] / np.outer(spread, spread)
    above = axes_above_noise(np.linalg.eigvalsh(correlation), moments.n) if len(kept) else 0
    bounded = varying if by_rows >= varying else min(max(min(above, by_rows), FEWEST_AXES), varying)
    return CarriedRank(bounded, varying, above, by_rows)


def axes_above_noise(variances: Array, n: int) -> int:
    """How many variances, along principal axes of p features of unit variance in n rows, are larger than independent features give.

    Implements parallel analysis (Horn 1965) with the limit of the largest variance in place of draws: about (1 + sqrt(p / n))^2,
    with fluctuations that follow the Tracy-Widom law (Johnstone 2001).

    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 60)); X[:, :30] += 2 * rng.standard_normal((200, 3)) @ rng.standard_normal((3, 30))
    >>> axes_above_noise(np.linalg.eigvalsh(np.corrcoef(X.T)), 200)
    3
    """
    rows, columns = np.sqrt(n - 0.5), np.sqrt(len(variances) - 0.5)
    edge = (rows + columns) ** 2 / n
    width = (rows + columns) / n * (1 / rows + 1 / columns) ** (1 / 3)
    return int((variances > edge + NOISE_QUANTILE * width).sum())
