"""What the page of `deconfound evaluate` says: `ScreenEvaluation` to `Page`, a pure function of the saved result."""

from __future__ import annotations

from collections.abc import Sequence

from identifiable.report.frame import alerts_section, page_with, reproduction, saved_form, shade
from identifiable.report.page import (
    Block,
    Card,
    Column,
    DotRow,
    Dots,
    Fold,
    Gauge,
    LegendKind,
    Page,
    Section,
    Table,
    Text,
    Tone,
)
from identifiable.report.render.figures import drawn_marks
from identifiable.report.screen_evaluation_reading import (
    CONCENTRATION_HEADS,
    DIFFERENCE_HEADS,
    FITTED_HEADS,
    LEAKAGE_HEADS,
    SCORE_HEADS,
    SPARSITY_HEADS,
    TIME_HEADS,
    Board,
    Protocol,
    change,
    concentration_lines,
    difference_line,
    differences,
    fitted_lines,
    gain_words,
    layout_words,
    leakage_lines,
    null_auroc,
    pair_name,
    probe_words,
    rotation_words,
    score_lines,
    short_pair,
    sparse_conditions,
    sparsity_lines,
    target_names,
    time_lines,
    time_words,
    unscored_words,
)
from identifiable.report.screen_methods import (
    BLIND,
    FEW_SPLITS,
    GOOD,
    LEAKAGE,
    LOST_FORMULA,
    ONE_SPACE,
    PAIRED,
    WITHIN_PLATE,
    classifier_name,
    evaluation_bibtex,
    evaluation_paragraphs,
    evaluation_reading,
    protocol_name,
    representation_name,
    verdict_name,
)
from identifiable.report.screen_reading import (
    LISTED,
    MOST_LISTED,
    NAME,
    columns_of,
    design_section,
    inside,
    marks,
    screen_name,
    sentence_of,
    skipped_section,
)
from identifiable.report.words import MISSING, clip, count, counted, known, number, one_line, signed
from identifiable.results import ConditionScore, Difference, ScreenEvaluation

GUIDE = (
    "AUROC is judged on plates that were left out: 0.5 is a coin, 1 is always right. Look at the paired difference of ICA and PCA and "
    "whether its interval leaves 0 out, and at what position alone scores."
)
ANSWERS: dict[str, Tone] = {"yes": "good", "no": "caution", "unclear": "plain"}
BADGES = {"yes": "yes", "no": "no", "unclear": "unclear"}
DIFFERENCES_DRAWN = 24


def evaluation_page(result: ScreenEvaluation) -> Page:
    """The page of `result`, exactly as it would be drawn from its saved JSON."""
    saved = saved_form(result)
    board = Board(saved)
    card = _card(saved, board)
    sections = [
        Section("verdict", "Verdict", (card,)),
        alerts_section(saved, well=card.tone != "caution"),
        *evaluation_sections(saved),
        evaluation_reading(saved),
        reproduction(saved, evaluation_paragraphs(saved), evaluation_bibtex(saved)),
    ]
    return page_with(
        saved,
        sections,
        title=f"{screen_name(saved)}: what holds on plates never seen",
        subtitle="Does a representation tell perturbations from controls on plates left out, and is it biology or layout?",
        guide=GUIDE,
    )


def evaluation_sections(saved: ScreenEvaluation) -> list[Section]:
    """All that an evaluation has to say between its verdict and how to read it; a page of an experiment has them too."""
    board = Board(saved)
    return [
        _advice(saved),
        _scores(board),
        _differences(saved, board),
        _targets(saved, board),
        _leakage(saved),
        _sparsity(board),
        _fitted(saved),
        _times(saved),
        skipped_section(saved.skipped),
        design_section(saved.design, folded=True),
    ]


def _card(result: ScreenEvaluation, board: Board) -> Card:
    facts = [("ICA - PCA, AUROC", gain_words(result))]
    if board.protocols:
        first = board.protocols[0]
        for name in ("base", "pca", "ica", "rand", "position"):
            found = board.at(first, name, board.main)
            facts += [(representation_name(name), number(found.auroc))] if found is not None else []
        facts.append(("judged on", protocol_name(*first)))
    facts += [
        ("perturbations", count(len(result.targets))),
        ("plates", count(result.design.plates)),
        ("wells, features", f"{count(result.design.n)}, {count(result.design.d)}"),
    ]
    tone: Tone = "good" if result.verdict in GOOD else "plain" if result.verdict == "no-gain" else "caution"
    return Card(screen_name(result), verdict_name(result.verdict), sentence_of(result.text), tone, tuple(facts))


