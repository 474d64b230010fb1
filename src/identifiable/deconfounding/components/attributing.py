"""attribute(): what each component of a screen is about, plate or biology."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from identifiable.blocks import Blocks, in_threads, one_blas_thread
from identifiable.deconfounding.components.resolving import ReproducibleRank
from identifiable.deconfounding.components.shares import (
    PerturbationEffects,
    Questions,
    Scores,
    Shares,
    perturbation_effects,
    pooled_p,
    scores,
    shares,
)
from identifiable.deconfounding.components.variance import LAYOUT, POSITION, Slabs, indicator, project
from identifiable.deconfounding.design import Design, address_name, summarise
from identifiable.deconfounding.intervals import jackknife, q_values
from identifiable.deconfounding.run import record_of
from identifiable.ica import Resolved
from identifiable.moments import Array
from identifiable.options import AttributeOptions
from identifiable.results import Alert, Answer, Attribution, Component, ComponentCard, Share
from identifiable.results.cleaning import ComponentRole
from identifiable.results.record import Interval
from identifiable.run import Run, Stage

# Technical scores below this are taken for a trace. ICA that finds a latent at |r| 0.95 leaves a tenth of the component's variance
# to the other latents, and what plates explain of that is no reason to take the component out. Biological scores have no such
# floor: few wells are moved along any one axis, so a true effect is a small share (an axis that one gene in ten moves by one
# standard deviation has 0.1, by a half 0.03).
MATERIAL = 0.1
LOCKED = 0.1  # excess of replicates at the same address, all of which count, from which on a reader is told
SHOWN = ("batch", "plate", "plate_in_batch", "row", "column", "edge", "cell_count", "perturbation", "spread")
OF_BASIS = ("scaled", "rank", "rank_rule")  # settings of the basis that a reader of the components needs
MAP_DIGITS = 3  # of plate maps: enough for a picture, and a third of the JSON


def attribute(
    resolved: Resolved,
    blocks: Blocks,
    design: Design,
    options: AttributeOptions | None = None,
    run: Run | None = None,
    *,
    elsewhere: ReproducibleRank | None = None,
) -> Attribution:
    """For every component how much of it is technical and how much is biology, with what moves it. Ours.

    Technical: share of variance on control wells that plate and batch, position and cell count explain. Biological: share that
    perturbations explain within plate on plates that were left out. How both are measured is said in `shares`;
    intervals leave out a twentieth of the plates at a time (of technical scores whole batches, where there are 8 or more).

    A component is technical if that score has q <= `fdr` over all components by permutation and is at least 0.1; biological if
    that score has q <= `fdr` and an interval above 0. It may be both or neither: what differs between cells and is moved by
    neither plates nor perturbations is neither.

    A component that refits on halves of the plates do not find again gets no card: which perturbations move it, and how it lies on a
    plate, would be another answer with another sample. `elsewhere` is a rank at which components are found again.

    `resolved` has the components, from `identifiable.ica.resolve`, best with ``group_by`` the plates. They may be of other rows: of
    patches, say, while `blocks` has well means.
    """
    options, run = options or AttributeOptions(), run or Run()
    design.check_rows(blocks)
    with one_blas_thread():
        slabs = project(blocks, resolved.to_components, run)
        questions = Questions.of(design, rng=np.random.default_rng(run.seed))
        found = scores(slabs, questions)
        drawn = shares(
            slabs,
            questions,
            permutations=options.permutations,
            seed=run.seed,
            run=partial(in_threads, run=run, stage=Stage("permutations")),
        )
        moved = perturbation_effects(slabs, questions.replicates)
        grid = _Grid.of(design)
        total = _total(found)
        cards = _cards(resolved.result.components, found, drawn, moved, grid.maps(slabs), options)
        refused = tuple(card.index for card in cards if _refused(card))
    return Attribution(
        inputs=tuple(run.inputs) or resolved.result.inputs,
        settings={
            "permutations": options.permutations,
            "top": options.top,
            "fdr": options.fdr,
            "seed": run.seed,
            **{name: resolved.result.settings[name] for name in OF_BASIS if name in resolved.result.settings},
            "least_technical": MATERIAL,
            "reference": "controls" if questions.plates.from_controls else "all wells",
            "parts": questions.plates.parts,
            "same_place": dict(questions.replicates.locked),
            "same_address_left_out": questions.replicates.elsewhere,
            "replicated_perturbations": len(questions.replicates.names),
        },
        alerts=(*run.alerts, *resolved.result.alerts, *_alerts(questions)),
        provenance=record_of(run, "attribute"),
        design=summarise(design, blocks.d),
        components=cards,
        density_edges=resolved.result.density_edges,
        grid_rows=grid.rows,
        grid_columns=grid.columns,
        converged=resolved.result.converged,
        told=_answer(cards, elsewhere),
        refused=refused,
        reproducible_rank=None if elsewhere is None else elsewhere.rank,
        reproducible_there=0 if elsewhere is None else elsewhere.reproducible,
        biology=total.score,
        biology_ci95=total.ci95,
    )


# -- roles


@dataclass(frozen=True)
class Score:
    """A score of one component, its interval, and its q-value over components."""

    score: float
    ci95: Interval
    q: float


@dataclass(frozen=True, eq=False)
class _Judged:
    """A score of every component."""

    score: Array
    low: Array
    high: Array
    q: Array

    @classmethod
    def of(cls, score: Array, without: Array, null: Array) -> _Judged:
        low, high = jackknife(score, without)
        return cls(score, low, np.minimum(high, 1.0), q_values(pooled_p(score, null)))

    def at(self, k: int) -> Score:
        return Score(float(self.score[k]), (float(self.low[k]), float(self.high[k])), float(self.q[k]))


def _total(found: Scores) -> Score:
    """Biology of all components together."""
    low, high = jackknife(found.biological.sum(keepdims=True), found.biological_without.sum(axis=1)[:, None])
    return Score(float(found.biological.sum()), (float(low[0]), float(high[0])), float("nan"))


def role_of(technical: Score, biological: Score, fdr: float) -> ComponentRole:
    """What a component with these scores is about."""
    # A single batch that went wrong is technical, though without it the score is 0 and its interval wide: no interval is asked for.
    # An effect must be there whichever plates are left out.
    is_technical = technical.q <= fdr and technical.score >= MATERIAL
    is_biological = biological.q <= fdr and biological.ci95[0] > 0
    if is_technical:
        return "both" if is_biological else "technical"
    return "biological" if is_biological else "neither"


def role_at(card: ComponentCard, fdr: float) -> ComponentRole:
    """The role a component would have at another false discovery rate."""
    technical = Score(card.technical, card.technical_ci95, card.technical_q)
    return role_of(technical, Score(card.biological, card.biological_ci95, card.biological_q), fdr)


def _cards(
    components: Sequence[Component],
    found: Scores,
    drawn: Shares,
    moved: PerturbationEffects,
    maps: Callable[[int], tuple[tuple[float, ...], ...]],
    options: AttributeOptions,
) -> tuple[ComponentCard, ...]:
    # Under the null plates and layout are independent of each other, so a draw of each makes one of both.
    technical_null = drawn.null["plate"] + drawn.null.get(LAYOUT, 0.0)
    technical = _Judged.of(found.technical, found.technical_without, technical_null)
    biological = _Judged.of(found.biological, found.biological_without, drawn.null["perturbation"])
    listed = _shares(drawn)
    q = moved.q()
    return tuple(
        ComponentCard(
            index=k,
            role=role_of(technical.at(k), biological.at(k), options.fdr),
            technical=technical.at(k).score,
            technical_ci95=technical.at(k).ci95,
            biological=biological.at(k).score,
            biological_ci95=biological.at(k).ci95,
            shares=listed[k],
            top=() if _refused(component) else moved.top(k, q, options.top),
            kurtosis=component.kurtosis,
            negentropy=component.negentropy,
            stability=component.stability,
            identifiable=component.identifiable,
            plate_map=() if _refused(component) else maps(k),
            density=component.density,
            technical_q=float(technical.q[k]),
            biological_q=float(biological.q[k]),
        )
        for k, component in enumerate(components)
    )


def _refused(component: Component | ComponentCard) -> bool:
    """Whether refits were made and do not find it again."""
    return component.stability is not None and not component.identifiable


def _shares(drawn: Shares) -> list[tuple[Share, ...]]:
    """For each component the share of every factor, q over components."""
    columns: Mapping[str, tuple[Array, Array, Array]] = {}
    for name in SHOWN:
        if name in drawn.observed:
            p = pooled_p(drawn.observed[name], drawn.null[name])
            columns = {**columns, name: (drawn.observed[name], p, q_values(p))}
    axes = len(drawn.observed["plate"])
    return [
        tuple(Share(name, float(share[k]), float(p[k]), float(q[k])) for name, (share, p, q) in columns.items())
        for k in range(axes)
    ]


# -- how a component lies on a plate


@dataclass(frozen=True, eq=False)
class _Grid:
    """The wells in use: names of rows and columns, and the place of each row of the table."""

    design: Design
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    place: NDArray[np.intp] | None

    @classmethod
    def of(cls, design: Design) -> _Grid:
        if design.row is None or design.column is None:
            return cls(design, (), (), None)
        top, left = int(design.row.min()), int(design.column.min())
        rows = tuple(address_name(k, 0)[:-2] for k in range(top, int(design.row.max()) + 1))
        columns = tuple(str(k + 1) for k in range(left, int(design.column.max()) + 1))
        return cls(design, rows, columns, (design.row - top) * len(columns) + design.column - left)

    def maps(self, slabs: Slabs) -> Callable[[int], tuple[tuple[float, ...], ...]]:
        """Gives the map of a component: the mean over plates of each well, plate means taken out."""
        if self.place is None:
            return lambda k: ()
        size = len(self.rows) * len(self.columns)
        wells = np.bincount(self.place, minlength=size).astype(np.float64)
        adding, plates = indicator(self.place, size), indicator(self.design.plate.codes, self.design.plate.size)
        counts = self.design.plate.counts[:, None].astype(np.float32)
        # What a plate's wells add up to at each address, less as many of the plate's means.
        crossed = adding @ plates.T
        found = []
        for slab in slabs:
            means = (plates @ slab) / counts
            with np.errstate(invalid="ignore"):
                found.append((adding @ slab - crossed @ means) / wells[:, None])
        values = np.concatenate(found, axis=1).round(MAP_DIGITS)
        shape = len(self.rows), len(self.columns)
        return lambda k: tuple(
            tuple(row) for row in values[:, k].astype(np.float64).reshape(shape).round(MAP_DIGITS).tolist()
        )


# -- what it says


def _answer(cards: Sequence[ComponentCard], elsewhere: ReproducibleRank | None) -> Answer:
    """How many components have each role; only those that refits find again, where refits were made."""
    kept = [card for card in cards if not _refused(card)]
    roles = ("technical", "biological", "both", "neither")
    values = {"components": len(cards)} | {r: sum(card.role == r for card in kept) for r in roles}
    if len(kept) == len(cards):
        return Answer("roles", values)
    refused = {"refused": len(cards) - len(kept), "components": len(cards)}
    rank = {} if elsewhere is None else vars(elsewhere)
    told = {"components": len(cards)} if not kept else {**values, "reproducible": len(kept)}
    return Answer(
        "roles" if kept else "none_reproducible", told, remarks=(Answer("cards_refused", {**refused, **rank}),)
    )


def _alerts(questions: Questions) -> list[Alert]:
    plates, replicates, design = questions.plates, questions.replicates, questions.plates.design
    name, locked = design.name, replicates.locked.get(POSITION, 0.0)
    treated = int((~design.control).sum())
    covered = [f"{seen} of {used} {what}" for what, (seen, used) in plates.uncovered.items()]
    found: list[tuple[bool, str, dict[str, Any]]] = [
        (not plates.from_controls, "few_controls", {}),
        (not replicates.names, "no_replicates", {}),
        (
            bool(replicates.names) and replicates.left_out > 0,
            "not_replicated",
            {"wells": replicates.left_out, "treated": treated},
        ),
        (locked > LOCKED, "layout_locked", {"replicates": locked}),
        (bool(covered), "controls_in_few_places", {"covered": covered}),
    ]
    return [Alert(code, {"name": name, **values}) for holds, code, values in found if holds]
