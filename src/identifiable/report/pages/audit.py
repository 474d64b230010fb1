"""The page of `deconfound audit`: what the layout allows one to conclude, before anything is fitted."""

from __future__ import annotations

from collections.abc import Iterator

from identifiable.report.frame import framed, glossary, marks, section, terms
from identifiable.report.page import Badge, Block, Card, DotRow, Dots, Page, Table, Terms, Text, Tone, columns
from identifiable.report.pages.screen import (
    CHANCE,
    EXAMPLES,
    NAME,
    design_blocks,
    screen_card,
    screen_name,
    size_words,
    skipped_section,
    some,
)
from identifiable.report.screen_names import representation_name
from identifiable.report.words import (
    MISSING,
    clip,
    count,
    counted,
    estimate,
    interval,
    known,
    listed,
    named,
    number,
    one_line,
    percent,
    probability,
    yes_no,
)
from identifiable.results import Audit, BlindScore, Finding

VERDICTS = {"caution": "with caution"}
SEVERITIES: dict[
    str, tuple[str, Tone]
] = {  # the most severe first; 'fine' needs no action, which is a note and not praise
    "stop": ("stop", "caution"),
    "caution": ("caution", "caution"),
    "fine": ("note", "plain"),
}


def page(result: Audit) -> Page:
    words = glossary("audit")
    alone = any(finding.code == "plates_of_one_perturbation" for finding in result.findings)
    steps = f"next {result.verdict}" + (", alone" if alone and result.verdict == "layout-confounded" else "")
    advice = (("What you can conclude", f"conclude {result.verdict}"), ("What to do next", steps))
    follows = tuple((head, words[name]) for head, name in advice if name in words)
    return framed(
        result,
        title=f"{screen_name(result)}: what this screen allows you to conclude",
        subtitle="Roles, layout, folds and features, checked before anything is fitted",
        guide="AUROC 0.5 is chance, 1 is perfect. Position, plate, batch and cell count contain no picture of a cell: any "
        "embedding can reach the score of these classifiers without biology.",
        verdict=[_card(result), *([Terms(follows, brief=True)] if follows else [])],
        sections=[
            section("findings", "Findings", _findings(result)),
            section("design", "The screen", design_blocks(result.design, brief=True)),
            section("blind", "Prediction without the embedding", _blind(result)),
            section("dependence", "Does position predict the label?", _dependence(result)),
            section("folds", "Folds", _folds(result)),
            section("features", "Features", _features(result)),
            skipped_section(result.skipped),
        ],
        reading=(
            Text(words[""]),
            terms("screen", "AUROC", "95 % interval"),
            terms(
                "audit",
                "Prediction without the embedding",
                "Mutual information",
                "Cramér's V",
                "Folds",
                "Gaussian features",
            ),
        ),
        methods=(
            f"{size_words(result.design)}. {words['Methods']}",
            f"{words['Sources']} Seed {result.provenance.seed}.",
        ),
        papers=["nelson"],
    )


def _card(result: Audit) -> Card:
    sizes = {name: sum(f.severity == code for f in result.findings) for code, (name, _) in SEVERITIES.items()}
    judged = next((f.values for f in result.findings if f.code == "testable"), {}).get("perturbations", 0)
    facts = [
        ("judged", f"{count(judged)} of {counted(result.design.perturbations, 'perturbation')}"),
        ("findings", ", ".join(f"{count(size)} {name}" for name, size in sizes.items() if size) or MISSING),
        *(
            (f"AUROC, {representation_name(s.features)} for {one_line(s.predicts)}", estimate(s.auroc, s.ci95))
            for s in result.blind
            if s.features == "position"
        ),
    ]
    return screen_card(
        result, named(VERDICTS, result.verdict), "good" if result.verdict == "clear" else "caution", facts
    )


def _findings(result: Audit) -> Iterator[Block]:
    order = list(SEVERITIES)
    found = sorted(result.findings, key=lambda f: order.index(f.severity) if f.severity in order else 0)

    def shown(finding: Finding) -> tuple[str, Tone]:
        return SEVERITIES.get(finding.severity, (one_line(finding.severity), "caution"))

    if found:
        yield Table(
            "What was checked, the most severe first",
            columns("finding", "severity", "what follows", words=("severity", "what follows")),
            tuple((named({}, f.code), shown(f)[0], one_line(f.message)) for f in found),
            pictures={1: tuple(Badge(shown(f)[1]) for f in found)},
            brief=True,
        )


