"""The page of `disentangle`: which latent carries which factor, every score beside chance, noise, before and after ICA."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from identifiable.report.frame import framed, glossary, section, terms
from identifiable.report.page import (
    Block,
    Card,
    Cloud,
    Curve,
    Curves,
    Fold,
    Gauge,
    Page,
    Table,
    Text,
    Tone,
    columns,
)
from identifiable.report.pages.latents import (
    INFOMEC,
    active_latents,
    cell,
    component_blocks,
    fits,
    folded,
    matrix_blocks,
)
from identifiable.report.words import (
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
    score,
    setting,
    short,
)
from identifiable.results import AfterICA, Alert, Disentanglement, FactorLatentMatrix, Metric, ScoreNull

GUIDE = (
    "InfoM is how far each latent carries one factor only, InfoC how far each factor is in one latent only, InfoE how much of "
    "the factors a linear model recovers; 1 is best. Compare them with the scores of shuffled factors, and InfoM with noise added."
)
METRICS = {  # name, and the papers it is from; `glossary/disentanglement.md` has its meaning under its name
    "infomec": ("InfoMEC", "hsu", "ross"),
    "dci": ("DCI", "eastwood"),
    "mig": ("MIG", "chen"),
    "mig_sup": ("MIG-sup", "li"),
    "jemmig": ("JEMMIG", "do"),
    "dcimig": ("DCIMIG", "sepliarskaia"),
    "modularity": ("Modularity", "ridgeway"),
    "explicitness": ("Explicitness", "ridgeway"),
    "sap": ("SAP", "kumar"),
    "irs": ("IRS", "suter"),
    "mcc": ("MCC, Pearson", "hyvarinen2016"),
    "mcc_spearman": ("MCC, Spearman", "hyvarinen2016"),
    "mcc_linear": ("MCC after a linear map", "hyvarinen2016"),
    "r2": ("R², linear",),
    "r2_kernel": ("R², kernel",),
    "betavae": ("BetaVAE score", "higgins"),
    "factorvae": ("FactorVAE score", "kim"),
    "unsupervised": ("Unsupervised", "locatello"),
}
SCORES = {
    "infom": "InfoM",
    "infoe": "InfoE",
    "infoc": "InfoC",
    "informativeness_test": "informativeness, held out",
    "informativeness_train": "informativeness, fitted rows",
    "explicitness": "area, held out",
    "explicitness_train": "area, fitted rows",
    "wasserstein_correlation": "Wasserstein correlation",
    "wasserstein_correlation_normalised": "Wasserstein, normalised",
}
MODES = {
    "centred": "centred, without whitening (what the paper wants)",
    "literal": "FastICA(whiten=False) as it is, which neither centres nor whitens (what the paper calls)",
    "whitened": "whitened by rank, then rotated (ours)",
}
INFO, SHARES = ("infom", "infoe", "infoc"), ("infom", "infoc")
WITHOUT_FACTORS = ("unsupervised",)  # shuffled factors leave them as they are; and less is better
# What a score means, from 0.9, 0.6 and 0.3 on, and below. The steps are ours.
STEPS = (0.9, 0.6, 0.3)
SAID = {
    "infom": (
        "a latent carries almost only one factor",
        "a latent carries mainly one factor",
        "a latent carries several factors",
        "each latent carries similar information about every factor",
    ),
    "infoe": (
        "a linear model predicts the factors almost fully",
        "a linear model predicts the factors mostly",
        "a linear model predicts the factors in part",
        "a linear model predicts little of the factors",
    ),
    "infoc": (
        "a factor is almost only in one latent",
        "a factor is mainly in one latent",
        "a factor is spread over several latents",
        "a factor is spread nearly evenly over the latents",
    ),
}
NOTHING = {"infoe": "a linear model predicts nothing of the factors"}  # where a score rounds to 0.00
LIFTED = 0.1  # gain in InfoM under noise from which on leakage is said to be the reason
MOVED = 0.01  # change of the profile's own InfoE from which on it is explained
LEVEL = 0.05  # of p
UNSEEN = 5e-5  # change of a score below which none is shown
ROUNDING = 1e-12  # of a score: below it is 0 but for rounding
BY_CHANCE = "shuffled factors score as high"
UNSETTLED = "not converged"
LESS = "↓"  # marks scores of which less is better


def page(result: Disentanglement) -> Page:
    words = glossary("disentanglement")
    explained = (METRICS[key][0] for key in result.metrics if key in METRICS)
    return framed(
        result,
        title=f"{_table_name(result)}: which latent carries which factor",
        subtitle="Does each latent carry one factor, is each factor in one latent, and is all of it there?",
        guide=GUIDE,
        verdict=_verdict(result),
        sections=[
            section("matrix", "Which latent carries which factor", _matrices(result)),
            section("scores", "All scores", _scores(result) if result.metrics else ()),
            section("noise", "With noise added", _noise(result) if result.sweep else ()),
            section("ica", "Before and after ICA", _after(result) if result.after else ()),
        ],
        reading=(
            Text(words[""]),
            terms("disentanglement", *explained, "Active", "Chance", "Discrete and continuous"),
        ),
        methods=_methods(result),
        papers=_papers(result),
    )


# -- names and numbers


def _table_name(result: Disentanglement) -> str:
    return display_name(result.inputs[0].name) if result.inputs else "latents"


def metric_name(key: str) -> str:
    return METRICS[key][0] if key in METRICS else one_line(key).replace("_", " ")


def _score_name(key: str) -> str:
    return SCORES.get(key, one_line(key).replace("_", " "))


def _score_label(key: str, metric: Metric, name: str) -> str:
    """A line of a table: the metric, and which of its scores unless it has only one; marked where less is better."""
    if key in WITHOUT_FACTORS:
        return f"{metric_name(key)}, {_score_name(name)} {LESS}"
    return metric_name(key) if len(metric.scores) == 1 else f"{metric_name(key)}, {_score_name(name)}"


def _score(value: float | None, decimals: int = 3) -> str:
    """A score: 1.6e-16 is 0 but for rounding."""
    return number(0.0 if value is not None and abs(value) < ROUNDING else value, decimals)


def _spread(noise: float) -> str:
    """Noise in per cent of each latent's spread."""
    return f"{short(100 * noise)} %" if known(noise) else MISSING


