"""The page of `deconfound evaluate`: which representation predicts perturbations on held-out plates, beside layout and chance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from identifiable.report.frame import framed, glossary, marks, section, shade, terms
from identifiable.report.page import (
    Block,
    Card,
    DotRow,
    Dots,
    Fold,
    Gauge,
    Page,
    Section,
    Table,
    Text,
    Tone,
    columns,
)
from identifiable.report.pages.conditions import (
    BLIND,
    GAIN,
    HELD_OUT,
    LIGHTGBM,
    ROTATIONS,
    Conditions,
    Protocol,
    layout_words,
    probe_words,
    protocol_name,
    rotation_words,
)
from identifiable.report.pages.screen import (
    CHANCE,
    NAME,
    NO_DIFFERENCE,
    design_section,
    long_table,
    screen_card,
    screen_name,
    size_words,
    skipped_section,
    some,
)
from identifiable.report.screen_names import REPRESENTATIONS, classifier_name, representation_name
from identifiable.report.words import (
    MISSING,
    clip,
    count,
    counted,
    duration,
    estimate,
    known,
    listed,
    named,
    number,
    one_line,
    percent,
    sentence_of,
    signed,
    yes_no,
)
from identifiable.results import ConditionScore, Difference, Fitted, Leakage, ScreenEvaluation
from identifiable.results.evaluation import ALL

VERDICTS: dict[str, tuple[str, Tone]] = {
    "ica-helps": ("ICA helps", "good"),
    "no-gain": ("no gain", "plain"),
    "ica-harms": ("ICA harms", "caution"),
    "nothing-to-find": ("nothing to find", "caution"),
    "separable": ("separable", "good"),
}
ANSWERS: dict[str, Tone] = {"yes": "good", "no": "caution", "unclear": "plain"}
PAPERS = {"ica": "hyvarinen1999", "tvn": "ando", "combat": "johnson", "harmony": "korsunsky"}
DRAWN = 24  # differences in one figure
AUROC = "AUROC on held-out plates: 0.5 is chance, 1 is perfect."
POSITION = "then at what position alone scores."
GUIDE = f"{AUROC} Look first at the paired difference ICA - PCA and whether its interval excludes 0, {POSITION}"
WITHOUT_ICA = f"{AUROC} Look first at the best representation and whether its interval excludes 0.5, {POSITION}"


def page(result: ScreenEvaluation) -> Page:
    return framed(
        result,
        title=f"{screen_name(result)}: what holds on held-out plates",
        subtitle="Does a representation separate perturbations from controls on held-out plates, and is it biology or layout?",
        guide=GUIDE if any(c.representation == "ica" for c in result.conditions) else WITHOUT_ICA,
        verdict=[_card(Conditions(result))],
        sections=sections(result),
        reading=reading(result),
        methods=methods(result),
        papers=papers(result),
    )


def sections(result: ScreenEvaluation) -> Iterator[Section]:
    """What an evaluation says between its verdict and how to read it; the page of Table 3 has it too."""
    scores = Conditions(result)
    yield section("advice", "Should I use ICA here?", _advice(result))
    yield section("scores", "AUROC on held-out plates", _scores(scores))
    yield section("differences", "Paired differences", _differences(scores))
    yield section("targets", "Each perturbation", _targets(scores))
    yield section("leakage", "Fitted to all wells or to training plates", _leakage(scores))
    yield section("sparsity", "Sparsity and concentration", _sparsity(scores))
    yield section("fitted", "What was fitted", _fitted(result))
    yield section("time", "Time", _times(result))
    yield skipped_section(result.skipped)
    yield design_section(result.design)


def reading(result: ScreenEvaluation) -> Iterator[Block]:
    shown = dict.fromkeys(c.representation for c in result.conditions)
    yield Text(glossary("evaluation")[""])
    yield terms("screen", "AUROC", "95 % interval")
    yield terms("evaluation", *(REPRESENTATIONS[key] for key in shown if key in REPRESENTATIONS))
    yield terms(
        "evaluation", "One space, three rotations", "Pooled and within plate", "Null", "Paired difference", "s.e."
    )
    yield terms("evaluation", "Fitted to all wells", "Hoyer sparsity", "Concentration")


def methods(result: ScreenEvaluation) -> Iterator[str]:
    words = glossary("evaluation")
    if result.conditions:
        classifiers = listed(dict.fromkeys(classifier_name(c.classifier) for c in result.conditions))
        representations = listed(dict.fromkeys(representation_name(c.representation) for c in result.conditions))
        nulls = f" and {counted(len(result.null_targets), 'null set')}" if result.null_targets else ""
        yield (
            f"{size_words(result.design)}. {counted(len(result.targets), 'perturbation')}{nulls} were classified against controls "
            f"by {classifiers} on {representations}, over {counted(max(c.folds for c in result.conditions), 'fold')} that all "
            f"share: {counted(len(result.scores), 'fit')}, each a row of scores in the JSON."
        )
    else:
        yield f"{size_words(result.design)}. No representation could be scored."
    yield f"{words['Sources']} Seed {result.provenance.seed}."


def papers(result: ScreenEvaluation) -> Iterator[str]:
    yield "nelson"
    yield from ["ke"] if any(c.classifier == LIGHTGBM for c in result.conditions) else []
    yield "hoyer"
    yield from (PAPERS[key] for key in dict.fromkeys(c.representation for c in result.conditions) if key in PAPERS)


def verdict_badge(verdict: str) -> tuple[str, Tone]:
    return VERDICTS.get(verdict, (one_line(verdict), "caution"))


# -- verdict and advice


def _card(scores: Conditions) -> Card:
    result = scores.result
    facts = [("judged", f"{count(len(result.targets))} of {count(result.of)}")] if result.of else []
    gain = scores.gain(*scores.protocols)
    facts += [("ICA - PCA, AUROC", gain)] if gain != MISSING else []
    facts += [("classifier", classifier_name(scores.main))] if scores.main else []
    for first in scores.protocols[:1]:
        named_first = ("base", *ROTATIONS)
        facts += [(_name(c), number(c.auroc)) for c in scores.shown(first) if c.representation in named_first]
        if (position := scores.at_best(first, "position")) is not None:
            by = "" if position.classifier == scores.main else f" ({classifier_name(position.classifier)})"
            facts += [(_name(position), number(position.auroc) + by)]
        facts += [("protocol", protocol_name(*first))]
    return screen_card(scores.result, *verdict_badge(scores.result.verdict), facts)


def _name(condition: ConditionScore) -> str:
    return representation_name(condition.representation)


def _advice(result: ScreenEvaluation) -> Iterator[Block]:
    advice = result.advice
    answer = advice.answer if advice.answer in ANSWERS else "unclear"
    shown = "not tested" if advice.sentence.code == "ica_missing" else answer
    yield Card("Use ICA on this screen", shown, sentence_of(advice.sentence.message), ANSWERS[answer], (), brief=True)
    yield from (
        Text(f"{i + 1}. {sentence_of(why.message)}", note=True, brief=True) for i, why in enumerate(advice.reasons)
    )


# -- scores


def _scores(scores: Conditions) -> Iterator[Block]:
    for i, protocol in enumerate(scores.protocols):
        blocks = (*_score_dots(scores, protocol), *_score_table(scores, protocol, brief=not i))
        if i and blocks:
            told = ", ".join(f"{_name(c)} {number(c.auroc)}" for c in scores.shown(protocol))
            yield Fold(f"{protocol_name(*protocol)}: {told or MISSING}", blocks, brief=True)
        else:
            yield from blocks
            below = any(c.representation in BLIND and c.ci95[1] < CHANCE[1] for c in scores.shown(protocol))
            notes = (
                layout_words(scores, protocol),
                glossary("evaluation")["below chance"] if below else "",
                rotation_words(scores, protocol),
                probe_words(scores, protocol),
            )
            yield from (Text(words, note=True, brief=True) for words in notes if words)
    why: dict[str, list[str]] = {}
    for c in scores.result.conditions:
        if c.skipped:
            target = "" if c.target == ALL else f", {one_line(c.target)}"
            why.setdefault(one_line(c.skipped), []).append(f"{_name(c)}, {classifier_name(c.classifier)}{target}")
    for reason, names in why.items():
        yield Text(f"Not scored ({reason}): {some(names)}.", note=True, brief=True)


def _score_dots(scores: Conditions, protocol: Protocol) -> Iterator[Block]:
    def row(main: ConditionScore) -> DotRow:
        probe = scores.at(protocol, main.representation, scores.probe)
        return DotRow(
            _name(main),
            number(main.auroc),
            marks(
                ("main", main.auroc),
                ("hollow", probe.auroc if probe else None),
                ("shuffle", main.auroc - main.excess),
                ("rotation", main.spread[0]),
                ("rotation", main.spread[1]),
            ),
            number(probe.auroc) if probe else "",
            main.ci95,
            main.representation == "ica",
            probe.ci95 if probe else None,
        )

    if shown := scores.shown(protocol):
        others = sorted({c.classifier for c in shown} - {scores.main})
        layout = "".join(f"; layout alone: {classifier_name(name)}" for name in others)
        yield Dots(
            f"AUROC. {protocol_name(*protocol)}",
            "Mean over perturbations.",
            "AUROC",
            tuple(map(row, shown)),
            (
                ("main", classifier_name(scores.main) + layout),
                ("hollow", f"{classifier_name(scores.probe)} (below)"),
                ("whisker", "95 % interval over plates"),
                ("shuffle", "null: controls scored as a perturbation"),
                ("rotation", "lowest and highest random rotation"),
            ),
            CHANCE,
            span=True,
        )


def _score_table(scores: Conditions, protocol: Protocol, *, brief: bool) -> Iterator[Block]:
    lines = tuple(
        (
            _name(c),
            classifier_name(c.classifier),
            estimate(c.auroc, c.ci95),
            estimate(c.within_plate, c.within_plate_ci95),
            estimate(c.excess, c.excess_ci95, signed),
            number(c.se),
            count(c.folds),
        )
        for c in scores.of(protocol)
        if c.target == ALL
    )
    heads = ("AUROC [95 %]", "within plate [95 %]", "over null [95 %]", "s.e.", "folds")
    if lines:
        yield Table(
            f"AUROC, mean over perturbations. {protocol_name(*protocol)}",
            columns("representation", "classifier", *heads, words=("classifier",), hidden=("s.e.", "folds")),
            lines,
            brief=brief,
        )


# -- differences


def _differences(scores: Conditions) -> Iterator[Block]:
    over_all = ((p, [d for d in scores.differences(p) if d.target == ALL]) for p in scores.protocols)
    for i, (protocol, found) in enumerate((p, found) for p, found in over_all if found):
        table = Table(
            f"AUROC of the first minus AUROC of the second. {protocol_name(*protocol)}",
            columns("difference", "classifier", "pooled [95 %]", "within plate [95 %]", words=("classifier",)),
            tuple(
                (
                    _pair(d),
                    classifier_name(d.classifier),
                    estimate(d.difference, d.ci95, signed),
                    estimate(d.within_plate, d.within_plate_ci95, signed),
                )
                for d in found
            ),
            brief=not i,
        )
        title = f"Paired differences, {classifier_name(scores.main)}"
        names = [_pair(d).replace("PCA + ", "").replace(" minus ", " - ") for d in found]  # as short as labels are
        blocks = (*_difference_dots(title, found, names, scores.main, strong=0), table)
        gain = scores.gain(protocol)
        summary = protocol_name(*protocol) + (f": ICA - PCA {gain}" if gain != MISSING else "")
        yield from [Fold(summary, blocks, brief=True)] if i else blocks


def _pair(found: Difference) -> str:
    return f"{representation_name(found.first)} minus {representation_name(found.second)}"


def _difference_dots(
    title: str, found: Sequence[Difference], names: Sequence[str], classifier: str, strong: int | None = None
) -> Iterator[Block]:
    """The differences of one classifier."""
    rows = tuple(
        DotRow(
            name,
            signed(d.difference),
            marks(("main", d.difference), ("hollow", d.within_plate)),
            interval=d.ci95,
            strong=i == strong,
            lower=d.within_plate_ci95,
        )
        for i, (name, d) in enumerate(zip(names, found, strict=True))
        if d.classifier == classifier and known(d.difference)
    )
    if rows:
        yield Dots(
            title,
            "To the right of 0, the first of the two is better.",
            "difference in AUROC",
            rows[:DRAWN],
            (("main", "pooled"), ("hollow", "within plate (below)"), ("whisker", "95 % interval over plates")),
            NO_DIFFERENCE,
            span=True,
        )


# -- perturbations


def _targets(scores: Conditions) -> Iterator[Block]:
    """Perturbations down, representations across; the deeper the colour, the further from chance."""
    result, main = scores.result, scores.main
    targets = list(dict.fromkeys((*result.targets, *result.null_targets)))
    for protocol in scores.protocols[:1]:
        scored = {c.representation for c in scores.of(protocol) if c.target != ALL and c.classifier == main}
        shown = [name for name in scores.representations(protocol) if name in scored]
        of_each = [d for d in scores.differences(protocol) if (d.first, d.second) == GAIN and d.target != ALL]
        gains = {d.target: estimate(d.difference, d.ci95, signed) for d in of_each if d.classifier == main}
        rows, shades = [], []
        for target in targets if shown else ():
            cells = [scores.at(protocol, name, main, target) for name in shown]
            values = [c.auroc if c is not None and known(c.auroc) else None for c in cells]
            null = target in result.null_targets
            name = (
                f"controls as a test {result.null_targets.index(target) + 1}" if null else clip(one_line(target), NAME)
            )
            gain = (gains.get(target, MISSING),) if gains else ()
            rows.append((name, *map(number, values), *gain))
            shades.append(
                (*(None if v is None else shade(max(0.0, v - 0.5), 0.5) for v in values), *(None for _ in gain))
            )
        heads = ("perturbation", *map(representation_name, shown), *(("ICA - PCA [95 %]",) if gains else ()))
        caption = f"AUROC of {classifier_name(main)}, coloured from 0.5 to 1. {protocol_name(*protocol)}"
        yield from long_table(Table(caption, columns(*heads), tuple(rows), shades=tuple(shades)), "perturbation")
        title = f"ICA - PCA of each perturbation, {classifier_name(main)}"
        dots = tuple(_difference_dots(title, of_each, [one_line(d.target) for d in of_each], main))
        more = f": the first {DRAWN}" if len(of_each) > DRAWN else ""
        yield from [Fold(title + more, dots)] if dots else []


# -- leakage, sparsity, fits, time


def _leakage(scores: Conditions) -> Iterator[Block]:
    def line(found: Leakage) -> tuple[str, ...]:
        fits = ((found.held_out, fit) for fit in ("all", "train"))
        return (
            representation_name(found.representation),
            classifier_name(found.classifier),
            named(HELD_OUT, found.held_out),
            *(number(scores.auroc(protocol, found.representation, found.classifier)) for protocol in fits),
            estimate(found.difference, found.ci95, signed),
        )

    heads = ("representation", "classifier", "held out", "all wells", "training plates", "gain [95 %]")
    if lines := tuple(map(line, scores.result.leakage)):
        caption = (
            "AUROC by what the representation was fitted to, and the gain from seeing the test plates without labels"
        )
        yield Table(caption, columns(*heads, words=("classifier", "held out")), lines, brief=True)


def _sparsity(scores: Conditions) -> Iterator[Block]:
    found = [c for p in scores.protocols[:1] for c in scores.of(p) if (c.classifier, c.target) == (scores.main, ALL)]
    split = [c for c in found if c.representation not in BLIND and (known(c.hoyer) or known(c.n_splits))]
    rows = tuple(
        DotRow(
            _name(c),
            number(c.hoyer),
            marks(("main", c.hoyer), ("shuffle", c.hoyer_null)),
            second=number(c.hoyer_null),
            strong=c.representation == "ica",
        )
        for c in split
        if known(c.hoyer)
    )
    if rows:
        yield Dots(
            "Hoyer sparsity of the splits",
            "Mean over perturbations and folds.",
            "Hoyer",
            rows,
            (("main", "Hoyer"), ("shuffle", "null: as many splits at random")),
        )
    if split:
        yield Table(
            f"Splits of {classifier_name(scores.main)}, mean over perturbations and folds",
            columns("representation", "splits", "Hoyer", "null", "Hoyer - null"),
            tuple(
                (
                    _name(c),
                    count(round(c.n_splits)) if known(c.n_splits) else MISSING,
                    *map(number, (c.hoyer, c.hoyer_null)),
                    signed(c.hoyer - c.hoyer_null),
                )
                for c in split
            ),
            brief=True,
        )
    concentrated = tuple(
        (
            _name(c),
            f"{number(part.percent, 0)} %",
            count(part.features),
            *map(number, (part.top, part.rest, part.whole)),
            *map(signed, (part.difference, part.gini, part.ratio, part.above_chance)),
        )
        for c in found
        for part in c.concentration
    )
    heads = ("top", "features", "AUROC top", "rest", "whole", "difference", "Gini", "ratio", "above chance")
    if concentrated:
        caption = "Concentration: AUROC from the features that were split most, and from the rest"
        yield Table(caption, columns("representation", *heads), concentrated)


def _fitted(result: ScreenEvaluation) -> Iterator[Block]:
    def line(f: Fitted) -> tuple[str, ...]:
        return (
            representation_name(f.representation),
            "all wells" if f.fit == "all" else "training plates",
            MISSING if f.fit == "all" else str(f.fold),
            count(f.width),
            yes_no(f.converged),
            MISSING if f.identifiable is None else f"{count(f.identifiable)} of {count(f.width)}",
            MISSING if f.gaussian is None else count(f.gaussian),
            one_line(f.note) or MISSING,
        )

    heads = ("representation", "fitted to", "fold", "width", "converged", "reproducible", "Gaussian", "note")
    shown = columns(*heads, words=("fitted to", "converged", "note"))
    caption = "Reproducible: components that a refit finds again"
    yield from long_table(Table(caption, shown, tuple(map(line, result.fitted))), "fit")


def _stage(stage: str) -> str:
    """'LightGBM, rotations'."""
    first, comma, rest = one_line(stage).partition(", ")
    return classifier_name(first) + comma + rest


def _times(result: ScreenEvaluation) -> Iterator[Block]:
    timed = sorted((t for t in result.times if known(t.seconds)), key=lambda t: -t.seconds)
    whole = sum(t.seconds for t in timed)
    if whole <= 0:
        return
    kept = sum(t.kept for t in result.times)
    again = f" {count(kept)} units were read from an earlier run." if kept else ""
    longest = f"{percent(timed[0].seconds / whole)} of it for {_stage(timed[0].stage)}"
    yield Text(f"Wall clock: {duration(whole)} in total, {longest}.{again}", brief=True)
    yield Table(
        "Wall clock by stage",
        columns("stage", "time", "share", "units", "read again"),
        tuple(
            (
                _stage(t.stage),
                duration(t.seconds),
                percent(t.seconds / whole),
                count(t.units),
                count(t.kept) if t.kept else MISSING,
            )
            for t in timed
        ),
        pictures={2: tuple(Gauge(t.seconds / whole, "plain") for t in timed)},
    )