# -- prediction without the embedding


def _blind(result: Audit) -> Iterator[Block]:
    for predicts in dict.fromkeys(score.predicts for score in result.blind):
        rows = tuple(
            DotRow(
                representation_name(s.features),
                number(s.auroc),
                marks(
                    ("main", s.auroc),
                    ("hollow", s.worst_auroc if s.worst else None),
                    ("shuffle", s.chance if s.chance != CHANCE[1] else None),
                ),
                interval=s.ci95,
            )
            for s in result.blind
            if s.predicts == predicts and known(s.auroc)
        )
        if rows:
            yield Dots(
                f"Predicting {_predicted(predicts, result)}",
                "On held-out wells; the table below says what was held out.",
                "AUROC",
                rows,
                (
                    ("main", "AUROC"),
                    ("whisker", "95 % interval over plates"),
                    ("hollow", "the class predicted best"),
                    ("shuffle", "chance, where it is not 0.5"),
                ),
                CHANCE,
                span=True,
            )

    def line(s: BlindScore) -> tuple[str, ...]:
        best = f"{clip(one_line(s.worst), NAME)} {number(s.worst_auroc)}" if s.worst else MISSING
        score = (number(s.auroc), interval(s.ci95), number(s.chance), count(s.targets), best)
        return (representation_name(s.features), _predicted(s.predicts, result), named({}, s.held_out), *score)

    rest = ("classes", "predicted best")
    heads = ("given", "predicts", "held out", "AUROC", "95 % interval", "chance", *rest)
    if result.blind:
        yield Table(
            "AUROC on held-out wells; the embedding itself is only used to predict plate and batch",
            columns(*heads, words=("predicts", "held out", "predicted best"), hidden=rest),
            tuple(map(line, result.blind)),
            brief=True,
        )


def _predicted(predicts: str, result: Audit) -> str:
    """'each perturbation vs control'; plate and batch are predicted one against the rest."""
    other = "control" if result.design.controls else "others"
    return named({}, predicts) + (f" vs {other}" if predicts.endswith("perturbation") else "")


def _dependence(result: Audit) -> Iterator[Block]:
    if known(result.confounding):
        yield Text(
            f"Batch and perturbation: Cramér's V {number(result.confounding)} (0: unrelated, 1: one determines the other).",
            brief=True,
        )
    else:
        yield Text("There are no batches, so batch and perturbation cannot be confounded.", brief=True)
    if result.dependences:
        yield Table(
            "Mutual information of the label with position, plate and batch, in nats; shuffled: labels permuted",
            columns("label ~ position", "information", "shuffled, mean", "q95", "share", "p"),
            tuple(
                (
                    clip(named({}, found.what), NAME),
                    *map(number, (found.information, found.null_mean, found.null_q95)),
                    percent(found.share),
                    probability(found.p),
                )
                for found in result.dependences
            ),
            brief=True,
        )


def _folds(result: Audit) -> Iterator[Block]:
    if not result.folds:
        return
    bad = [str(fold.fold) for fold in result.folds if fold.problem]
    total = counted(len(result.folds), "fold")
    yield Text(
        f"Of {total} of plates, {listed(bad)} cannot be used as they are."
        if bad
        else f"{total} of plates; each holds {'controls and ' * bool(result.design.controls)}perturbations.",
        brief=True,
    )
    yield Table(
        "Plates held out in turn",
        columns("fold", "plates", "wells", "controls", "missing", "problem", words=("missing", "problem")),
        tuple(
            (
                str(fold.fold),
                *map(count, (fold.plates, fold.rows, fold.controls)),
                some(fold.missing) or MISSING,
                one_line(fold.problem) or MISSING,
            )
            for fold in result.folds
        ),
        brief=bool(bad),
    )


def _features(result: Audit) -> Iterator[Block]:
    found = result.features
    pairs = "; ".join(f"rows {count(a)} and {count(b)}" for a, b in found.duplicate_pairs[:EXAMPLES])
    yield Table(
        "Columns of the embedding",
        columns("what", "found", words=("found",)),
        (
            ("constant features", count(found.constant)),
            ("rank", f"{count(found.rank)} of {count(result.design.d)}"),
            ("rows that repeat another", count(found.duplicate_rows) + (f" ({pairs})" if pairs else "")),
            ("median |excess kurtosis|", number(found.median_kurtosis)),
            ("made Gaussian", yes_no(found.gaussianised)),
            ("wells per feature", number(found.n_over_d, 1)),
        ),
    )
