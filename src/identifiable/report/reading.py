"""What a comparison says, in the words that the page and the command line share."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from identifiable.report.wording import (
    GROUPS,
    MISSING,
    NESTED,
    UP_TO,
    beside,
    count,
    display_name,
    group_name,
    known,
    number,
    one_line,
    percent,
    percent_interval,
    ratio,
    rows,
    short,
)
from identifiable.results import (
    Comparison,
    Efficiency,
    Null,
    PairResult,
    Rung,
    Similarity,
)

ICA_NOTE = "ICA is not a group: each side is resolved by itself, then matched by signed permutation."
CONSENSUS_UNIT = (
    "The yardstick is the consensus' own rms distance between rows: a model far from the others moves the consensus, "
    "and with it every distance."
)
ROUNDING = 1e-6  # errors below it are those of float32 arithmetic and nothing to explain


Measure = tuple[str, str, float, Null | None]


def is_paper(result: Comparison) -> bool:
    """Whether the paper's in-sample, diameter-normalised figures are the headline."""
    return result.settings.get("protocol") == "paper"


def headline(rung: Rung, paper: bool) -> float:
    """The figure shown first: held-out mean, or the paper's in-sample mean over the diameter."""
    return rung.in_sample.mean_over_diameter if paper else rung.held_out.mean


def judged(rung: Rung, paper: bool) -> float:
    """The figure the verdict compares with epsilon."""
    return rung.judged("paper" if paper else "default")


def judged_name(paper: bool) -> str:
    return "the in-sample mean" if paper else "the 95 % quantile"


def judged_title(paper: bool) -> str:
    """What a table of judged figures holds."""
    figure = "in-sample mean / diameter, as in the paper" if paper else "held-out 95 % quantile (q95)"
    return f"{figure}, the figure the verdict is taken from"


def matrices_note(paper: bool) -> str:
    """Which of the figures in the matrices decides."""
    if paper:
        return "The verdicts are taken from these figures."
    return "The matrices hold means; the verdicts are taken from the 95 % quantiles (q95) of each pair."


def guide(paper: bool) -> str:
    """How to read the numbers, in two sentences."""
    if paper:
        return (
            "The headline is the in-sample mean error over the target's diameter, as in the paper; 0 is the same, and other "
            "errors are in units of the rms distance between target rows. "
            "The verdict is the smallest group whose headline is below the tolerance ε."
        )
    return (
        "Errors are in units of the rms distance between target rows: 0 is the same. "
        "The verdict is the smallest group whose q95, the error that 95 % of held-out rows stay within, is below the "
        "tolerance ε."
    )


def projection(pair: PairResult) -> str:
    """What of a wider side was compared; empty where both sides were compared whole."""
    parts = [
        f"the first {count(pair.width)} principal components of {display_name(name)} ({_share(kept)} of its variance)"
        for name, kept in ((pair.source, pair.kept_source), (pair.target, pair.kept_target))
        if kept < 1
    ]
    return " and ".join(parts)


def _share(kept: float) -> str:
    return "above 99 %" if kept > 0.99 else percent(kept)


def verdict_name(group: str | None) -> str:
    return "none of the groups" if group is None else group_name(group)


def verdict_words(pair: PairResult, paper: bool) -> str:
    """The verdict in a few words, with its figure."""
    rung = verdict_rung(pair, paper)
    if rung is None:
        return verdict_name(pair.verdict.group)
    best = "" if pair.verdict.group else f"best: {group_name(rung.group)}, "
    figure = f"{'mean / diameter' if paper else 'q95'} {beside(judged(rung, paper), pair.verdict.epsilon)}"
    return f"{verdict_name(pair.verdict.group)} ({best}{figure})"


def verdict_rung(pair: PairResult, paper: bool) -> Rung | None:
    """The verdict's rung; where no group is close enough, the group that comes closest."""
    if pair.verdict.group is not None and any(r.group == pair.verdict.group for r in pair.rungs):
        return pair.rung(pair.verdict.group)
    tried = [r for r in pair.rungs if known(judged(r, paper))]
    eligible = NESTED[1:] if projection(pair) else NESTED  # a projection's axes are not the model's
    groups = [r for r in tried if r.group in eligible] or tried
    return min(groups, key=lambda r: judged(r, paper), default=None)


