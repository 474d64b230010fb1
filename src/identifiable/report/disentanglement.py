"""What the page of `disentangle` says: `Disentanglement` to `Page`, a pure function of the saved result."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from identifiable.report.disentanglement_methods import (
    KINDS,
    MODES,
    SCALE_FREE,
    bibtex,
    how_to_read,
    metric_name,
    paragraphs,
    score_name,
    setting_words,
)
from identifiable.report.matrices import shade
from identifiable.report.page import (
    Block,
    Card,
    Column,
    Curve,
    Curves,
    Fold,
    Gauge,
    Heading,
    Page,
    Picture,
    Section,
    Table,
    Text,
    Tone,
)
from identifiable.report.record import alerts_section, page_with, reproduction, saved_form
from identifiable.report.wording import (
    MISSING,
    clip,
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
from identifiable.results import (
    AfterICA,
    Disentanglement,
    FactorLatentMatrix,
    Interval,
    Metric,
    ScoreNull,
)

GUIDE = (
    "InfoM is how much each latent keeps to one factor, InfoC how much each factor keeps to one latent, InfoE how much of the "
    "factors a linear model reads off; 1 is best. Read them with what chance scores, and InfoM with noise added."
)
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
LATENTS_SHOWN = 40  # columns of a heat map
WITHOUT_FACTORS = ("unsupervised",)  # shuffled factors leave them as they are; and less is better
NO_CHANCE = "No factors were shuffled, so nothing here says what chance would score; pure noise does not score 0. Ask with --null 100."
NAMED = (Column("metric", "text"), Column("score", "text"))

SHARES = ("infom", "infoc")
SHARES_OF_NOTHING = (
    "InfoM and InfoC are shares, and shares of the next to nothing that shuffled factors leave can be as large: alone they do "
    "not show that latents tell of factors; InfoE and the matrix below do."
)

Order = Sequence[int]


def disentanglement_page(result: Disentanglement) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    card = _card(saved)
    words = [chance_words(saved), leak_words(saved)]
    sections = [
        Section("verdict", "Verdict", (card, *(Text(text) for text in words if text))),
        alerts_section(saved, well=card.tone != "caution"),
        _who_tells(saved),
        _scores(saved),
        _noise(saved),
        _after(saved),
        how_to_read(saved),
        reproduction(saved, paragraphs(saved), bibtex(saved)),
    ]
    return page_with(
        saved,
        sections,
        title=f"{table_name(saved)}: which latent tells of which factor",
        subtitle="Does each latent keep to one factor and each factor to one latent, and is all of it there?",
        guide=GUIDE,
    )


# -- what the page and the command line both say


def table_name(result: Disentanglement) -> str:
    """The table of latents, by its name."""
    return display_name(result.inputs[0].name) if result.inputs else "latents"


def _names(keys: Sequence[str]) -> str:
    return listed(metric_name(key) for key in keys)


def sentence(result: Disentanglement) -> str:
    """The three scores of InfoMEC, and what they mean."""
    infomec = result.metrics.get(INFOMEC)
    if infomec is None:
        return f"{counted(len(result.metrics), 'metric')} of {size_words(result)}; InfoMEC is not among them."
    return f"{'; '.join(_said(infomec, key) for key in INFO)}."


def _said(metric: Metric, key: str) -> str:
    value = metric.scores.get(key, math.nan)
    if not known(value):
        return f"{score_name(key)} is not defined"
    bounds = metric.intervals.get(key)
    within = f" [{number(bounds[0], 2)}, {number(bounds[1], 2)}]" if bounds is not None else ""
    step = next((i for i, least in enumerate(STEPS) if value >= least), len(STEPS))
    return f"{score_name(key)} {number(value, 2)}{within}: {SAID[key][step]}"


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
    return " and ".join(f"{count(kinds.count(k))} {k}" for k in ("discrete", "continuous") if k in kinds)


def active_latents(result: Disentanglement) -> list[bool] | None:
    """Which latents vary, by the rule of the InfoMEC profile; None where nobody asked."""
    infomec = result.metrics.get(INFOMEC)
    return None if infomec is None else _flags(infomec.details.get("active"), len(result.latents))


def _flags(found: object, size: int) -> list[bool] | None:
    """Settings and details are free-form: only what is a list of so many truths is one."""
    fits = isinstance(found, list) and len(found) == size and all(isinstance(v, bool) for v in found)
    return list(found) if fits and isinstance(found, list) else None


def chance_words(result: Disentanglement) -> str:
    """What shuffled factors score, and whether there is anything at all to share."""
    infomec = result.metrics.get(INFOMEC)
    if infomec is None:
        return ""
    said = [_null_words(key, infomec.nulls[key]) for key in INFO if key in infomec.nulls]
    chance = f"Shuffled factors score {', '.join(said)}." if said else NO_CHANCE
    if any(infomec.nulls[key].p > LEVEL for key in SHARES if key in infomec.nulls) and not hardly_anything(result):
        chance += f" {SHARES_OF_NOTHING}"
    little = ""
    if hardly_anything(result):
        little = (
            f" The most that any latent tells of any factor is {number(largest(infomec.matrix), 2)} of it: InfoM and InfoC are "
            "shares of next to nothing here."
        )
    return f"{chance}{little}"


def _null_words(key: str, null: ScoreNull) -> str:
    return f"{score_name(key)} {_cell(null.mean)} (p {probability(null.p)})"


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
    values = _nmi(result)
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
        lines.append((one_line(factor.name), factor.kind, classes, *told))
    return lines


def shared_words(result: Disentanglement) -> list[str]:
    """Latents that are the best of several factors, and inactive ones that tell more than every active one."""
    values = _nmi(result)
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


def _nmi(result: Disentanglement) -> Sequence[Sequence[float]] | None:
    infomec = result.metrics.get(INFOMEC)
    fits = infomec is not None and infomec.matrix is not None and _fits(infomec.matrix, result)
    return infomec.matrix.values if fits and infomec is not None and infomec.matrix is not None else None


def score_heads(metrics: Mapping[str, Metric]) -> tuple[str, ...]:
    """Heads over the figures of a score; intervals and nulls have columns only if there are any."""
    heads: tuple[str, ...] = ("value",)
    heads += ("95 % interval",) if any(m.intervals for m in metrics.values()) else ()
    return heads + (("shuffled, mean", "q95", "p") if any(m.nulls for m in metrics.values()) else ())


def score_lines(metrics: Mapping[str, Metric]) -> list[tuple[str, str, tuple[str, ...]]]:
    """Every score: metric, score, its figures under `score_heads`."""
    heads = score_heads(metrics)
    lines = []
    for key, metric in metrics.items():
        for score, value in metric.scores.items():
            figures = [number(value)]
            figures += [interval(metric.intervals.get(score))] if "95 % interval" in heads else []
            if "p" in heads:
                null = metric.nulls.get(score) if key not in WITHOUT_FACTORS else None
                figures += [MISSING] * 3 if null is None else [number(null.mean), number(null.q95), probability(null.p)]
            lines.append((metric_name(key), score_name(score), tuple(figures)))
    return lines


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
        (f"{short(100 * point.noise)} %", *(number(point.scores.get(key)) for key in keys)) for point in result.sweep
    ]


def after_heads(result: Disentanglement) -> tuple[str, ...]:
    return ("before", *(f"{a.mode} ICA" for a in result.after))


def after_lines(result: Disentanglement) -> list[tuple[str, str, tuple[str, ...]]]:
    """Scores before and after ICA with the change, under `after_heads`."""
    return [
        (metric_name(key), score_name(score), (number(before), *(_change(before, a, key, score) for a in result.after)))
        for key, metric in result.metrics.items()
        if any(key in a.metrics for a in result.after)
        for score, before in metric.scores.items()
    ]


def _change(before: float, after: AfterICA, key: str, score: str) -> str:
    value = after.metrics[key].scores.get(score, math.nan) if key in after.metrics else math.nan
    if not (known(value) and known(before)):
        return number(value)
    return f"{number(value)} ({round(value - before, 2) + 0.0:+.2f})"  # + 0.0 makes of -0 a plain 0


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


# -- the parts of the page


def _card(result: Disentanglement) -> Card:
    infomec = result.metrics.get(INFOMEC)
    facts: list[tuple[str, str]] = []
    values: list[float] = []
    active = active_latents(result)
    if infomec is not None:
        for key in INFO:
            value = infomec.scores.get(key, math.nan)
            values.append(value)
            facts.append((score_name(key), number(value)))
        facts.append(("profile", one_line(str(infomec.settings.get("profile", MISSING)))))
    facts += [
        (
            "latents",
            count(len(result.latents)) if active is None else f"{count(len(active))}, {count(sum(active))} active",
        ),
        ("factors", factor_words(result)),
        ("rows n", count(result.n)),
    ]
    kind = "discrete codes" if result.latent_kind == "discrete" else "continuous latents"
    return Card(table_name(result), kind, sentence(result), _tone(infomec, values, result), tuple(facts))


def _tone(infomec: Metric | None, values: Sequence[float], result: Disentanglement) -> Tone:
    if infomec is None:
        return "plain"
    by_chance = any(infomec.nulls[key].p > LEVEL for key in INFO if key in infomec.nulls)
    if by_chance or hardly_anything(result) or not all(map(known, values)):
        return "caution"
    return "good" if min(values) >= STEPS[0] else "plain"


def _who_tells(result: Disentanglement) -> Section:
    """The heat map of NMI, the factors, and the matrices of other metrics folded."""
    blocks: list[Block] = []
    active = active_latents(result)
    infomec = result.metrics.get(INFOMEC)
    if infomec is not None and infomec.matrix is not None and _fits(infomec.matrix, result):
        order = diagonal_order(infomec.matrix.values, active)
        shown = order[:LATENTS_SHOWN]
        blocks.append(Text(_matrix_words(result, active, len(shown))))
        nmi = replace(infomec.matrix, what=f"NMI, {infomec.matrix.what}")
        blocks.append(_heat(result, nmi, shown, active, top=1.0))
        blocks += [Text(words) for words in shared_words(result)]
        if shown != sorted(shown):
            in_file = _heat(result, nmi, sorted(shown), active, top=1.0)
            blocks.append(Fold("The same with latents in the order of the file", (in_file,)))
    blocks.append(_factor_table(result))
    for keys, matrix in _other_matrices(result):
        order = diagonal_order(matrix.values, None)[:LATENTS_SHOWN]
        summary = f"{_names(keys)}: {one_line(matrix.what)}"
        blocks.append(Fold(summary, (_heat(result, matrix, order, active, top=max(largest(matrix), 0.0)),)))
    return Section("matrix", "Which latent tells of which factor", tuple(blocks))


def _fits(matrix: FactorLatentMatrix, result: Disentanglement) -> bool:
    """Whether a matrix has a number for every factor and latent: a file can hold anything."""
    width = len(result.latents)
    return len(matrix.values) == len(result.factors) > 0 and all(len(row) == width > 0 for row in matrix.values)


def _matrix_words(result: Disentanglement, active: Sequence[bool] | None, shown: int) -> str:
    width = len(result.latents)
    told = "Latents stand so that the one assigned to each factor is on the diagonal; the others follow, those that tell most first."
    if shown < width:
        told += f" Of {count(width)} latents {count(shown)} are shown; the JSON has all."
    if active is not None and not all(active):
        still = width - sum(active)
        told += (
            f" {counted(still, 'latent')} of {count(width)} ({'it' if still == 1 else 'they'} hardly "
            f"{'varies' if still == 1 else 'vary'}, by the rule of the profile) marked ○ {'is' if still == 1 else 'are'} left out of "
            "InfoM and InfoC."
        )
    return told


def _heat(
    result: Disentanglement, matrix: FactorLatentMatrix, order: Order, active: Sequence[bool] | None, *, top: float
) -> Table:
    """Factors down, latents across, coloured from 0 to `top`; the last line marks the active ones."""
    mixed = len({factor.kind for factor in result.factors}) > 1
    rows, shades = [], []
    for factor, values in zip(result.factors, matrix.values, strict=True):
        name = clip(one_line(factor.name), 24)
        rows.append((f"{name} ({factor.kind})" if mixed else name, *(_cell(values[j]) for j in order)))
        shades.append(tuple(shade(abs(values[j]), top) if known(values[j]) else None for j in order))
    if active is not None:
        rows.append(("active", *("●" if active[j] else "○" for j in order)))
        shades.append((None,) * len(order))
    labels = [_latent_label(result.latents[j]) for j in order]
    caption = f"{_capital(one_line(matrix.what))}; factors down, {result.latent_kind} latents across"
    return Table(caption, (Column("factor", "text"), *map(Column, labels)), tuple(rows), shades=tuple(shades))


def _latent_label(name: str) -> str:
    plain = re.fullmatch(r"(?:latent|component) (\d+)", name)
    return plain[1] if plain else clip(one_line(name), 10)


def _cell(value: float) -> str:
    return number(round(value, 2), 2) if known(value) else MISSING


def _factor_table(result: Disentanglement) -> Table:
    lines = factor_lines(result)
    heads = [Column("factor", "text"), Column("kind", "text"), Column("values")]
    if lines and len(lines[0]) > len(heads):
        heads += [Column("best latent", "text"), Column("NMI"), Column("next", "text"), Column("NMI")]
    return Table("Factors, and the two active latents that tell most of each", tuple(heads), tuple(lines))


def _other_matrices(result: Disentanglement) -> list[tuple[list[str], FactorLatentMatrix]]:
    """Matrices of the other metrics, with the metrics that share one together."""
    found: dict[FactorLatentMatrix, list[str]] = {}
    for key, metric in result.metrics.items():
        if key != INFOMEC and metric.matrix is not None and _fits(metric.matrix, result):
            found.setdefault(metric.matrix, []).append(key)
    return [(keys, matrix) for matrix, keys in found.items()]


def _scores(result: Disentanglement) -> Section:
    if not result.metrics:
        return Section("scores", "All scores", ())
    gauges: list[Picture | None] = [
        Gauge(value, "plain") if known(value) and key not in WITHOUT_FACTORS else None
        for key, metric in result.metrics.items()
        for value in metric.scores.values()
    ]
    caption = f"Scores of {result.latent_kind} latents; 1 is best where there is a bar"
    columns = (*NAMED, *map(Column, score_heads(result.metrics)))
    rows = named_once(score_lines(result.metrics))
    blocks: list[Block] = [Table(caption, columns, rows, pictures={len(NAMED): tuple(gauges)})]
    mixed = len({f.kind for f in result.factors}) > 1
    blocks += [Text(KINDS, note=True)] if mixed or result.latent_kind == "discrete" else []
    how = tuple((metric_name(key), setting_words(m.settings)) for key, m in result.metrics.items())
    blocks.append(Table("What defines each", (Column("metric", "text"), Column("settings", "text")), how))
    detailed = _by_factor(result)
    blocks += [Fold("By factor", (detailed,))] if detailed is not None else []
    return Section("scores", "All scores", tuple(blocks))


def _by_factor(result: Disentanglement) -> Table | None:
    """What metrics tell of single factors: lists of one number for each, under names that say so."""
    size = len(result.factors)
    columns = [
        (f"{metric_name(key)}: {one_line(name).removesuffix('_of_factor').replace('_', ' ')}", values)
        for key, metric in result.metrics.items()
        for name, values in metric.details.items()
        if name.endswith("_of_factor")
        and isinstance(values, list)
        and len(values) == size
        and all(map(_is_figure, values))
    ]
    if not columns:
        return None
    heads = (Column("what", "text"), *(Column(clip(one_line(f.name), 20)) for f in result.factors))
    return Table("One line for each figure", heads, tuple((name, *map(number, values)) for name, values in columns))


def _is_figure(value: object) -> bool:
    """Whole numbers are places of latents, and truths are no figures."""
    return value is None or isinstance(value, float)


def _noise(result: Disentanglement) -> Section:
    if not result.sweep:
        return Section("noise", "With noise added", ())
    heads, lines = noise_lines(result)
    blocks: list[Block] = [Text(SCALE_FREE)]
    curves = [
        Curve(score_name(key), points, style)
        for style, key in ((1, "infom"), (4, "infoe"), (2, "infoc"))
        if (points := _sweep_points(result, key))
    ]
    if curves:
        blocks.append(
            Curves(
                "InfoMEC as noise is added to the latents",
                "A line that rises with noise was held down by leakage smaller than it; one that falls loses what the noise hides.",
                "noise, % of each latent's spread",
                "score",
                tuple(curves),
                top=1.0,
            )
        )
    blocks.append(
        Table(
            "Scores with noise",
            tuple(Column(h, "text" if i == 0 else "number") for i, h in enumerate(heads)),
            tuple(lines),
        )
    )
    return Section("noise", "With noise added", tuple(blocks))


def _sweep_points(result: Disentanglement, key: str) -> tuple[Interval, ...]:
    return tuple((100 * p.noise, p.scores[key]) for p in result.sweep if known(p.scores.get(key)))


def _after(result: Disentanglement) -> Section:
    if not result.after:
        return Section("ica", "Before and after ICA", ())
    columns = (*NAMED, *map(Column, after_heads(result)))
    caption = "Scores before and after ICA, with the change"
    blocks: list[Block] = [Table(caption, columns, named_once(after_lines(result)))]
    for after in result.after:
        blocks += [
            Heading(f"{after.mode.capitalize()} ICA"),
            Text(_capital(ica_words(after))),
            Text(infoe_words(result, after)),
        ]
        matrix = after.metrics[INFOMEC].matrix if INFOMEC in after.metrics else None
        if matrix is not None:
            blocks += _after_heat(result, after, matrix)
    return Section("ica", "Before and after ICA", tuple(blocks))


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _after_heat(result: Disentanglement, after: AfterICA, matrix: FactorLatentMatrix) -> list[Block]:
    """The heat map of the components, folded."""
    width = len(matrix.values[0]) if matrix.values else 0
    resolved = replace(result, latents=tuple(f"component {j + 1}" for j in range(width)), latent_kind="continuous")
    if not _fits(matrix, resolved):
        return []
    active = _flags(after.metrics[INFOMEC].details.get("active"), width)
    table = _heat(resolved, matrix, diagonal_order(matrix.values, active)[:LATENTS_SHOWN], active, top=1.0)
    return [Fold(f"Which component tells of which factor, after {after.mode} ICA", (table,))]
