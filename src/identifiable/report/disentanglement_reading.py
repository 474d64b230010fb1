"""What the page and the command line both say of a disentanglement: sentences, and the lines of tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from identifiable.report.disentanglement_methods import MODES, metric_name, score_name
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    display_name,
    interval,
    known,
    listed,
    number,
    one_line,
    probability,
    short,
)
from identifiable.results import AfterICA, Disentanglement, Factor, FactorLatentMatrix, Metric, ScoreNull

INFOMEC = "infomec"
INFO = ("infom", "infoe", "infoc")
# What a score means, from 0.9, 0.6 and 0.3 on, and below. The steps are ours.
STEPS = (0.9, 0.6, 0.3)
SAID = {
    "infom": (
        "a latent tells of one factor almost alone",
        "a latent tells mainly of one factor",
        "a latent tells of several factors",
        "a latent tells of the factors nearly alike",
    ),
    "infoe": (
        "a linear model reads off nearly all about the factors",
        "a linear model reads off most about the factors",
        "a linear model reads off part of the factors",
        "a linear model reads off little of the factors",
    ),
    "infoc": (
        "a factor lies in one latent almost alone",
        "a factor lies mainly in one latent",
        "a factor is spread over several latents",
        "a factor is spread over the latents nearly evenly",
    ),
}
LIFTED = 0.1  # gain in InfoM under noise from which on leakage is said to be the reason
LITTLE = 0.1  # largest NMI below which there is hardly anything for shares to be shares of
MOVED = 0.01  # change of the profile's own InfoE from which on it is explained
LEVEL = 0.05  # of p
TOLD = 0.9  # share of what a latent tells that the factors named for it make up
UNSEEN = 5e-5  # change of a score below which none is shown
ROUNDING = 1e-12  # of a score: below it is 0 but for rounding
WITHOUT_FACTORS = ("unsupervised",)  # shuffled factors leave them as they are; and less is better
LESS = "↓"  # marks those
LESS_WORDS = f"{LESS} less is better; of all others 1 is best."
UNSETTLED = "not converged"
BY_CHANCE = "not more than shuffled factors give"
NO_CHANCE = "No factors were shuffled, so nothing here says what chance would score; pure noise does not score 0. Ask with --null 100."

SHARES = ("infom", "infoc")
SHARES_OF_NOTHING = (
    "InfoM and InfoC are shares, and shares of the next to nothing that shuffled factors leave can be as large: alone they do "
    "not show that latents tell of factors; InfoE and the matrix below do."
)


def table_name(result: Disentanglement) -> str:
    """The table of latents, by its name."""
    return display_name(result.inputs[0].name) if result.inputs else "latents"


def sentence(result: Disentanglement) -> str:
    """The three scores of InfoMEC, and what they mean."""
    infomec = result.metrics.get(INFOMEC)
    if infomec is None:
        chance = [
            metric_name(key)
            for key, metric in result.metrics.items()
            if any(by_chance(null, result.settings.get("null")) for null in metric.nulls.values())
        ]
        scored = f" {listed(chance)}: {BY_CHANCE}." if chance else ""
        return f"{counted(len(result.metrics), 'metric')} of {size_words(result)}; InfoMEC is not among them.{scored}"
    return f"{'; '.join(_said(infomec, key, result.settings.get('null')) for key in INFO)}."


def _said(metric: Metric, key: str, draws: object) -> str:
    value = metric.scores.get(key, math.nan)
    if not known(value):
        return f"{score_name(key)} is not defined"
    bounds = metric.intervals.get(key)
    within = f" [{number(bounds[0], 2)}, {number(bounds[1], 2)}]" if bounds is not None else ""
    step = next((i for i, least in enumerate(STEPS) if value >= least), len(STEPS))
    chance = f", but {BY_CHANCE}" if key in metric.nulls and by_chance(metric.nulls[key], draws) else ""
    return f"{score_name(key)} {figure(value, 2)}{within}: {SAID[key][step]}{chance}"


def by_chance(null: ScoreNull, draws: object) -> bool:
    """Whether shuffled factors score as high too often; a p that is not defined, or that could not be less, says nothing."""
    return known(null.p) and null.p > LEVEL and not _at_floor(null, draws)


def figure(value: float | None, decimals: int = 3) -> str:
    """A score: 1.6e-16 is 0 but for rounding."""
    return number(0.0 if value is not None and abs(value) < ROUNDING else value, decimals)


def _p(null: ScoreNull, draws: object) -> str:
    """p, marked where it is the least that so many shuffles can give."""
    return f"≤ {probability(null.p)}" if _at_floor(null, draws) and null.p >= 0.001 else probability(null.p)


def _at_floor(null: ScoreNull, draws: object) -> bool:
    return isinstance(draws, int) and draws > 0 and known(null.p) and null.p <= 1.001 / (draws + 1)


def floor_words(result: Disentanglement) -> str:
    """That more shuffles could give a smaller p; empty where none is as small as it can be."""
    draws = result.settings.get("null")
    if not isinstance(draws, int) or not any(
        _at_floor(null, draws) for metric in result.metrics.values() for null in metric.nulls.values()
    ):
        return ""
    return f"{counted(draws, 'shuffle')} cannot give a p below {probability(1 / (draws + 1))}; more of them could."


def interval_words(result: Disentanglement) -> str:
    """What the intervals are drawn from; empty without any."""
    draws = result.settings.get("bootstrap")
    if not any(metric.intervals for metric in result.metrics.values()):
        return ""
    often = f"{count(draws)} random splits" if isinstance(draws, int) else "random splits"
    return f"95 % intervals are from {often} of the rows."


def notes_below_scores(result: Disentanglement) -> list[str]:
    """What a reader of the table of scores has to know."""
    less = LESS_WORDS if any(key in WITHOUT_FACTORS for key in result.metrics) else ""
    return [words for words in (interval_words(result), floor_words(result), less) if words]


def size_words(result: Disentanglement) -> str:
    """Latents and factors, each with its kind."""
    latents = f"{counted(len(result.latents), 'latent')} ({latent_words(result)})"
    return f"{latents}, {counted(len(result.factors), 'factor')} ({factor_words(result)})"


def latent_words(result: Disentanglement) -> str:
    kind = "discrete codes" if result.latent_kind == "discrete" else "continuous"
    active = active_latents(result)
    return kind if active is None else f"{kind}, {count(sum(active))} active"


def factor_words(result: Disentanglement) -> str:
    kinds = [factor.kind for factor in result.factors]
    words = sum(factor.words for factor in result.factors)
    told = " and ".join(f"{count(kinds.count(k))} {k}" for k in ("discrete", "continuous") if k in kinds)
    return f"{told}; {count(words)} of words" if words else told


def kind_words(factor: Factor) -> str:
    """The kind of a factor, and whether its classes are words, which have no order."""
    return f"{factor.kind}, words" if factor.words else factor.kind


def active_latents(result: Disentanglement) -> list[bool] | None:
    """Which latents vary, by the rule of the InfoMEC profile; None where nobody asked."""
    infomec = result.metrics.get(INFOMEC)
    return None if infomec is None else flags(infomec.details.get("active"), len(result.latents))


def flags(found: object, size: int) -> list[bool] | None:
    """Settings and details are free-form: only what is a list of so many truths is one."""
    fits = isinstance(found, list) and len(found) == size and all(isinstance(v, bool) for v in found)
    return list(found) if fits and isinstance(found, list) else None


def chance_words(result: Disentanglement) -> str:
    """What shuffled factors score, and whether there is anything at all to share."""
    infomec = result.metrics.get(INFOMEC)
    if infomec is None:
        return ""
    draws = result.settings.get("null")
    said = [f"{score_name(k)} {cell(n.mean)} (p {_p(n, draws)})" for k, n in infomec.nulls.items() if k in INFO]
    chance = f"Shuffled factors score {', '.join(said)}." if said else NO_CHANCE
    draws = result.settings.get("null")
    if any(by_chance(infomec.nulls[key], draws) for key in SHARES if key in infomec.nulls) and not hardly_anything(
        result
    ):
        chance += f" {SHARES_OF_NOTHING}"
    little = ""
    if hardly_anything(result):
        little = (
            f" The most that any latent tells of any factor is {number(largest(infomec.matrix), 2)} of it: InfoM and InfoC are "
            "shares of next to nothing here."
        )
    return f"{chance}{little}"


def cell(value: float) -> str:
    """A figure of a matrix."""
    return number(round(value, 2), 2) if known(value) else MISSING


def largest(matrix: FactorLatentMatrix | None) -> float:
    return max((v for row in (matrix.values if matrix else ()) for v in row if known(v)), default=math.nan)


def hardly_anything(result: Disentanglement) -> bool:
    """Whether no latent tells of any factor more than a tenth of it."""
    infomec = result.metrics.get(INFOMEC)
    return infomec is not None and infomec.matrix is not None and largest(infomec.matrix) < LITTLE


def leak_words(result: Disentanglement) -> str:
    """Whether a low InfoM is leakage that the estimator resolves or a mixture; empty where there is nothing to explain."""
    infom = _infom(result.metrics)
    if result.latent_kind == "discrete" or not known(infom) or infom >= STEPS[0] or hardly_anything(result):
        return ""
    noisy = [(point.scores.get("infom", math.nan), point.noise) for point in result.sweep if point.noise > 0]
    noisy = [(score, noise) for score, noise in noisy if known(score)]
    if not noisy:
        return (
            f"InfoM below {short(STEPS[0])} need not be a mixture: the estimator resolves a leak of 1 % in latents that are nearly "
            "free of noise, and counts it in full. A noise sweep (--noise-sweep) tells the two apart."
        )
    best, noise = max(noisy)
    with_noise = f"With noise of {short(100 * noise)} % of each latent's spread InfoM"
    if best - infom < LIFTED:
        return (
            f"{with_noise} is {number(best, 2)}, {number(infom, 2)} without: the factors are mixed by more than a leak of a few "
            "per cent."
        )
    rest = "not a mixture" if best >= STEPS[0] else "the rest is a mixture"
    much = "what is missing without it" if best >= STEPS[0] else "part of what is missing without it"
    return f"{with_noise} rises from {number(infom, 2)} to {number(best, 2)}: {much} is leakage smaller than that noise, {rest}."


def _infom(metrics: Mapping[str, Metric]) -> float:
    return metrics[INFOMEC].scores.get("infom", math.nan) if INFOMEC in metrics else math.nan


def best_latents(values: Sequence[Sequence[float]], active: Sequence[bool] | None) -> list[int | None]:
    """One latent for each factor, no latent twice, so that the sum is largest; inactive ones only if no other is left."""
    from scipy.optimize import linear_sum_assignment

    width = len(values[0]) if values else 0
    weights = [
        [
            (abs(v) if known(v) else 0.0) - (2.0 if active is not None and not active[j] else 0.0)
            for j, v in enumerate(row)
        ]
        for row in values
    ]
    rows, columns = linear_sum_assignment(weights, maximize=True) if width else ((), ())
    found: dict[int, int] = {int(i): int(j) for i, j in zip(rows, columns, strict=True)}
    return [found.get(i) for i in range(len(values))]


def diagonal_order(values: Sequence[Sequence[float]], active: Sequence[bool] | None) -> list[int]:
    """Latents so that the best of each factor stands on the diagonal; the others after them, those that tell most first."""
    chosen = [j for j in best_latents(values, active) if j is not None]
    strongest = [max((abs(row[j]) for row in values if known(row[j])), default=0.0) for j in range(len(values[0]))]
    rest = [j for j in range(len(strongest)) if j not in set(chosen)]
    return [*chosen, *sorted(rest, key=lambda j: (active is not None and not active[j], -strongest[j], j))]


def top_two(row: Sequence[float], active: Sequence[bool] | None = None) -> list[int]:
    """Places of the largest and the second largest number of a row, among the active ones."""
    places = (j for j, v in enumerate(row) if known(v) and (active is None or active[j]))
    return sorted(places, key=lambda j: (-abs(row[j]), j))[:2]


def factor_lines(result: Disentanglement) -> list[tuple[str, ...]]:
    """Every factor: kind, values, its best active latent and the next with what they tell."""
    values = nmi(result)
    active = active_latents(result)
    lines = []
    for i, factor in enumerate(result.factors):
        told: list[str] = []
        if values is not None:
            found = top_two(values[i], active)
            for place in range(2):
                j = found[place] if place < len(found) else None
                told += [MISSING, MISSING] if j is None else [one_line(result.latents[j]), number(values[i][j], 2)]
        classes = count(factor.classes) if factor.kind == "discrete" else MISSING
        lines.append((one_line(factor.name), kind_words(factor), classes, *told))
    return lines


def shared_words(result: Disentanglement) -> list[str]:
    """Latents that are the best of several factors, and inactive ones that tell more than every active one."""
    values = nmi(result)
    active = active_latents(result)
    owners: dict[int, dict[str, float]] = {}
    hidden = []
    for factor, row in zip(result.factors, values or (), strict=values is not None):
        name = display_name(factor.name)
        best, first = top_two(row, active)[:1], top_two(row)[:1]
        for j in best:
            owners.setdefault(j, {})[name] = row[j]
        if first != best and number(row[first[0]], 2) != number(row[best[0]] if best else 0.0, 2):
            told = f"{number(row[first[0]], 2)} of {name}"
            hidden.append(
                f"Not active, yet tells more than any active one: {display_name(result.latents[first[0]])}, {told}."
            )
    shared = []
    for j, told_of in owners.items():
        names = [name for name, told in told_of.items() if told >= max(told_of.values()) / 2 > 0]
        if len(names) > 1:
            shared.append(
                f"One latent for {len(names)} factors: {display_name(result.latents[j])} is the best of {listed(names)}."
            )
    return [*shared, *hidden]


def nmi(result: Disentanglement) -> Sequence[Sequence[float]] | None:
    """What each latent tells of each factor; None where it was not measured."""
    infomec = result.metrics.get(INFOMEC)
    found = infomec.matrix if infomec is not None else None
    return found.values if found is not None and fits(found, result) else None


def fits(matrix: FactorLatentMatrix, result: Disentanglement) -> bool:
    """Whether a matrix has a number for every factor and latent: a file can hold anything."""
    width = len(result.latents)
    return len(matrix.values) == len(result.factors) > 0 and all(len(row) == width > 0 for row in matrix.values)


def latent_lines(result: Disentanglement) -> list[tuple[str, str, str, str]]:
    """Every active latent: its column in the array, the share of its best factor, what it tells of; mixtures first."""
    values = nmi(result)
    active = active_latents(result)
    found = []
    for j, name in enumerate(result.latents if values is not None else ()):
        told = [(row[j], f.name) for row, f in zip(values or (), result.factors, strict=True) if known(row[j])]
        total = sum(value for value, _ in told)
        if total > 0 and (active is None or active[j]):
            share = max(told)[0] / total
            found.append(
                (share, (one_line(name), str(j), number(share, 2), _told_words(sorted(told, reverse=True), total)))
            )
    return [line for _, line in sorted(found, key=lambda one: one[0])]


def _told_words(told: Sequence[tuple[float, str]], total: float) -> str:
    """The factors that make up most of what a latent tells, with how much it tells of each."""
    named: list[str] = []
    sum_of_named = 0.0
    for value, name in told:
        if sum_of_named >= TOLD * total:
            break
        named.append(f"{display_name(name)} {number(value, 2)}")
        sum_of_named += value
    return f"tells of {listed(named)}" if len(named) == 1 else f"mixes {listed(named)}"


def place_words(result: Disentanglement) -> str:
    """How to find a latent in the array: names count from 1, arrays and the JSON from 0."""
    j = next((j for j, name in reversed(list(enumerate(result.latents))) if name == f"latent {j + 1}"), None)
    if j is None:
        return ""
    return f"Latents are counted from 1: {result.latents[j]} is column {j} of the array, and place {j} in the JSON."


def score_heads(metrics: Mapping[str, Metric]) -> tuple[str, ...]:
    """Heads over the figures of a score; intervals and nulls have columns only if there are any."""
    heads: tuple[str, ...] = ("value",)
    heads += ("95 % interval",) if any(m.intervals for m in metrics.values()) else ()
    return heads + (("shuffled, mean", "q95", "p") if any(m.nulls for m in metrics.values()) else ())


def score_lines(result: Disentanglement) -> list[tuple[str, str, tuple[str, ...]]]:
    """Every score: metric, score, its figures under `score_heads`."""
    heads = score_heads(result.metrics)
    lines = []
    for key, metric in result.metrics.items():
        for score, value in metric.scores.items():
            figures = [figure(value)]
            figures += [interval(metric.intervals.get(score))] if "95 % interval" in heads else []
            if "p" in heads:
                null = metric.nulls.get(score) if key not in WITHOUT_FACTORS else None
                figures += [MISSING] * 3 if null is None else _null_figures(null, result.settings.get("null"))
            lines.append((metric_name(key), score_label(key, score), tuple(figures)))
    return lines


def _null_figures(null: ScoreNull, draws: object) -> list[str]:
    return [figure(null.mean), figure(null.q95), _p(null, draws)]


def score_label(key: str, score: str) -> str:
    """A score in a table, marked where less is better."""
    return f"{score_name(score)} {LESS}" if key in WITHOUT_FACTORS else score_name(score)


def named_once(lines: Sequence[tuple[str, str, tuple[str, ...]]]) -> tuple[tuple[str, ...], ...]:
    """Rows of a table in which a metric is named in its first line only."""
    before = ("", *(metric for metric, _, _ in lines))
    return tuple(
        ("" if metric == last else metric, score, *figures)
        for last, (metric, score, figures) in zip(before, lines, strict=False)
    )


def noise_lines(result: Disentanglement) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Scores at each level of noise."""
    keys = list(dict.fromkeys(key for point in result.sweep for key in point.scores))
    heads = ("noise / spread", *map(score_name, keys))
    return heads, [
        (f"{short(100 * point.noise)} %", *(figure(point.scores.get(key)) for key in keys)) for point in result.sweep
    ]


