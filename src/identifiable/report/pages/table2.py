"""The page of `reproduce table2`: InfoMEC of models of pictures, what ICA does to a plain autoencoder, ours and published."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from identifiable.report.frame import framed, glossary, section, terms
from identifiable.report.page import (
    Block,
    Card,
    DotRow,
    Dots,
    Fold,
    Mark,
    Page,
    Table,
    Terms,
    Text,
    Tone,
    columns,
)
from identifiable.report.pages.disentanglement import MODES
from identifiable.report.pages.model_runs import (
    PLAIN,
    WITH_ICA,
    data_name,
    least,
    model_name,
    row_name,
    run_blocks,
    selection_blocks,
    training_blocks,
    traversal_blocks,
)
from identifiable.report.pages.paper import Published, choice_tables
from identifiable.report.words import (
    MISSING,
    count,
    counted,
    display_name,
    estimate,
    interval,
    known,
    listed,
    number,
    one_line,
    sentence_of,
    short,
    signed,
)
from identifiable.results import Cell, Estimate, Interval, Table2
from identifiable.results.table2 import ALL_DATA

GUIDE = (
    "InfoM is how far each latent carries one factor only, InfoE how much of the factors a linear model recovers, InfoC how far "
    "each factor is in one latent only; 1 is best. Compare AE with AE + ICA."
)
MOVED = 0.01  # change of InfoE from which on it is explained
LOST = "Not told by the papers, or without a counterpart there; ours"
SCORES = ("InfoM [95 %]", "InfoE [95 %]", "InfoC [95 %]", "PSNR", "seeds")
LIFTS = ("ICA", "before", "after", "lift [95 %]", "of the rows [95 %]", "change of InfoE [95 %]", "seeds")
PAPERS = {
    "beta-VAE": "higgins",
    "beta-TCVAE": "chen",
    "BioAE": "whittington",
    "VQ-VAE": "oord",
    "VQ-VAE w/ wd": "oord",
}

Triple = tuple[float, float, float]
Latents = Literal["continuous", "discrete"]


def page(result: Table2) -> Page:
    words, metrics = glossary("table2"), glossary("disentanglement")
    modes = [mode for mode in MODES if any(cell.ica == mode for cell in result.cells)]
    return framed(
        result,
        title="Table 2, run again",
        subtitle="Models of pictures with known factors: does ICA turn a plain autoencoder's latents so that each carries one?",
        guide=GUIDE,
        verdict=_verdict(result),
        sections=[
            section("scores", "The table", _scores(result)),
            section("lifts", "What ICA does", _lifts(result)),
            section("traversals", "Traversals", traversal_blocks(result)),
            section("training", "As training goes on", training_blocks(result)),
            section("selection", "Selection", selection_blocks(result)),
            section("runs", "Runs", run_blocks(result)),
            section("choices", "Settings", choice_tables(result.choices, LOST)),
        ],
        reading=(
            Text(words[""]),
            Terms(
                (
                    ("InfoM, InfoE, InfoC", metrics["InfoMEC"]),
                    *((f"ICA, {mode}", f"{MODES[mode][0].upper()}{MODES[mode][1:]}.") for mode in modes),
                )
            ),
            terms("table2", "Lift", "[95 %]", "PSNR"),
            terms("disentanglement", "Discrete and continuous", "InfoM and noise"),
        ),
        methods=_methods(result, modes),
        papers=dict.fromkeys(
            [
                *("nelson", "hsu", "ross"),
                *(["hyvarinen1999"] if modes else []),
                *(PAPERS[cell.row] for cell in result.cells if cell.row in PAPERS),
            ]
        ),
    )


# -- names and numbers


def _on(data: str) -> str:
    return "all data" if data == ALL_DATA else display_name(data)


def _bounded(found: Estimate) -> bool:
    return all(map(known, found.ci95))


def _mean(found: Estimate) -> str:
    return estimate(found.mean, found.ci95)


def _change(found: Estimate) -> str:
    return estimate(found.mean, found.ci95, signed)


def _seeds(found: Estimate) -> str:
    return count(found.n) if known(found.mean) else MISSING


def _triple(values: Iterable[float] | None) -> str:
    """'0.65 0.83 0.40', as the paper prints a cell."""
    said = [] if values is None else [number(value, 2) for value in values]
    return MISSING if all(word == MISSING for word in said) else " ".join(said)


def _data(result: Table2) -> list[str]:
    """All data together first, unless that is one data set; then each."""
    found = list(dict.fromkeys(cell.data for cell in result.cells))
    apart = [data for data in found if data != ALL_DATA]
    return apart if len(apart) == 1 else sorted(found, key=lambda data: data != ALL_DATA)


def _cells(result: Table2, data: str, latents: Latents) -> list[Cell]:
    """The rows of a data set. What is not known to be continuous does not stand among what is."""
    return [
        cell
        for cell in result.cells
        if cell.data == data and (cell.latents == "continuous") == (latents == "continuous")
    ]


# -- the verdict


def _verdict(result: Table2) -> Iterator[Block]:
    yield _card(result)
    if told := _ranking(result):
        yield Text(told, note=True, brief=True)
    published = Published.of(result)
    before, after = (published.scores(row) for row in (PLAIN, WITH_ICA))
    if before is not None and after is not None:
        over = listed(map(data_name, published.data))
        told = f"Published: InfoM goes from {number(before[0], 2)} (AE) to {number(after[0], 2)} (AE + ICA), mean over {over}."
        yield Text(f"{told} {_otherness(result, published)}".rstrip(), note=True, brief=True)


def _card(result: Table2) -> Card:
    found = result.lift()
    tone: Tone = "caution"
    sentence = sentence_of(result.headline)
    if found is None or not known(found.difference.mean):
        badge = "nothing passes the filter"
    elif not _bounded(found.difference):
        badge = "too few seeds"
        moved = f"from {number(found.before.mean, 2)} to {number(found.after.mean, 2)}"
        sentence = (
            f"ICA moves InfoM of the plain autoencoder by {signed(found.difference.mean)}, {moved}, over "
            f"{counted(found.difference.n, 'seed')}: too few for an interval."
        )
    elif found.difference.ci95[0] > 0:
        badge, tone = "ICA lifts InfoM", "good"
    else:
        badge = "ICA lowers InfoM" if found.difference.ci95[1] < 0 else "no clear effect"
    lift = [MISSING] * 4
    if found is not None:
        both = f"{number(found.before.mean)}, {number(found.after.mean)}"
        lift = [signed(found.difference.mean), interval(found.difference.ci95), both, count(found.difference.n)]
    names = ("lift of InfoM", "its 95 % interval", "InfoM before, after ICA", "seeds")
    seeds, models = counted(len({run.seed for run in result.runs}), "seed"), counted(len(result.runs), "model")
    data = listed(map(display_name, result.data)) or MISSING
    eyebrow = f"Table 2, run again: {data}, {seeds}, {models}, scale {one_line(result.scale)}"
    return Card(eyebrow, badge, sentence, tone, tuple(zip(names, lift, strict=True)), brief=True)


def _otherness(result: Table2, published: Published) -> str:
    """In what our numbers and the published ones differ before anything is compared."""
    own, names = [data for data in result.data if data not in published.data], listed(map(display_name, result.data))
    reasons = []
    if own:
        reasons.append(f"{listed(map(display_name, own))} not among the paper's data")
    elif set(result.data) != set(published.data):
        reasons.append(f"only {names} run")
    if result.scale != "paper":
        reasons.append(f"scale {one_line(result.scale)} smaller than the paper's")
    if not published.rows or not reasons:
        return ""
    return f"Our numbers and the published ones are not comparable in size, only in direction: {' and '.join(reasons)}."


def _ranking(result: Table2) -> str:
    """AE + ICA against the best continuous model built for the purpose."""
    data = next(iter(_data(result)), ALL_DATA)
    found = [cell for cell in _cells(result, data, "continuous") if known(cell.infom.mean)]
    ours = next((cell.infom for cell in found if cell.row == WITH_ICA), None)
    others = [cell for cell in found if cell.row != PLAIN and not cell.row.startswith(WITH_ICA)]
    if ours is None or not others:
        return ""
    best = max(others, key=lambda cell: cell.infom.mean)
    order = "above" if ours.mean > best.infom.mean else "below" if ours.mean < best.infom.mean else "level with"
    overlap = ""
    if _bounded(ours) and _bounded(best.infom):
        apart = ours.ci95[0] > best.infom.ci95[1] or best.infom.ci95[0] > ours.ci95[1]
        overlap = "; the intervals do not overlap" if apart else "; the intervals overlap"
    return (
        f"InfoM of AE + ICA, {_mean(ours)}, is {order} that of the best continuous model built for this purpose, "
        f"{row_name(best.row)} with {_mean(best.infom)}{overlap}."
    )


# -- the table


def _scores(result: Table2) -> Iterator[Block]:
    first, *others = _data(result) or [ALL_DATA]
    for latents in ("continuous", "discrete"):
        if latents == "discrete" and any(_cells(result, data, latents) for data in (first, *others)):
            yield Text(glossary("table2")["Not comparable"], brief=True)
        yield from _dots(result, first, latents)
        yield from _score_table(result, first, latents, brief=True)
        yield from _by_data(result, others, latents)
        if latents == "continuous":
            yield from _published(result)
        apart = [b for data in others for part in (_dots, _score_table) for b in part(result, data, latents)]
        if apart:
            yield Fold(f"Each data set with its intervals, {latents} latents", tuple(apart))


def _dots(result: Table2, data: str, latents: Latents) -> Iterator[Block]:
    cells = [cell for cell in _cells(result, data, latents) if known(cell.infom.mean)]
    if not cells:
        return
    beyond = any(_bounded(cell.infom) and cell.infom.ci95 != _within(cell.infom.ci95) for cell in cells)
    told = "Each row at the setting and step selected for it."
    yield Dots(
        f"InfoM of {latents} latents, {_on(data)}",
        f"{told} Intervals are cut to the range of InfoM, 0 to 1." if beyond else told,
        "InfoM",
        tuple(
            DotRow(
                row_name(cell.row),
                number(cell.infom.mean),
                (Mark("main", cell.infom.mean),),
                interval=_within(cell.infom.ci95) if _bounded(cell.infom) else None,
                strong=cell.row in (PLAIN, WITH_ICA),
            )
            for cell in cells
        ),
        (("main", "mean over seeds"), ("whisker", "95 % interval")),
    )


def _within(bounds: Interval) -> Interval:
    """An interval cut to where InfoM can be: one of two seeds would flatten the rest of a figure."""
    low, high = (min(1.0, max(0.0, bound)) for bound in bounds)
    return low, high


def _score_table(result: Table2, data: str, latents: Latents, *, brief: bool = False) -> Iterator[Block]:
    cells, published = _cells(result, data, latents), Published.of(result)
    if not cells:
        return
    beside = data in published.data and any(published.scores(cell.row, data) for cell in cells)
    what = "mean over data sets" if data == ALL_DATA else f"at least {least(result, data)} dB"
    caption = f"Ours, {_on(data)}, {latents} latents ({what}): mean over seeds"
    lines = [
        (
            row_name(cell.row),
            *map(_mean, (cell.infom, cell.infoe, cell.infoc)),
            number(cell.psnr.mean, 1),
            _seeds(cell.infom),
            _triple(published.scores(cell.row, data)),
        )
        for cell in cells
    ]
    heads = columns("model", *SCORES, *(["published"] if beside else []), hidden=("seeds", "published"))
    yield Table(
        f"{caption}; published: InfoM InfoE InfoC" if beside else caption,
        heads,
        tuple(line[: len(heads)] for line in lines),
        next((i for i, cell in enumerate(cells) if cell.row == WITH_ICA), None),
        brief=brief,
    )


def _by_data(result: Table2, data: Sequence[str], latents: Latents) -> Iterator[Block]:
    """Several data sets as the paper prints them."""
    found = {(cell.row, name): cell for name in data for cell in _cells(result, name, latents)}

    def scores(row: str, name: str) -> str:
        cell = found.get((row, name))
        return _triple(None if cell is None else (cell.infom.mean, cell.infoe.mean, cell.infoc.mean))

    rows = dict.fromkeys(row for row, _ in found)
    if rows:
        yield Table(
            f"Ours, each data set, {latents} latents: InfoM InfoE InfoC",
            columns("model", *map(data_name, data)),
            tuple((row_name(row), *(scores(row, name) for name in data)) for row in rows),
            brief=True,
        )


def _published(result: Table2) -> Iterator[Block]:
    published = Published.of(result)
    if not published.rows:
        return
    names = list(published.rows)
    other = ", not comparable with ours in size" if _otherness(result, published) else ""
    yield Table(
        f"Published, Table 2 of Nelson et al. (2026){other}: InfoM InfoE InfoC",
        columns("model", *map(data_name, published.columns)),
        tuple(
            (f"{row_name(name)} (Hsu et al.)" if name in published.others else row_name(name), *map(_triple, row))
            for name, row in published.rows.items()
        ),
        names.index(WITH_ICA) if WITH_ICA in names else None,
        brief=True,
    )
    whose = (
        "Rows marked (Hsu et al.) are numbers of Hsu et al. (2023), as the paper cites them. "
        if published.others
        else ""
    )
    yield Text(f"{whose}{glossary('table2')['Unknown']}", note=True)


# -- what ICA does


def _lifts(result: Table2) -> Iterator[Block]:
    order = {data: i for i, data in enumerate(_data(result))}
    lifts = sorted((lift for lift in result.lifts if lift.data in order), key=lambda lift: order[lift.data])
    if not lifts:
        return
    yield Table(
        "InfoM of the same autoencoders before and after ICA, mean over all settings and steps that pass the filter",
        columns("data", *LIFTS, words=("ICA",), hidden=("change of InfoE [95 %]",)),
        tuple(
            (
                data_name(lift.data),
                one_line(lift.ica),
                number(lift.before.mean),
                number(lift.after.mean),
                *map(_change, (lift.difference, lift.selected, lift.infoe_difference)),
                _seeds(lift.difference),
            )
            for lift in lifts
        ),
        next((i for i, lift in enumerate(lifts) if lift.ica == "centred"), None),
        brief=True,
        brief_rows=40,
    )
    if told := "; ".join(f"{mode}: {MODES[mode]}" for mode in MODES if any(lift.ica == mode for lift in lifts)):
        yield Text(f"Modes of ICA: {told}.", note=True)
    changes = {(lift.data, lift.ica): lift.infoe_difference.mean for lift in lifts if known(lift.infoe_difference.mean)}
    if changes:
        (data, mode), most = max(changes.items(), key=lambda change: abs(change[1]))
        moved = (
            f"Here it changed, most by {signed(most)} ({data_name(data)}, {one_line(mode)}): the regression stops after a fixed "
            "number of steps and gets further in some bases than in others, or the step dropped directions without variance. Do "
            "not read it as an effect of ICA."
        )
        still = f"It changed by at most {short(MOVED)} everywhere, as expected."
        yield Text(
            f"{glossary('table2')['InfoE and ICA']} {moved if abs(most) > MOVED else still}", note=True, brief=True
        )
    yield from _published_infoe(Published.of(result))


def _published_infoe(published: Published) -> Iterator[Block]:
    """The same question to the published table."""
    pairs = [(column, published.scores(PLAIN, column), published.scores(WITH_ICA, column)) for column in published.data]
    moves = [
        (column, before[1], after[1]) for column, before, after in pairs if before is not None and after is not None
    ]
    column, before, after = max(moves, key=lambda move: abs(move[2] - move[1]), default=("", 0.0, 0.0))
    if abs(after - before) > MOVED:
        yield Text(
            f"In the published table InfoE goes from {number(before, 2)} (AE) to {number(after, 2)} (AE + ICA) on "
            f"{data_name(column)}. So its two rows come from fits that were selected separately, or the regressions had not "
            "converged."
        )


# -- methods


def _methods(result: Table2, modes: Sequence[str]) -> Iterator[str]:
    words = glossary("table2")
    models = listed(dict.fromkeys(model_name(result, run.model) for run in result.runs))
    seeds = counted(len({run.seed for run in result.runs}), "seed")
    yield (
        f"{counted(len(result.runs), 'model')} ({models}) were trained from {seeds} on {listed(map(display_name, result.data))} "
        f"(scale {one_line(result.scale)}). {words['Selected']}"
    )
    told = "Scores are InfoM, InfoE and InfoC on validation pictures; intervals are t intervals of the mean over seeds."
    if modes:
        told += f" ICA was fitted to the latents alone: {'; '.join(MODES[mode] for mode in modes)}."
    yield f"{told} Seed {result.provenance.seed}."
    yield words["Sources"]
