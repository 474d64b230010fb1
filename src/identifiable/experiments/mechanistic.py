"""Slot autoencoders (Brady et al. 2023; Matthes et al. 2025): are slots read off the Jacobian of a trained decoder?

Overlap of outputs x number of slots x dependence between slots x seeds. Every seed has a world, an autoencoder that knows nothing of
slots, the factors of its decoder, and the same autoencoder trained further, or again, with the compositional contrast. ICA of the same
latents stands beside it, with an oracle that puts its components into slots.

Ours: latents are uniform, not Gaussian, because ICA cannot tell Gaussian components apart even where they are independent; scores are
measured on independent slots (`draws`), where what one slot predicts of another is the model's fault. On dependent ones components
that are merely decorrelated score above the true latents.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtr

from identifiable._checks import UsageError
from identifiable.blocks import Blocks
from identifiable.disentanglement.ica_step import ica_step
from identifiable.disentanglement.regressed import sis
from identifiable.experiments.changing import changed
from identifiable.experiments.recording import choices, with_torch
from identifiable.experiments.selecting import estimate
from identifiable.intake import content_hash, default_provenance
from identifiable.mechanistic.factors import Found, find_factors
from identifiable.mechanistic.operator import subspaces, whitened
from identifiable.mechanistic.scores import block_scores, sparsity_gap
from identifiable.moments import Array
from identifiable.options import ReproduceOptions
from identifiable.results import Alert, Estimate, GapCell, Input, Mechanistic, SlotCell, SlotModel, SlotScore
from identifiable.results.mechanistic import Draws, Way
from identifiable.worlds.slots import SlotWorld

if TYPE_CHECKING:
    from identifiable.experiments import Experiment
    from identifiable.nn import Trained

NAME = "mechanistic"
LAWS = ("uniform", "normal")
HELD_OUT = 0.1  # of the rows
EPOCHS = 5  # validations over a training
GROUPING_ROWS = 500  # with which the oracle asks what a component is about
GAP_OUTPUTS = 6  # of a factor, in the table of sparsity gaps
STEP_SECONDS = 1e-3  # for one model at `small` on one core (11 CPU minutes in all)
PENALTY_STEPS = 4  # plain steps that take as long as one with the penalty
Groups = list[list[int]]


@dataclass(frozen=True)
class Settings:
    """The settings at the paper's scale; where they are not known, ours."""

    slots: tuple[int, ...] = (2, 3, 5)
    overlaps: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.5)
    dependences: tuple[float, ...] = (0.0, 0.7)
    seeds: int = 5
    law: str = "uniform"
    slot_dim: int = 3
    slot_outputs: int = 20
    hidden: int = 80
    rows: int = 80_000
    batch: int = 64
    learning_rate: float = 1e-3
    schedule: str = "cosine"
    steps: int = 115_000
    penalty: float = 0.1
    penalty_steps: int = 20_000  # from a found basis
    scratch_steps: int = 115_000  # with the penalty from the start; 0: not at all
    points: int = 200  # at which Jacobians are taken
    scored: int = 2000  # rows on which slots are scored

    def __post_init__(self) -> None:
        least = {"seeds": 1, "slot_dim": 1, "hidden": 1, "batch": 1, "rows": 20, "points": 1, "scored": 100}
        steps = {"steps": EPOCHS, "penalty_steps": EPOCHS, "scratch_steps": 0}
        for name, bound in {**least, **steps, "slot_outputs": self.slot_dim}.items():
            if getattr(self, name) < bound:
                raise UsageError(f"{name} {getattr(self, name)}: expected a whole number of at least {bound}.")
        for name in steps:
            if getattr(self, name) % EPOCHS:
                raise UsageError(f"{name} {getattr(self, name)}: expected a multiple of {EPOCHS}.")
        if not self.slots or min(self.slots) < 2:
            raise UsageError(f"slots {self.slots}: expected whole numbers of at least 2.")
        for name in ("overlaps", "dependences"):
            if not getattr(self, name) or not all(0 <= value < 1 for value in getattr(self, name)):
                raise UsageError(f"{name} {getattr(self, name)}: expected numbers of at least 0 and below 1.")
        for name, known in (("law", LAWS), ("schedule", ("cosine", "constant"))):
            if getattr(self, name) not in known:
                raise UsageError(f"{name} {getattr(self, name)}: expected {' or '.join(known)}.")
        if not self.penalty > 0:
            raise UsageError(f"penalty {self.penalty}: expected a number above 0.")