def after_heads(result: Disentanglement) -> tuple[str, ...]:
    """Heads over the scores before and after ICA; one that did not converge is marked."""
    return ("before", *(f"{a.mode} ICA" if a.converged else f"{a.mode} ICA, {UNSETTLED}" for a in result.after))


def after_caveat(result: Disentanglement) -> str:
    """What to know before reading the scores after ICA; empty where every mode converged."""
    wrong = [a.mode for a in result.after if not a.converged]
    if not wrong:
        return ""
    stopped = "it stopped" if len(wrong) == 1 else "they stopped"
    other = (
        "" if any(a.mode == "whitened" for a in result.after) else " --resolve whitened has a stopping rule of its own."
    )
    return (
        f"{listed(wrong).capitalize()} ICA did NOT converge: below are the scores of where {stopped}, which another seed or a few "
        f"more steps may change.{other}"
    )


def after_lines(result: Disentanglement) -> list[tuple[str, str, tuple[str, ...]]]:
    """Scores before and after ICA with the change, under `after_heads`."""
    return [
        (
            metric_name(key),
            score_label(key, score),
            (figure(before), *(_change(before, a, key, score) for a in result.after)),
        )
        for key, metric in result.metrics.items()
        if any(key in a.metrics for a in result.after)
        for score, before in metric.scores.items()
    ]


