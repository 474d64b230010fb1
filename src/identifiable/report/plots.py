"""Plots for notebooks and papers, by matplotlib: the ladder and the shared dimensions of a comparison.

The pages need none of it: their figures are SVG (`render/figures.py`).
"""

from __future__ import annotations

from typing import Any

from identifiable._checks import UsageError
from identifiable._extras import require
from identifiable.report.words import arrow, group_name
from identifiable.results import Comparison, PairResult

LOWEST = -0.25  # R² at the bottom of the picture, at least: below 0 a map predicts worse than the mean
BESIDE = 0.12  # how far the two directions stand apart


def plot(result: Comparison, *, ax: Any = None, which: str | None = None) -> Any:
    """Draw the weakest pair of a comparison: the ladder, the shared dimensions, or both side by side."""
    if which not in (None, *DRAWN):
        raise UsageError(f"which {which!r}: expected {' or '.join(DRAWN)}.")
    require("matplotlib", extra="plot", what="plot")
    weakest = result.weakest
    both = [p for p in result.pairs if {p.source, p.target} == {weakest.source, weakest.target}]
    names = list(DRAWN) if ax is None and which is None else [which or "ladder"]
    axes = [ax]
    if ax is None:
        from matplotlib import pyplot

        axes = list(
            pyplot.subplots(1, len(names), figsize=(4.8 * len(names), 3.6), layout="constrained", squeeze=False)[1][0]
        )
    for place, name in zip(axes, names, strict=True):
        DRAWN[name](both, place)
    return axes[0] if len(axes) == 1 else axes


def _ladder(pairs: list[PairResult], ax: Any) -> None:
    lowest = 0.0
    for k, pair in enumerate(pairs):
        found = [(rung.group, rung.r2) for rung in pair.rungs if rung.r2 is not None]  # of ICA there is none
        if not found:
            raise UsageError(
                f"{pair.source}: this result has no R², an earlier version made it; compare the tables again."
            )
        values = [r2.value for _, r2 in found]
        ends = [r2.ci95 or (r2.value, r2.value) for _, r2 in found]
        spread = [
            [v - low for v, (low, _) in zip(values, ends, strict=True)],
            [high - v for v, (_, high) in zip(values, ends, strict=True)],
        ]
        ax.errorbar(
            [j + BESIDE * (k - (len(pairs) - 1) / 2) for j in range(len(found))],
            values,
            yerr=spread,
            fmt="o",
            capsize=3,
            label=arrow(pair),
        )
        lowest = min(lowest, *values)
    ax.set_xticks(range(len(found)), [group_name(group) for group, _ in found], rotation=20)
    ax.set_ylim(max(lowest, LOWEST) - 0.03, 1.03)
    ax.set_ylabel("held-out R²")
    ax.legend(frameon=False)


def _shared(pairs: list[PairResult], ax: Any) -> None:
    from identifiable.identifiability.shared import STRONG  # which loads scipy, and pages need none of it

    shared = pairs[0].shared
    if shared is None:
        raise UsageError(f"{pairs[0].source}: this result has no shared dimensions; compare the tables again.")
    ax.plot(range(1, len(shared.rho) + 1), shared.rho, "o-", markersize=3)
    ax.axhline(STRONG, linestyle="--", color="grey", label=f"strongly shared, above {STRONG}")
    ax.axhline(shared.chance, linestyle=":", color="grey", label=f"chance, {shared.chance:.2f}")
    ax.set(xlabel="dimension", ylabel="correlation", ylim=(0, 1.03))
    ax.set_title(f"{shared.strong} of {shared.possible} dimensions shared")
    ax.legend(frameon=False)


DRAWN = {"ladder": _ladder, "shared": _shared}