def _kinds(result: Disentanglement) -> str:
    kinds = [factor.kind for factor in result.factors]
    words = sum(factor.words for factor in result.factors)
    told = " and ".join(f"{count(kinds.count(k))} {k}" for k in ("discrete", "continuous") if k in kinds)
    return f"{told}, {count(words)} of words" if words else told


def _meaningless(result: Disentanglement) -> Mapping[str, Alert]:
    """Scores of InfoMEC that cannot be judged here."""
    return result.metrics[INFOMEC].meaningless() if INFOMEC in result.metrics else {}


def _at_floor(null: ScoreNull, draws: object) -> bool:
    """Whether p is the least that so many shuffles can give."""
    return isinstance(draws, int) and draws > 0 and known(null.p) and null.p <= 1.001 / (draws + 1)


def _by_chance(metric: Metric, key: str, draws: object) -> bool:
    """Whether shuffled factors score as high too often; a p that is not defined, or that could not be less, says nothing."""
    null = metric.nulls.get(key)
    return null is not None and known(null.p) and null.p > LEVEL and not _at_floor(null, draws)


def _p(null: ScoreNull, draws: object) -> str:
    return f"≤ {probability(null.p)}" if _at_floor(null, draws) and null.p >= 0.001 else probability(null.p)


# -- the verdict


def _verdict(result: Disentanglement) -> Iterator[Block]:
    yield _card(result)
    for words in (_chance(result), _leak(result)):
        if words:
            yield Text(words, note=True, brief=True)


def _card(result: Disentanglement) -> Card:
    infomec, draws = result.metrics.get(INFOMEC), result.settings.get("null")
    active = active_latents(infomec, len(result.latents))
    latents = count(len(result.latents)) + (f", {count(sum(active))} active" if active is not None else "")
    facts = [("latents", latents), ("factors", _kinds(result)), ("rows n", count(result.n))]
    tone: Tone = "plain"
    if infomec is not None:
        values = {key: infomec.scores.get(key, math.nan) for key in INFO}
        profile = one_line(str(infomec.settings.get("profile", MISSING)))
        facts = [*((_score_name(k), _score(v)) for k, v in values.items()), ("profile", profile), *facts]
        chance = any(_by_chance(infomec, key, draws) for key in INFO)
        if chance or _meaningless(result) or not all(map(known, values.values())):
            tone = "caution"
        elif min(values.values()) >= STEPS[0]:
            tone = "good"
    kind = "discrete codes" if result.latent_kind == "discrete" else "continuous latents"
    return Card(_table_name(result), kind, _sentence(result), tone, tuple(facts), brief=True)