def _change(before: float, after: AfterICA, key: str, score: str) -> str:
    value = after.metrics[key].scores.get(score, math.nan) if key in after.metrics else math.nan
    return f"{figure(value)} ({_difference(value - before)})" if known(value) and known(before) else figure(value)


def _difference(value: float) -> str:
    """With its sign and as many digits as it takes to see it."""
    size = abs(value)
    if size < UNSEEN:
        return "±0"
    said = number(value, 2 if size >= 0.005 else 3 if size >= 0.0005 else 4)
    return said if value < 0 else f"+{said}"


def infoe_words(result: Disentanglement, after: AfterICA) -> str:
    """What became of InfoE, which an invertible linear map cannot change."""
    before, since = after.infoe_converged
    if not (known(before) and known(since)):
        return "InfoE could not be compared: it is not defined before or after."
    moved = f"{number(before)} before, {number(since)} after"
    if not after.invertible:
        dropped = f"{count(after.n_components)} of {count(len(result.latents))} directions were kept"
        return f"InfoE may fall, since the step cannot be undone ({dropped}): {moved}."
    law = "An invertible linear map cannot change InfoE of a regression that has converged"
    if not after.infoe_agrees:
        return (
            f"{law}, yet it moved: {moved}. So the regression has not converged or the map is singular in floating point; do not "
            "read a change of InfoE as what ICA did."
        )
    told = f"{law}, and it did not: {moved}."
    own = [
        m[INFOMEC].scores.get("infoe", math.nan) if INFOMEC in m else math.nan for m in (result.metrics, after.metrics)
    ]
    if all(map(known, own)) and abs(own[1] - own[0]) > MOVED:
        told += (
            f" The profile's own InfoE went from {number(own[0])} to {number(own[1])}: its solver stops early, so that is the "
            "solver and not the representation."
        )
    return told


def ica_words(after: AfterICA) -> str:
    """How the ICA of one mode went."""
    state = "converged" if after.converged else "did NOT converge"
    return f"{MODES[after.mode]}; {state}, {counted(after.n_components, 'component')}."