# What differs from the paper's scale. On one core `small` takes a quarter of an hour, `smoke` half a minute. At `small` the learning
# rate was chosen by the reconstruction loss of seed 0; 2,000 steps with the penalty take as long as 4,000 plain ones and 1,000 with it.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {
        "slots": (2, 3),
        "overlaps": (0.0, 0.2),
        "rows": 20_000,
        "learning_rate": 3e-3,
        "steps": 4000,
        "penalty_steps": 1000,
        "scratch_steps": 2000,
        "scored": 1000,
    },
    "smoke": {
        "slots": (2,),
        "overlaps": (0.0,),
        "seeds": 2,
        "slot_dim": 2,
        "slot_outputs": 10,
        "hidden": 32,
        "rows": 4000,
        "learning_rate": 3e-3,
        "steps": 1500,
        "penalty_steps": 100,
        "scratch_steps": 200,
        "points": 50,
        "scored": 400,
    },
}


def settings(scale: str, changes: Mapping[str, Any]) -> Settings:
    """The settings at a scale, some of them changed."""
    return changed(Settings(**PRESETS[scale]), changes)


# -- worlds


@dataclass(frozen=True, eq=False)
class Made:
    """A world of one condition and seed: its outputs for training, divided by their standard deviation, and how to draw more."""

    world: SlotWorld
    seed: int
    law: str
    rows: NDArray[np.float32]
    scale: float

    @classmethod
    def of(cls, chosen: Settings, slots: int, overlap: float, dependence: float, seed: int, root: int) -> Made:
        rng = np.random.default_rng([root, seed, slots])  # the same generator, whatever the overlap and the dependence
        world = SlotWorld.of(
            slots,
            dim=chosen.slot_dim,
            outputs=chosen.slot_outputs,
            overlap=overlap,
            dependence=dependence,
            rng=rng,
        )
        rows = world(latents(world, chosen.rows, chosen.law, rng))
        scale = float(rows.std())
        return cls(world, seed, chosen.law, (rows / scale).astype(np.float32), scale)

    def drawn(self, n: int, draws: Draws, *key: int) -> tuple[Array, NDArray[np.float32]]:
        """Fresh latents and their outputs, as in training or with independent slots."""
        world = replace(self.world, dependence=0.0) if draws == "independent" else self.world
        z = latents(world, n, self.law, np.random.default_rng([*key, self.seed, world.slots]))
        return z, (world(z) / self.scale).astype(np.float32)

    @property
    def groups(self) -> Groups:
        return blocks_as_groups([len(self.world.first)] * self.world.slots)

    @property
    def about(self) -> dict[str, Any]:
        world = self.world
        return {"slots": world.slots, "overlap": world.overlap, "dependence": world.dependence, "seed": self.seed}


def latents(world: SlotWorld, n: int, law: str, rng: np.random.Generator) -> Array:
    """Latents of variance 1: the world's, or those with each made uniform (a Gaussian copula)."""
    z = world.draw(n, rng=rng)
    if law == "normal":
        return z
    uniform: Array = (ndtr(z) - 0.5) * math.sqrt(12)
    return uniform


def blocks_as_groups(sizes: Sequence[int]) -> Groups:
    ends = np.cumsum(sizes)
    return [list(range(end - size, end)) for end, size in zip(ends.tolist(), sizes, strict=True)]


# -- one stack of models: a number of slots and an overlap