def _sentence(result: Disentanglement) -> str:
    """The three scores of InfoMEC, and what they mean."""
    infomec, draws = result.metrics.get(INFOMEC), result.settings.get("null")
    if infomec is not None:
        void = "".join(f"{alert.message} " for alert in dict.fromkeys(infomec.meaningless().values()))
        return f"{void}{'; '.join(_said(infomec, key, draws) for key in INFO if key not in infomec.by_definition())}."
    reached = [
        metric_name(key) for key, m in result.metrics.items() if any(_by_chance(m, name, draws) for name in m.nulls)
    ]
    scored = f" {listed(reached)}: {BY_CHANCE}." if reached else ""
    return f"{counted(len(result.metrics), 'metric')}; InfoMEC is not among them.{scored}"


def _said(infomec: Metric, key: str, draws: object) -> str:
    value, bounds = infomec.scores.get(key, math.nan), infomec.intervals.get(key)
    if not known(value):
        return f"{_score_name(key)} is undefined"
    within = f" [{number(bounds[0], 2)}, {number(bounds[1], 2)}]" if bounds is not None else ""
    step = next((i for i, least in enumerate(STEPS) if value >= least), len(STEPS))
    joined = "and" if step == len(STEPS) else "but"
    chance = f", {joined} {BY_CHANCE}" if _by_chance(infomec, key, draws) else ""
    shown = score(value, 2)
    told = NOTHING.get(key, SAID[key][step]) if shown == score(0.0, 2) else SAID[key][step]
    meant = "" if key in infomec.meaningless() else f": {told}"
    return f"{_score_name(key)} {shown}{within}{meant}{chance}"


def _chance(result: Disentanglement) -> str:
    """What shuffled factors score."""
    infomec, draws, words = result.metrics.get(INFOMEC), result.settings.get("null"), glossary("disentanglement")
    if infomec is None:
        return ""
    nulls = [f"{_score_name(k)} {cell(n.mean)} (p {_p(n, draws)})" for k, n in infomec.nulls.items() if k in INFO]
    told = f"Shuffled factors score {', '.join(nulls)}." if nulls else words["No shuffles"]
    if any(_by_chance(infomec, key, draws) for key in SHARES):
        told += f" {words['Chance in InfoM and InfoC']}"
    return told


def _leak(result: Disentanglement) -> str:
    """Whether a low InfoM is leakage that the estimator resolves or a mixture; empty where there is nothing to explain."""
    infom = result.metrics[INFOMEC].scores.get("infom", math.nan) if INFOMEC in result.metrics else math.nan
    if result.latent_kind == "discrete" or not known(infom) or infom >= STEPS[0] or "infom" in _meaningless(result):
        return ""
    noisy = [(point.scores.get("infom", math.nan), point.noise) for point in result.sweep if point.noise > 0]
    best, noise = max(((score, noise) for score, noise in noisy if known(score)), default=(math.nan, math.nan))
    if not known(best):
        return glossary("disentanglement")["Leak or mixture"].format(limit=short(STEPS[0]))
    moved = f"from {number(infom, 2)} to {number(best, 2)} with noise of {_spread(noise)} of each latent's spread"
    if best - infom < LIFTED:
        return f"InfoM goes {moved}: the factors are mixed by more than a leak of a few per cent."
    part = "The loss without noise is leakage" if best >= STEPS[0] else "Part of the loss without noise is leakage"
    rest = "not a mixture" if best >= STEPS[0] else "the rest is a mixture"
    return f"InfoM rises {moved}. {part} smaller than that noise, {rest}."


# -- the matrices and scores


def _matrices(result: Disentanglement) -> Iterator[Block]:
    """That of NMI, and those of the other metrics folded; metrics that share one are named together."""
    yield from matrix_blocks(result)
    shared: dict[FactorLatentMatrix, list[str]] = {}
    for key, metric in result.metrics.items():
        if key != INFOMEC and metric.matrix is not None and fits(metric.matrix, result):
            shared.setdefault(metric.matrix, []).append(metric_name(key))
    for matrix, names in shared.items():
        yield folded(result, matrix, f"{listed(names)}: {one_line(matrix.what)}")