def _advice(result: ScreenEvaluation) -> Section:
    advice = result.advice
    card = Card(
        "Should this screen be resolved by ICA?",
        BADGES.get(advice.answer, "unclear"),
        sentence_of(advice.sentence),
        ANSWERS.get(advice.answer, "plain"),
        (),
    )
    reasons = (Text(f"{i + 1}. {sentence_of(reason)}") for i, reason in enumerate(advice.reasons))
    return Section("advice", "Should I use ICA here?", (card, *reasons))


# -- scores


def _scores(board: Board) -> Section:
    if not board.protocols:
        return Section("scores", "AUROC on plates left out", ())
    first, *others = board.protocols
    told = [layout_words(board, first), ONE_SPACE, probe_words(board, first), rotation_words(board, first)]
    blocks: list[Block] = [*_dots(board, first), *(Text(words) for words in told if words)]
    blocks += [*_score_table(board, first), Text(WITHIN_PLATE, note=True)]
    for protocol in others:
        more = (*_dots(board, protocol), *_score_table(board, protocol))
        name = protocol_name(*protocol)
        blocks += [Fold(f"{name[0].upper()}{name[1:]}", more)] if more else []
    blocks += [Text(words, note=True) for words in unscored_words(board.result)]
    return Section("scores", "AUROC on plates left out", tuple(blocks))


def _dots(board: Board, protocol: Protocol) -> list[Block]:
    rows: list[DotRow] = []
    judges: set[str] = set()
    for name in board.representations(protocol):
        main, probe = board.at(protocol, name, board.main), board.at(protocol, name, board.probe)
        if main is not None and marks(("main", main.auroc)):
            rows.append(_dot_row(name, main, probe))
            judges |= {main.classifier}
    if not rows:
        return []
    others = [f"; layout alone: {classifier_name(judge)}" for judge in sorted(judges - {board.main})]
    legend: list[tuple[LegendKind, str]] = [
        ("main", classifier_name(board.main) + "".join(others)),
        ("hollow", f"{classifier_name(board.probe)} (below)"),
        ("whisker", "95 % interval over plates"),
        ("shuffle", "null guides"),
        ("rotation", "lowest and highest random rotation"),
    ]
    shown = drawn_marks(rows)
    return [
        Dots(
            f"AUROC, {protocol_name(*protocol)}",
            "Mean over perturbations.",
            "AUROC",
            tuple(rows),
            tuple((kind, words) for kind, words in legend if kind in shown),
            ("chance", 0.5),
            span=True,
        )
    ]


def _dot_row(name: str, main: ConditionScore, probe: ConditionScore | None) -> DotRow:
    label = representation_name(name)
    lesser = marks(("shuffle", null_auroc(main)), ("rotation", main.spread[0]), ("rotation", main.spread[1]))
    if probe is None:
        return DotRow(
            label,
            number(main.auroc),
            (*marks(("main", main.auroc)), *lesser),
            interval=inside(main.ci95, 0, 1),
            strong=name == "ica",
        )
    return DotRow(
        label,
        number(main.auroc),
        (*marks(("main", main.auroc), ("hollow", probe.auroc)), *lesser),
        second=number(probe.auroc),
        interval=inside(main.ci95, 0, 1),
        strong=name == "ica",
        lower=inside(probe.ci95, 0, 1),
    )


def _score_table(board: Board, protocol: Protocol) -> list[Block]:
    lines = score_lines(board, protocol)
    if not lines:
        return []
    heads = (Column("representation", "text"), Column("classifier", "text"), *map(Column, SCORE_HEADS))
    return [Table(f"Mean over perturbations; {protocol_name(*protocol)}", heads, tuple(lines))]


# -- differences


