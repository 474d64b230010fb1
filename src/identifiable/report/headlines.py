"""What a result found, in one sentence: for its `repr`, its page and files that go beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from identifiable.report.answer import answer
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    display_name,
    estimate,
    listed,
    number,
    one_line,
    score,
    short,
    signed,
)
from identifiable.results import (
    Alignment,
    Attribution,
    Audit,
    Claim,
    Cleaning,
    Comparison,
    Disentanglement,
    Distortion,
    Extraction,
    Heads,
    JointResolution,
    Layers,
    Matches,
    Mechanisms,
    Mechanistic,
    Recommendation,
    Reproduction,
    Resolution,
    RoederFigure,
    ScreenEvaluation,
    Table1,
    Table2,
    Table3,
)


def headline(result: Any) -> str:
    """What this result found, in one line that can be printed; of a kind that has no headline here, what it is a result of."""
    said = next((said for kind, said in HEADLINES.items() if isinstance(result, kind)), None)
    return one_line(str(result.about) if said is None else said(result))


def _resolution(result: Resolution) -> str:
    components = counted(result.rank, "component")
    if all(c.stability is None for c in result.components):
        return f"{components}; reproducibility was not measured"
    return f"{count(len(result.identifiable))} of {components} are reproducible"


def _joint(result: JointResolution) -> str:
    """How many components all models have, and of how many of these the sign is open."""
    models, shared = len(result.models), result.shared
    names = listed(i.name for i in result.inputs)
    where = f"both {names}" if models == 2 else f"all {count(models)} models"
    unsigned = sum(not match.identifiable for match in shared)
    sign = f"; the sign of {count(unsigned)} is uncertain" if unsigned else ""
    return f"{count(len(shared))} of {counted(len(result.matches), 'component')} are found in {where}{sign}"


def _disentanglement(result: Disentanglement) -> str:
    """The three InfoMEC scores, after what voids them, or how many metrics there are."""
    found = result.metrics.get("infomec")
    size = f"{counted(len(result.latents), 'latent')}, {counted(len(result.factors), 'factor')}"
    if found is None:
        return f"{counted(len(result.metrics), 'metric')} of {size}"
    named = (("InfoM", "infom"), ("InfoE", "infoe"), ("InfoC", "infoc"))
    judged = [(name, found.scores[key]) for name, key in named if key not in found.by_definition()]
    shown = [f"{name} {score(value, 2)}" for name, value in judged if not math.isnan(value)]
    void = "".join(f"{alert.message} " for alert in dict.fromkeys(found.meaningless().values()))
    return f"{void}{', '.join(shown) or 'InfoMEC is undefined'} ({found.settings['profile']}; {size})"


def _distortion(result: Distortion) -> str:
    if not result.summary:
        return "the decoder has no finite derivative at any point"
    if math.isinf(result.largest):
        return "the decoder loses a direction, so 1 + L is infinite"
    seen = "these points"
    if result.undefined:
        seen = f"{result.n - result.undefined} of {counted(result.n, 'point')} ({result.undefined} have no derivative)"
    return f"1 + L is at most {result.largest:.4g} at {seen}, and {result.best_constant:.4g} after the best scale"


def _reproduction(result: Reproduction) -> str:
    """Whether latents come closer as the decoder comes closer to an isometry."""
    found = result.fit()
    kept = [run for run in result.runs if run.removed is None]
    if found.spearman is None or found.spearman_ci95 is None:
        if len({run.exact.mean for run in kept}) == 1:
            return "all decoders have the same constant, so how distance depends on it is unknown"
        return "too few seeds are left to test whether distance depends on the decoders' constant"
    low, high = found.spearman_ci95
    if low > 0:
        told = "latents of retrained models are closer where decoders are nearer to isometries, as Theorem 1 suggests"
    elif high < 0:
        told = "latents of retrained models are farther apart where decoders are nearer to isometries"
    else:
        told = "no clear relation between the decoders' constant and the distance of latents"
    seeds = counted(len({(run.digit, run.pair) for run in kept}), "seed")
    return f"{told}: Spearman {found.spearman:.2f} [{low:.2f}, {high:.2f}] over {counted(found.n, 'pair')} of {seeds}"


def _table1(result: Table1) -> str:
    """In how many lines the errors fall in the published order, in either protocol."""
    lines = len(result.lines)
    held_out, in_sample = (
        sum(getattr(line, name) == "agrees" for line in result.lines) for name in ("found_held_out", "found")
    )
    told = f"the published order (permutation > ICA > similarity > linear) holds held out in {count(held_out)} of {counted(lines, 'line')}"
    return f"{told}, in the paper's protocol in {count(in_sample)}"


def _table2(result: Table2) -> str:
    """Whether ICA lifts InfoM of the plain autoencoder."""
    found = result.lift()
    if found is None or math.isnan(found.difference.mean):
        return "no plain autoencoder passes the reconstruction filter, so the effect of ICA is unknown"
    low, high = found.difference.ci95
    moved = f"from {found.before.mean:.2f} to {found.after.mean:.2f}"
    if math.isnan(low):
        return f"ICA changes InfoM of the plain autoencoder by {found.difference.mean:+.2f}, {moved}, with one seed: no interval"
    verb, end = ("lifts", "") if low > 0 else ("lowers", "") if high < 0 else ("changes", ": no clear effect")
    over = f"over {counted(found.difference.n, 'seed')} on {', '.join(result.data)}"
    span = f"by {found.difference.mean:+.2f} [{low:+.2f}, {high:+.2f}], {moved}"
    return f"ICA {verb} InfoM of the plain autoencoder {span}, {over}{end}"


def _table3(result: Table3) -> str:
    low, high = result.gain_ci95
    where = "on a simulated screen" if result.simulated else f"on {result.inputs[0].name}"
    clear = "" if low > 0 or high < 0 else ": no clear effect"
    gain = f"{result.gain:+.3f} [{low:+.3f}, {high:+.3f}]"
    return f"ICA changes AUROC on held-out plates by {gain} against PCA, {where}{clear} ({result.evaluation.verdict})"


MEASURES = {
    "cca": "CCA",
    "cca_in_sample": "CCA in sample",
    "svcca": "SVCCA",
    "svcca_in_sample": "SVCCA in sample",
    "r2": "R²",
    "r2_heads": "R² from heads",
    "map_distance": "map distance",
}
VERDICTS = {"agrees": "agrees", "does_not": "does not", "cannot_tell": "cannot tell"}


def measure_words(measure: str, part: str) -> str:
    """'CCA (f)'."""
    return f"{MEASURES[measure]} ({one_line(part)})" if part else MEASURES[measure]


def claim_words(claim: Claim) -> str:
    """The direction that Roeder et al. state of a measure."""
    if claim.claim == "rises":
        return f"rises with {one_line(claim.axis)}"
    return {
        "above_untrained": "is above untrained models",
        "above_shuffled": "is above chance",
        "nearly": f"is above {MISSING if claim.first is None else short(claim.first)}",
    }[claim.claim]


def absent_words(result: RoederFigure, part: str) -> str:
    """Why there is no pair of a part."""
    models = [model for model in result.models if model.part == part]
    removed = sum(model.removed is not None for model in models)
    if not models:
        return f"{one_line(part)}: not measured in this run"
    return f"no pair of {one_line(part)} was left: {count(removed)} of {counted(len(models), 'model')} were removed"


def _roeder(result: RoederFigure) -> str:
    """How many of the paper's directions show, and the first of them with its interval."""
    stated = [claim for claim in result.claims if claim.source == "paper"]
    if not stated:
        return "the paper states no direction that could be tested here"
    counts = {found: sum(claim.found == found for claim in stated) for found in VERDICTS}
    told = f"this run agrees with {count(counts['agrees'])} of {counted(len(stated), 'statement')} of the paper"
    told += f", disagrees with {count(counts['does_not'])}" if counts["does_not"] else ""
    told += f", cannot tell about {count(counts['cannot_tell'])}" if counts["cannot_tell"] else ""
    first = next((claim for claim in stated if claim.pairs), None)
    if first is None:
        return f"{told}; {absent_words(result, stated[0].part)}"
    size = estimate(first.difference, first.difference_ci95, signed)
    what = f"{measure_words(first.measure, first.part)} {claim_words(first)}"
    return f"{told}; {what}: {size} over {counted(first.pairs, 'pair')}, {VERDICTS[first.found]}"