def sentence(pair: PairResult, paper: bool) -> str:
    """The verdict to take away: the one recorded in the result, or the same said from its numbers."""
    epsilon, rung = pair.verdict.epsilon, verdict_rung(pair, paper)
    if rung is not None and pair.verdict.group is not None and rung.held_out.max < ROUNDING and not projection(pair):
        return (
            f"Identical up to {UP_TO.get(rung.group, group_name(rung.group))}: every held-out row lands on its partner."
        )
    if pair.verdict.text:
        return one_line(pair.verdict.text)
    if rung is None:
        return "No group was fitted, so there is no verdict."
    reach = beside(judged(rung, paper), epsilon)
    where = (
        f"the in-sample mean error, as in the paper, is {reach} of the diameter of {display_name(pair.target)}"
        if paper
        else f"95 % of held-out rows land within {reach} of their partners"
    )
    if pair.verdict.group is None:
        return f"Not the same up to any group tried: after the best, {group_name(rung.group)}, {where}; ε = {short(epsilon)}."
    return f"The same up to {UP_TO.get(rung.group, group_name(rung.group))}: {where}; ε = {short(epsilon)}."


def ladder_notes(pair: PairResult, result: Comparison) -> list[str]:
    """What a reader would otherwise stumble over in this ladder."""
    notes = []
    held_out = [(rung.group, rung.held_out.mean) for rung in pair.rungs]
    in_sample = [(rung.group, rung.in_sample.mean) for rung in pair.rungs]
    for name, means in (("held-out", held_out), ("in-sample", in_sample)):
        for smaller, larger in _reversals(means):
            notes.append(
                f"{group_name(larger).capitalize()} contains {group_name(smaller)}, yet its {name} mean is larger. "
                + _why_reversed(name, larger, pair)
            )
    if all(rung.held_out.ci95 is None for rung in pair.rungs):
        off = result.settings.get("bootstrap") == 0
        notes.append("No intervals: the bootstrap was switched off." if off else "No intervals were computed.")
    if not any(rung.null for rung in pair.rungs):
        notes.append("No nulls were drawn, so nothing here says what chance would give.")
    return notes


def _reversals(means: Sequence[tuple[str, float]]) -> list[tuple[str, str]]:
    """Neighbours on the ladder where the larger group has the visibly larger mean."""
    ladder = sorted((NESTED.index(group), group, mean) for group, mean in means if group in NESTED and known(mean))
    return [
        (smaller, larger)
        for (_, smaller, low), (_, larger, high) in pairwise(ladder)
        if high > max(low, ROUNDING) and number(high) != number(low)  # what the table does not show needs no words
    ]


def _why_reversed(name: str, larger: str, pair: PairResult) -> str:
    squares = "maps are fitted to the smallest squared error, and the mean of the norms need not fall with it"
    if name == "in-sample":
        return f"That is no error: {squares}."
    per_dimension = pair.n / pair.width if pair.width else math.inf
    if larger == "linear" and per_dimension < 20:
        return (
            f"A linear map has d² = {count(pair.width**2)} numbers to fit and n/d is only {ratio(pair.n, pair.width)}: "
            "it fits its training rows too well and new rows worse."
        )
    return f"Two causes: {squares}; and a larger group has more to fit, which held-out rows pay for."


def efficiency_line(efficiency: Efficiency | None) -> str:
    """ICA efficiency in one line, with the reason where there is none."""
    if efficiency is None:
        return f"{MISSING} (not computed: it needs the signed permutation, rigid and ICA rungs)"
    shares = [v for v in (efficiency.held_out, efficiency.in_sample) if v is not None and known(v)]
    if not shares:
        return f"{MISSING} (not defined: rigid does no better than signed permutation, so there is no way to go)"
    bounds = "" if efficiency.ci95 is None else f" {percent_interval(efficiency.ci95)}"
    reason = ""
    if len(shares) < 2 or max(map(abs, shares)) >= 10:
        reason = " (says nothing here: rigid is hardly better than signed permutation, so the way is near zero)"
    elif max(shares) > 1:
        reason = " (above 100 %: ICA may rescale axes, which a rigid motion cannot)"
    elif min(shares) < 0:
        reason = " (below 0: worse than a permutation)"
    return f"{percent(efficiency.held_out)}{bounds} held-out, {percent(efficiency.in_sample)} in-sample{reason}"