def _scores(result: Disentanglement) -> Iterator[Block]:
    metrics, draws = result.metrics, result.settings.get("null")
    bounded, shuffled = (any(getattr(m, part) for m in metrics.values()) for part in ("intervals", "nulls"))
    found = [(key, name, value) for key, metric in metrics.items() for name, value in metric.scores.items()]

    def line(key: str, name: str, value: float) -> tuple[str, ...]:
        null = None if key in WITHOUT_FACTORS else metrics[key].nulls.get(name)
        chance = [MISSING] * 3 if null is None else [_score(null.mean), _score(null.q95), _p(null, draws)]
        within = [interval(metrics[key].intervals.get(name))] if bounded else []
        return (_score_label(key, metrics[key], name), _score(value), *within, *(chance if shuffled else []))

    heads = [*(["95 % interval"] if bounded else []), *(["shuffled, mean", "q95", "p"] if shuffled else [])]
    gauges = (Gauge(v, "plain") if known(v) and key not in WITHOUT_FACTORS else None for key, _, v in found)
    yield Table(
        f"Scores of {result.latent_kind} latents; 1 is best, but where marked {LESS} less is better",
        columns("score", "value", *heads),
        tuple(line(*one) for one in found),
        pictures={1: tuple(gauges)},
        brief=True,
        brief_rows=60,
    )
    notes = [f"95 % intervals are from {_splits(result)} of the rows."] if bounded else []
    if isinstance(draws, int) and any(_at_floor(null, draws) for m in metrics.values() for null in m.nulls.values()):
        least = probability(1 / (draws + 1))
        notes.append(f"{counted(draws, 'shuffle')} cannot give a p below {least}; more of them could.")
    if notes:
        yield Text(" ".join(notes), note=True, brief=True)
    if len({f.kind for f in result.factors}) > 1 or result.latent_kind == "discrete":
        yield Text(glossary("disentanglement")["Discrete and continuous"], note=True)
    how = tuple((metric_name(key), _settings(m.settings)) for key, m in metrics.items())
    yield Table("What defines each", columns("metric", "settings", words=("settings",)), how)
    yield from _by_factor(result)


def _splits(result: Disentanglement) -> str:
    draws = result.settings.get("bootstrap")
    return f"{count(draws)} random splits" if isinstance(draws, int) else "random splits"


def _settings(settings: Mapping[str, Any]) -> str:
    """Settings as 'bins 20; predictor forest'."""

    def said(value: Any) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int):
            return count(value)
        return short(value) if isinstance(value, float) else setting(value)

    return "; ".join(f"{one_line(k).replace('_', ' ')} {said(v)}" for k, v in settings.items()) or MISSING


def _by_factor(result: Disentanglement) -> Iterator[Block]:
    """Scores of single factors: details with one number for each, under names that say so; whole numbers are places."""
    lines = [
        (f"{metric_name(key)}: {one_line(name).removesuffix('_of_factor').replace('_', ' ')}", *map(_score, values))
        for key, metric in result.metrics.items()
        for name, values in metric.details.items()
        if name.endswith("_of_factor")
        and isinstance(values, list)
        and len(values) == len(result.factors)
        and all(value is None or isinstance(value, float) for value in values)
    ]
    if lines:
        heads = columns("score", *(clip(one_line(f.name), 20) for f in result.factors))
        yield Fold("By factor", (Table("Scores by factor", heads, tuple(lines)),))


# -- noise


def _noise(result: Disentanglement) -> Iterator[Block]:
    yield Text(glossary("disentanglement")["InfoM and noise"])
    swept = [point for point in result.sweep if known(point.noise)]
    curves = tuple(
        Curve(_score_name(key), points, style, dotted=False)
        for style, key in ((1, "infom"), (4, "infoe"), (2, "infoc"))
        if (points := tuple((100 * p.noise, p.scores[key]) for p in swept if known(p.scores.get(key))))
    )
    if curves:
        yield Curves(
            "InfoMEC as noise is added to the latents",
            "A score that rises with noise was lowered by leakage smaller than the noise; one that falls loses what the noise hides.",
            "noise, % of each latent's spread",
            "score",
            curves,
            top=1.0,
            clouds=(Cloud("measured", tuple(point for curve in curves for point in curve.points), "main"),),
        )
    keys = list(dict.fromkeys(key for point in result.sweep for key in point.scores))
    yield Table(
        "Scores with noise",
        columns("noise / spread", *map(_score_name, keys)),
        tuple((_spread(p.noise), *(_score(p.scores.get(key)) for key in keys)) for p in result.sweep),
        brief=True,
    )


# -- before and after ICA