def trained_stack(
    made: Sequence[Made], models: Mapping[int, Any], steps: int, chosen: Settings, options: ReproduceOptions, of: str
) -> dict[int, Trained]:
    """Train models, each on the world whose place it is known by, all at once."""
    from identifiable.nn import Training, train

    how = Training(
        learning_rate=chosen.learning_rate,
        batch=chosen.batch,
        epoch_steps=steps // EPOCHS,
        max_epochs=EPOCHS,
        patience=None,
        clip=None,
        keep="last",
        schedule=chosen.schedule,  # type: ignore[arg-type]
    )
    rows = np.stack([one.rows for one in made], axis=1)
    held = max(1, int(HELD_OUT * len(rows)))
    folder = None if options.checkpoint is None else Path(options.checkpoint) / of.replace(" ", "-").replace(",", "")
    found = train(
        list(models.values()),
        rows[held:],
        rows[:held],
        how,
        seeds=[made[w].seed for w in models],
        together=len(models),
        checkpoint=folder,
        progress=options.progress,
        of=of,
    )
    if options.say is not None:
        options.say(f"{of}: {len(found)} models trained")
    return dict(zip(models, found, strict=True))


def expected(chosen: Settings, kept: bool) -> str:
    """How long a run takes, and whether it can be stopped, to say before it starts."""
    models = len(chosen.slots) * len(chosen.overlaps) * len(chosen.dependences) * chosen.seeds
    steps = chosen.steps + PENALTY_STEPS * (chosen.penalty_steps + chosen.scratch_steps)
    minutes = math.ceil(models * steps * STEP_SECONDS / 60)
    time = f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"
    stopped = "it can be stopped and continued" if kept else "with --checkpoint FOLDER it can be stopped and continued"
    return f"{models} autoencoders, about {time} on one core; {stopped}"


def run(experiment: Experiment, chosen: Settings, options: ReproduceOptions) -> Mechanistic:
    """Train autoencoders of every condition, find the factors of their decoders, and score slots before and after."""
    if options.say is not None:
        options.say(expected(chosen, options.checkpoint is not None))
    models: list[SlotModel] = []
    scores: list[SlotScore] = []
    inputs: list[Input] = []
    for slots in chosen.slots:
        for overlap in chosen.overlaps:
            made = [
                Made.of(chosen, slots, overlap, dependence, seed, options.seed)
                for dependence in chosen.dependences
                for seed in range(chosen.seeds)
            ]
            of = f"{slots} slots, overlap {overlap:g}"
            inputs.append(_input(of, made))
            for model, own in _stack(made, chosen, options, of):
                models.append(model)
                scores += own
    dependent = [score for score in scores if score.dependence > 0]
    stand_in = options.scale != "paper"
    return Mechanistic(
        inputs=tuple(inputs),
        settings={"experiment": NAME, "scale": options.scale, "seed": options.seed, **asdict(chosen)},
        alerts=(Alert("stand_in", {"scale": options.scale}),) if stand_in else (),
        provenance=with_torch(
            default_provenance(options.seed, options.command or f"identifiable.experiments.reproduce({NAME!r})")
        ),
        scale=options.scale,
        choices=choices(chosen, experiment.settings),
        published=experiment.published,
        lift=_difference(scores, "found", "raw"),
        over_ica=_difference(dependent, "found", "ica") if dependent else None,
        cells=tuple(_cells(scores)),
        gaps=tuple(sparsity_gaps(np.random.default_rng(options.seed))),
        models=tuple(models),
        scores=tuple(scores),
    )


def _input(of: str, made: Sequence[Made]) -> Input:
    rows = np.concatenate([one.rows for one in made])
    return Input(of, rows.shape[0], rows.shape[1], str(rows.dtype), content_hash(Blocks(rows, name=of)))