def _differences(result: ScreenEvaluation, board: Board) -> Section:
    blocks: list[Block] = []
    for protocol in board.protocols:
        found = differences(result, protocol)
        if not found:
            continue
        name = protocol_name(*protocol)
        table = Table(
            f"AUROC of the first less that of the second; {name}",
            columns_of(DIFFERENCE_HEADS, numbers=(2, 3)),
            tuple(map(difference_line, found)),
        )
        some = [
            *_difference_dots(found, board.main, f"Paired differences, {classifier_name(board.main)}", pair=True),
            table,
        ]
        blocks += some if not blocks else [Fold(f"{name[0].upper()}{name[1:]}", tuple(some))]
    return Section("differences", "Paired differences", (Text(PAIRED), *blocks) if blocks else ())


def _difference_dots(found: Sequence[Difference], classifier: str, title: str, *, pair: bool) -> list[Block]:
    """Differences of one classifier: of several pairs, or of one pair on several targets."""
    rows = [
        DotRow(
            short_pair(d) if pair else one_line(d.target),
            signed(d.difference),
            marks(("main", d.difference), ("hollow", d.within_plate), low=-1.0),
            interval=inside(d.ci95, -1, 1),
            strong=pair and i == 0,
            lower=inside(d.within_plate_ci95, -1, 1),
        )
        for i, d in enumerate(found)
        if d.classifier == classifier and marks(("main", d.difference), low=-1.0)
    ]
    if not rows:
        return []
    legend: list[tuple[LegendKind, str]] = [
        ("main", "pooled"),
        ("hollow", "within plate (below)"),
        ("whisker", "95 % interval over plates"),
    ]
    shown = drawn_marks(rows)
    return [
        Dots(
            title,
            "Right of 0 the first of the two is better.",
            "difference of AUROC",
            tuple(rows[:DIFFERENCES_DRAWN]),
            tuple((kind, words) for kind, words in legend if kind in shown),
            ("no difference", 0.0),
            span=True,
        )
    ]


# -- targets


def _targets(result: ScreenEvaluation, board: Board) -> Section:
    names = target_names(result)
    if not board.protocols or not names:
        return Section("targets", "Each perturbation", ())
    protocol = board.protocols[0]
    blocks: list[Block] = []
    table = _target_table(result, board, protocol, names[:LISTED])
    if table is None:
        return Section("targets", "Each perturbation", ())
    blocks.append(table)
    rest = _target_table(result, board, protocol, names[LISTED:MOST_LISTED]) if len(names) > LISTED else None
    if rest is not None:
        blocks.append(Fold(counted(len(rest.rows), "more perturbation"), (rest,)))
    if len(names) > MOST_LISTED:
        blocks.append(
            Text(f"In the JSON result: {counted(len(names) - MOST_LISTED, 'further perturbation')}.", note=True)
        )
    of_each = [d for d in differences(result, protocol, None) if (d.first, d.second) == ("ica", "pca")]
    if of_each:
        title = f"{pair_name(of_each[0])} of each perturbation, {classifier_name(board.main)}"
        drawn = _difference_dots(of_each, board.main, title, pair=False)
        more = len(of_each) > DIFFERENCES_DRAWN
        blocks += [Fold(f"{title}{f': the first {DIFFERENCES_DRAWN}' if more else ''}", tuple(drawn))] if drawn else []
    return Section("targets", "Each perturbation", tuple(blocks))


def _target_table(result: ScreenEvaluation, board: Board, protocol: Protocol, names: Sequence[str]) -> Table | None:
    """Perturbations down, representations across; the deeper the colour, the further from chance."""
    scored = dict.fromkeys(
        c.representation
        for c in result.conditions
        if (c.held_out, c.fit) == protocol and c.target in set(names) and c.classifier == board.main
    )
    shown = sorted(scored, key=lambda name: name in BLIND)
    if not shown:
        return None
    gains = {
        d.target: change(d.difference, d.ci95)
        for d in differences(result, protocol, None)
        if (d.first, d.second) == ("ica", "pca") and d.classifier == board.main
    }
    nulls = set(result.null_targets)
    rows, shades = [], []
    for target in names:
        cells = [board.at(protocol, name, board.main, target) for name in shown]
        values = [float("nan") if c is None else c.auroc for c in cells]
        label = clip(one_line(target), NAME)
        gain = (gains.get(target, MISSING),) if gains else ()
        rows.append((f"{label} (null guide)" if target in nulls else label, *map(number, values), *gain))
        shades.append(
            (*(shade(min(0.5, max(0.0, v - 0.5)), 0.5) if known(v) else None for v in values), *(None for _ in gain))
        )
    heads = [Column("perturbation", "text"), *(Column(representation_name(name)) for name in shown)]
    heads += [Column("ICA - PCA [95 %]")] if gains else []
    caption = f"AUROC of {classifier_name(board.main)}, {protocol_name(*protocol)}; coloured from 0.5 to 1"
    return Table(caption, tuple(heads), tuple(rows), shades=tuple(shades))