def _mechanistic(result: Mechanistic) -> str:
    """How many decoders show their slots, what the basis gains, and what it gains over ICA where slots are dependent."""
    right = f"{count(sum(model.right for model in result.models))} of {counted(len(result.models), 'decoder')}"
    gain = estimate(result.lift.mean, result.lift.ci95, signed)
    told = f"the slots of {right} are found from the Jacobians; the found basis changes the slot score by {gain}"
    if result.over_ica is None:
        return told
    beyond = estimate(result.over_ica.mean, result.over_ica.ci95, signed)
    return f"{told}; with dependent slots it differs from ICA with an oracle by {beyond}"


def _extraction(result: Extraction) -> str:
    """What was written, pooled how, and how many inputs were cut off."""
    nouns = {"text": "text", "tokens": "token sequence", "pictures": "picture", "arrays": "array"}
    pools = {"mean": "mean over tokens", "last": "last token", "cls": "class token", "patches": "mean over patches"}
    names = listed(one_line(layer.name) for layer in result.layers) if len(result.layers) <= 4 else ""
    layers = f"{counted(len(result.layers), 'layer')}{f' ({names})' if names else ''}"
    model = f"{'untrained ' if result.model.untrained is not None else ''}{display_name(result.model.name)}"
    widths = listed(count(width) for width in dict.fromkeys(layer.width for layer in result.layers))
    how = f" ({pools[result.pool]})" if result.pool is not None else ""
    cut = (
        f"; {counted(result.truncated, 'input')} cut off at {counted(result.limit or 0, 'token')}"
        if result.truncated
        else ""
    )
    return f"{layers} of {model}: one vector of {widths} numbers{how} for each of {counted(result.n, nouns[result.kind])}{cut}"