def _stack(
    made: Sequence[Made], chosen: Settings, options: ReproduceOptions, of: str
) -> Iterator[tuple[SlotModel, list[SlotScore]]]:
    """Of every world its plain model, and the scores of all ways."""
    from identifiable.nn import Penalised, SlotAutoencoder

    outputs, d, sizes = made[0].rows.shape[1], made[0].world.latents, [chosen.slot_dim] * made[0].world.slots
    # One start for each seed and number of slots, whatever the overlap and the dependence.
    starts = {
        w: SlotAutoencoder(outputs, d, hidden=chosen.hidden, world=w, seed=one.seed + 1000 * options.seed)
        for w, one in enumerate(made)
    }
    plain = trained_stack(made, starts, chosen.steps, chosen, options, of)
    factors = {w: _factors(plain[w].model, one, chosen, options.seed) for w, one in enumerate(made)}
    turned: dict[int, Any] = {}
    later: dict[int, Trained] = {}
    for w, own in factors.items():
        turned[w] = Penalised(plain[w].model, own.blocks, weight=chosen.penalty, basis=own.basis)
    for k, blocks in enumerate(
        dict.fromkeys(model.blocks for model in turned.values())
    ):  # a stack has one shape of blocks
        alike = {w: model for w, model in turned.items() if model.blocks == blocks}
        later |= trained_stack(made, alike, chosen.penalty_steps, chosen, options, f"{of}, then penalty {k + 1}")
    scratch: dict[int, Trained] = {}
    if chosen.scratch_steps:
        begun = {w: Penalised(model, sizes, weight=chosen.penalty) for w, model in starts.items()}
        scratch = trained_stack(made, begun, chosen.scratch_steps, chosen, options, f"{of}, penalty")
    for w, one in enumerate(made):
        decoders: dict[Way, Any] = {
            "raw": Penalised(plain[w].model, sizes),
            "found": turned[w],
            "then_penalty": later[w].model,
            **({"penalty": scratch[w].model} if scratch else {}),
        }
        found, loss = factors[w].found, plain[w].validation[-1] if plain[w].validation else math.nan
        yield _model(one, loss, found), list(_scores(one, decoders, chosen, options.seed))


@dataclass(frozen=True, eq=False)
class Factors:
    """The factors of a decoder, and a basis of the latents with their blocks side by side."""

    found: Found
    basis: Array
    blocks: tuple[int, ...]


def _factors(model: Any, one: Made, chosen: Settings, seed: int) -> Factors:
    """The factors of a decoder at latents of rows that it was not trained on."""
    from identifiable.nn import outputs, products

    _, rows = one.drawn(chosen.points, "own", seed, 1)
    points = outputs(model.layers_in, rows)
    jacobians = np.swapaxes(products(model.layers_out).jacobian(points), 1, 2)
    found = find_factors(jacobians, seed=seed)
    parts = list(found.subspaces or nearest_subspaces(jacobians, found))
    parts[-1] = np.hstack([parts[-1], found.null_space])  # directions that move nothing go with the last block
    return Factors(found, np.hstack(parts), tuple(part.shape[1] for part in parts))


def nearest_subspaces(jacobians: NDArray[np.floating[Any]], found: Found) -> list[Array]:
    """Of factors that own outputs in no common basis, one basis for all points: the leading directions of what each moves.

    Ours. The owners of the outputs are known whatever the mixing of the latents, so this is the linear start nearest to them.
    """
    n, m, d = jacobians.shape
    owners = np.tile(found.owners, n)
    frame = whitened(np.asarray(jacobians, np.float64).reshape(n * m, d), float(np.finfo(jacobians.dtype).eps))
    axes, sizes = subspaces(frame.white[owners >= 0], owners[owners >= 0], found.n_factors)
    return [frame.to_white @ part for part in np.split(axes, np.cumsum(sizes)[:-1], axis=1)]


def _model(one: Made, loss: float, found: Found) -> SlotModel:
    right = found.dimensions == (len(one.world.first),) * one.world.slots
    at = found.n_factors
    after = float(found.leak[at]) if at < len(found.leak) else 1.0
    return SlotModel(
        **one.about,
        loss=loss,
        n_factors=at,
        dimensions=found.dimensions,
        right=right,
        certain=found.certain,
        reason=found.reason,
        linear=found.linear,
        leak=float(found.leak[at - 1]),
        next_leak=after,
    )