# -- leakage, sparsity, fits, time


def _leakage(result: ScreenEvaluation) -> Section:
    lines = leakage_lines(result)
    if not lines:
        return Section("leakage", "Fitted to all wells or to training plates", ())
    table = Table(
        "AUROC, and what it gains by having seen the test plates", columns_of(LEAKAGE_HEADS, (3, 4, 5)), tuple(lines)
    )
    return Section("leakage", "Fitted to all wells or to training plates", (Text(LEAKAGE), table))


def _sparsity(board: Board) -> Section:
    if not board.protocols:
        return Section("sparsity", "Sparsity and concentration", ())
    conditions = sparse_conditions(board, board.protocols[0])
    blocks: list[Block] = []
    if conditions:
        rows = [
            DotRow(
                representation_name(c.representation),
                number(c.hoyer),
                marks(("main", c.hoyer), ("shuffle", c.hoyer_null)),
                second=number(c.hoyer_null),
                strong=c.representation == "ica",
            )
            for c in conditions
            if marks(("main", c.hoyer))
        ]
        blocks.append(Text(FEW_SPLITS))
        if rows:
            legend: tuple[tuple[LegendKind, str], ...] = (("main", "Hoyer"), ("shuffle", "as many splits at random"))
            blocks.append(
                Dots("Hoyer sparsity of the splits", "Mean over perturbations and folds.", "Hoyer", tuple(rows), legend)
            )
        blocks.append(
            Table(
                f"Splits of {classifier_name(board.main)}, mean over perturbations and folds",
                columns_of(SPARSITY_HEADS, range(1, len(SPARSITY_HEADS))),
                tuple(sparsity_lines(conditions)),
            )
        )
    concentrated = concentration_lines(
        [
            c
            for name in board.representations(board.protocols[0])
            if (c := board.at(board.protocols[0], name, board.main))
        ]
    )
    if concentrated:
        heads = columns_of(CONCENTRATION_HEADS, range(1, len(CONCENTRATION_HEADS)))
        caption = "Concentration: a classifier on the features that were split most, and on the rest"
        blocks += [Text(LOST_FORMULA), Table(caption, heads, tuple(concentrated))]
    return Section("sparsity", "Sparsity and concentration", tuple(blocks))


def _fitted(result: ScreenEvaluation) -> Section:
    lines = fitted_lines(result)
    if not lines:
        return Section("fitted", "What was fitted", ())
    numbers = (2, 3, 5, 6)
    table = Table(
        "Reproducible: components that a refit finds again", columns_of(FITTED_HEADS, numbers), tuple(lines[:LISTED])
    )
    rest = Table(table.caption, table.columns, tuple(lines[LISTED:MOST_LISTED]))
    more = [Fold(counted(len(lines) - LISTED, "more fit"), (rest,))] if len(lines) > LISTED else []
    return Section("fitted", "What was fitted", (table, *more))


def _times(result: ScreenEvaluation) -> Section:
    words = time_words(result)
    if not words:
        return Section("time", "Time", ())
    lines = time_lines(result)
    whole = sum(t.seconds for t in result.times if known(t.seconds))
    shares = sorted((t.seconds / whole if known(t.seconds) else 0.0 for t in result.times), reverse=True)
    table = Table(
        "Wall clock by stage",
        columns_of(TIME_HEADS, range(1, len(TIME_HEADS))),
        tuple(lines),
        pictures={2: tuple(Gauge(share, "plain") for share in shares)},
    )
    return Section("time", "Time", (Text(words), table))