def _after(result: Disentanglement) -> Iterator[Block]:
    if stopped := [after.mode for after in result.after if not after.converged]:
        other = "" if any(after.mode == "whitened" for after in result.after) else " Or use --resolve whitened."
        yield Text(
            f"{listed(stopped).capitalize()} ICA did NOT converge. Another seed or a few more steps may change these scores.{other}",
            note=True,
            brief=True,
        )
    yield Table(
        "Scores before and after ICA, with the change",
        columns("score", "before", *(a.mode if a.converged else f"{a.mode}, {UNSETTLED}" for a in result.after)),
        tuple(
            (
                _score_label(key, metric, name),
                _score(before),
                *(_change(before, after.metrics.get(key), name) for after in result.after),
            )
            for key, metric in result.metrics.items()
            if any(key in after.metrics for after in result.after)
            for name, before in metric.scores.items()
        ),
        brief=True,
        brief_rows=60,
    )
    yield Text(glossary("disentanglement")["InfoE and ICA"], note=True, brief=True)
    for after in result.after:
        state = "converged" if after.converged else "did NOT converge"
        how = f"{MODES[after.mode]}; {state}, {counted(after.n_components, 'component')}"
        yield Text(f"{after.mode.capitalize()} ICA: {how}. {_infoe(result, after)}", note=True, brief=True)
        yield from component_blocks(result, after)


def _change(before: float, after: Metric | None, name: str) -> str:
    """The score after ICA and its change, with as many digits as it takes to see it."""
    value = math.nan if after is None else after.scores.get(name, math.nan)
    if not (known(value) and known(before)):
        return _score(value)
    size = abs(value - before)
    said = number(value - before, 2 if size >= 0.005 else 3 if size >= 0.0005 else 4)
    return f"{_score(value)} ({'±0' if size < UNSEEN else said if value < before else f'+{said}'})"


def _infoe(result: Disentanglement, after: AfterICA) -> str:
    """What became of InfoE, which an invertible linear map cannot change."""
    before, since = after.infoe_converged
    if not (known(before) and known(since)):
        return "InfoE is undefined before or after."
    moved = f"{number(before)} before, {number(since)} after"
    if not after.invertible:
        kept = f"{count(after.n_components)} of {count(len(result.latents))} directions were kept"
        return f"InfoE may fall because this step is not invertible ({kept}): {moved}."
    if not after.infoe_agrees:
        return f"InfoE moved: {moved}. The regression has not converged, or the map is singular in floating point."
    told = f"InfoE is unchanged, as expected: {moved}."
    own = [m[INFOMEC].scores.get("infoe", math.nan) for m in (result.metrics, after.metrics) if INFOMEC in m]
    if len(own) == 2 and abs(own[1] - own[0]) > MOVED:
        ends = " to ".join(map(number, own))
        told += f" The profile's own InfoE went from {ends} because its solver stops early."
    return told


# -- methods


def _methods(result: Disentanglement) -> Iterator[str]:
    words = glossary("disentanglement")
    defined = "; ".join(f"{metric_name(key)}: {_settings(m.settings)}" for key, m in result.metrics.items())
    yield (
        f"{counted(len(result.latents), 'latent')} ({result.latent_kind}) were compared with "
        f"{counted(len(result.factors), 'factor')} ({_kinds(result)}) on {counted(result.n, 'row')}. {defined}."
    )
    if any(m.intervals for m in result.metrics.values()):
        yield words["Intervals"].format(splits=_splits(result))
    if any(m.nulls for m in result.metrics.values()):
        draws = result.settings.get("null")
        yield words["Shuffles"].format(times=f" {count(draws)} times" if isinstance(draws, int) else "")
    if result.sweep:
        levels = listed(_spread(point.noise) for point in result.sweep)
        yield f"Noise sweep: InfoMEC with Gaussian noise of {levels} of each latent's standard deviation added."
    if result.after:
        yield f"ICA was fitted to the latents alone, {listed(MODES[a.mode] for a in result.after)}, and scored as before."
    yield (
        f"Implements {listed(map(metric_name, result.metrics)) or 'no metric'} after the papers below. Ours: intervals from "
        f"halves, shuffled factors, the noise sweep, the InfoE check. Seed {result.provenance.seed}."
    )


def _papers(result: Disentanglement) -> Sequence[str]:
    """The papers whose metrics were computed."""
    papers = [paper for key in result.metrics if key in METRICS for paper in METRICS[key][1:]]
    ica = ["nelson", "hyvarinen1999"] if result.after else []
    return list(dict.fromkeys([*(papers or ["hsu"]), *ica]))