def _scores(one: Made, decoders: Mapping[Way, Any], chosen: Settings, seed: int) -> Iterator[SlotScore]:
    """Slots scored on fresh rows, with independent slots first."""
    raw = decoders["raw"]
    step = ica_step(_encoded(raw, one.drawn(chosen.scored, "own", seed, 2)[1]), mode="whitened", seed=seed)
    kinds: tuple[Draws, ...] = ("independent", "own") if one.world.dependence else ("independent",)
    for draws in kinds:
        z, rows = one.drawn(chosen.scored, draws, seed, 3)
        components = (_encoded(raw, rows) - step.offset) @ step.matrix
        read: list[tuple[Way, Array, Groups, float | None]] = [
            ("true", z, one.groups, None),
            ("ica", components, oracle_groups(components, z, one.groups, seed), None),
        ]
        for way, model in decoders.items():
            read.append(
                (way, _encoded(model, rows), blocks_as_groups(model.blocks), _contrast(model, rows[: chosen.points]))
            )
        for way, values, groups, contrast in read:
            value = float(sis(values, z, groups, one.groups, seed=seed, max_rows=chosen.scored).sis)
            yield SlotScore(**one.about, way=way, draws=draws, sis=value, contrast=contrast)


def _encoded(model: Any, rows: NDArray[np.float32]) -> Array:
    from identifiable.nn import outputs

    return np.asarray(outputs(model, rows, function=model.encoder), dtype=np.float64)


def _contrast(model: Any, rows: NDArray[np.float32]) -> float | None:
    from identifiable.nn import products

    if len(model.blocks) < 2:
        return None
    jacobians = products(model.decoder).jacobian(_encoded(model, rows).astype(np.float32))
    return block_scores(np.swapaxes(jacobians, 1, 2), blocks_as_groups(model.blocks)).contrast


def oracle_groups(components: Array, truth: Array, groups: Groups, seed: int) -> Groups:
    """Components in the slots that they predict best, as many in each as it has latents, for the largest sum of R²."""
    about = np.stack(
        [
            np.asarray(sis(components[:, [j]], truth, [[0]], groups, seed=seed, max_rows=GROUPING_ROWS).details["r2"])[
                :, 0
            ]
            for j in range(components.shape[1])
        ]
    )
    places = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    chosen, taken = linear_sum_assignment(-about[:, places])
    found: Groups = [[] for _ in groups]
    for j, place in zip(chosen.tolist(), places[taken].tolist(), strict=True):
        found[place].append(j)
    return [group for group in found if group]


# -- over seeds


def _cells(scores: Iterable[SlotScore]) -> Iterator[SlotCell]:
    groups: dict[tuple[int, float, float, Way, Draws], list[float]] = {}
    for s in scores:
        groups.setdefault((s.slots, s.overlap, s.dependence, s.way, s.draws), []).append(s.sis)
    for key, values in groups.items():
        yield SlotCell(*key, estimate(values))


def _difference(scores: Iterable[SlotScore], first: Way, second: Way) -> Estimate:
    """One way less another within models, on independent draws: of each seed the mean over conditions, then over seeds."""
    found: dict[Way, dict[tuple[int, int, float, float], float]] = {first: {}, second: {}}
    for s in scores:
        if s.draws == "independent" and s.way in found:
            found[s.way][s.seed, s.slots, s.overlap, s.dependence] = s.sis
    by_seed: dict[int, list[float]] = {}
    for key, value in found[first].items():
        by_seed.setdefault(key[0], []).append(value - found[second][key])
    return estimate([fmean(values) for values in by_seed.values()])


# -- Type S


def sparsity_gaps(rng: np.random.Generator) -> Iterator[GapCell]:
    """Two factors of one dimension that share outputs: the exact gap beside its closed form.

    Proportional: n - 2 o, so Type S needs an overlap strictly below half (the paper's remark); generic: n - 1 - o from o = 1 on, and
    n at o = 0.
    """
    n = GAP_OUTPUTS
    for kind in ("proportional", "generic"):
        for shared in range(n // 2 + 1 if kind == "proportional" else n - 1):
            J = np.zeros((2 * n - shared, 2))
            J[:n, 0] = 1.0 if kind == "proportional" else rng.uniform(1, 2, n)
            J[n - shared :, 1] = 1.0 if kind == "proportional" else rng.uniform(1, 2, n)
            formula = n - 2 * shared if kind == "proportional" or not shared else n - 1 - shared
            yield GapCell(kind, n, shared, sparsity_gap(J, [[0], [1]]).gap, formula)