def _heads(result: Heads) -> str:
    """What voids the numbers, then the numbers."""
    swapped = "".join(f"{alert.message} " for alert in result.alerts if alert.code == "features_swapped")
    return f"{swapped}{result.text.message}"


EXACTLY = ("exact", "square", "nearly_more")  # reasons of a split up to rounding


def _mechanisms(result: Mechanisms) -> str:
    """How many factors, of which dimensions, and whether to rely on it."""
    dimensions = ", ".join(count(factor.dimension) for factor in result.factors)
    leak = result.leak[result.n_factors - 1] if len(result.leak) >= result.n_factors else math.nan
    exact = result.reason.code in EXACTLY or math.isnan(leak)
    outputs = "outputs that change from point to point" if result.moving else "disjoint outputs"
    if result.n_factors == 1:
        told = f"the latents form one factor (dimension {dimensions}): all move the same outputs"
    elif exact:
        told = f"{counted(result.n_factors, 'factor')} (dimensions {dimensions}) move {outputs}"
    else:
        nearly = outputs if result.moving else f"nearly {outputs}"
        told = f"{counted(result.n_factors, 'factor')} (dimensions {dimensions}) move {nearly} (leak {number(leak)})"
    return told if result.certain else f"{told}, but this is not certain"


def _judged(result: Audit | Recommendation | ScreenEvaluation | Cleaning) -> str:
    return f"{result.verdict}: {result.text}"


HEADLINES: dict[type, Callable[[Any], str]] = {
    Comparison: lambda result: answer(result.pairs[0] if len(result.pairs) <= 2 else result.weakest, result.alerts),
    Resolution: _resolution,
    JointResolution: _joint,
    Disentanglement: _disentanglement,
    Distortion: _distortion,
    Alignment: lambda result: str(result.text.message),
    Heads: _heads,
    Layers: lambda result: str(result.text.message),
    Matches: lambda result: str(result.text.message),
    Extraction: _extraction,
    Mechanisms: _mechanisms,
    Reproduction: _reproduction,
    Table1: _table1,
    Table2: _table2,
    Table3: _table3,
    RoederFigure: _roeder,
    Mechanistic: _mechanistic,
    Attribution: lambda result: str(result.text),
    Audit: _judged,
    ScreenEvaluation: _judged,
    Cleaning: _judged,
    Recommendation: _judged,
}