def similarity_rows(similarity: Similarity) -> list[Measure]:
    """Each measure: key, name, value and what row shuffling gives."""
    nulls = {_plain_key(key): null for key, null in similarity.null.items()}
    found = [("cca", "CCA", similarity.cca)]
    found += [("svcca", f"SVCCA, {k} components", v) for k, v in sorted(similarity.svcca.items(), key=_by_number)]
    found += [("cka", "CKA", similarity.cka), ("cka_debiased", "CKA, debiased", similarity.cka_debiased)]
    keys = [_plain_key(name.removesuffix(" components")) for _, name, _ in found]
    return [(kind, name, value, nulls.get(key)) for (kind, name, value), key in zip(found, keys, strict=True)]


def unordered(pairs: Sequence[PairResult]) -> list[PairResult]:
    """One direction of each pair: CCA and CKA are the same both ways."""
    seen: set[frozenset[str]] = set()
    first = []
    for pair in pairs:
        key = frozenset((pair.source, pair.target))
        if key not in seen:
            seen.add(key)
            first.append(pair)
    return first


def null_rows(nulls: Iterable[Null | None], n: int) -> str:
    """'2,048 of 8,000 rows' where nulls were drawn on fewer rows than there are; empty otherwise."""
    fewer = sorted({null.rows for null in nulls if null is not None and null.rows < n})
    return f"{' or '.join(map(count, fewer))} of {rows(n)}" if fewer else ""


def verdict_counts(result: Comparison) -> str:
    """How many ordered pairs ended at which group."""
    parts = [f"{count(found)} {verdict_name(group)}" for group, found in pairs_by_verdict(result)]
    return f"Of {count(len(result.pairs))} ordered pairs: {', '.join(parts)}."


def pairs_by_verdict(result: Comparison) -> list[tuple[str | None, int]]:
    """Groups, smallest first and none last, with the number of pairs that ended there."""
    counts = Counter(p.verdict.group for p in result.pairs)
    order = [*GROUPS, *sorted(g for g in counts if g is not None and g not in GROUPS), None]
    return [(g, counts[g]) for g in order if counts[g]]


def error_matrices(result: Comparison) -> list[tuple[str, list[list[float]]]]:
    """The headline error of each group for every ordered pair, in the order of the inputs."""
    if not is_paper(result):
        return [(m.group, [list(row) for row in m.values]) for m in result.matrices]
    place = {item.name: i for i, item in enumerate(result.inputs)}
    values: dict[str, list[list[float]]] = {}
    for pair in result.pairs:
        for rung in pair.rungs:
            empty = [[0.0 if i == j else math.nan for j in range(len(place))] for i in range(len(place))]
            values.setdefault(rung.group, empty)[place[pair.source]][place[pair.target]] = headline(rung, True)
    return list(values.items())


def cluster_order(distances: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """Leaves of an average-linkage tree, so that models that agree stand next to each other."""
    size = len(distances)
    far = max((v for row in distances for v in row if known(v)), default=0.0) + 1
    gap = {
        (i, j): sum(v if known(v) else far for v in (distances[i][j], distances[j][i])) / 2
        for i in range(size)
        for j in range(i + 1, size)
    }
    leaves: dict[int, tuple[int, ...]] = {i: (i,) for i in range(size)}
    while len(leaves) > 1:
        a, b = min(gap, key=lambda pair: (gap[pair], pair))
        weight_a, weight_b = len(leaves[a]), len(leaves[b])
        del gap[a, b]
        for c in leaves:
            if c not in (a, b):
                to_a, to_b = (min(a, c), max(a, c)), (min(b, c), max(b, c))
                gap[to_a] = (weight_a * gap[to_a] + weight_b * gap.pop(to_b)) / (weight_a + weight_b)
        leaves[a] = leaves[a] + leaves.pop(b)
    return next(iter(leaves.values()), ())


def _plain_key(key: str) -> str:
    return re.sub("[^a-z0-9]", "", key.lower())


def _by_number(item: tuple[str, float]) -> tuple[int, str]:
    return (int(item[0]) if item[0].isdigit() else 0, item[0])
