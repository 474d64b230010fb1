"""Table 2 of Nelson et al. (2026): does ICA make of a plain autoencoder what disentanglement models are made for?

Data sets with known factors, models of Hsu et al. (2023), settings of each, seeds; InfoMEC as training goes on, of the plain
autoencoder also after ICA; then for each model the setting and step with the best InfoM among those that reconstruct well enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.disentanglement import MODES, PROFILES, Codes, as_codes
from identifiable.experiments.changing import changed
from identifiable.experiments.factor_pictures import DATASETS, read_factor_pictures
from identifiable.experiments.recording import choices, with_torch
from identifiable.experiments.selecting import PLAIN, ROWS, Selection, select
from identifiable.experiments.traversing import traversals
from identifiable.intake import content_hash, default_provenance
from identifiable.metrics import ica_step, infomec
from identifiable.options import ReproduceOptions
from identifiable.results import Alert, Evaluation, Input, ModelRun, Table2, Traversal
from identifiable.run import Progress
from identifiable.worlds import FactorGrid, PictureWorld, SceneWorld, SpriteWorld

if TYPE_CHECKING:
    from identifiable.experiments import Experiment
    from identifiable.nn import Architecture, Trained

Pictures = NDArray[np.uint8]
Draw = Callable[[Any], Pictures]
Say = Callable[[str], None]

WORLDS = ("sprites", "scene")  # rendered here; the others are files
BIOAE_DECAY = 1e-4  # Hsu et al.: the only weight decay of BioAE
PROFILE = "hsu-training"  # which logged the runs that Hsu et al. published; smaller scales take the code given to users
SMALL_PROFILE = "hsu-standalone"


@dataclass(frozen=True)
class Settings:
    """The settings of the experiment at the paper's scale; where they are not known, ours."""

    data: tuple[str, ...] = ("shapes3d", "mpi3d", "falcor3d", "isaac3d")
    models: tuple[str, ...] = ("ae", "beta-vae", "beta-tcvae", "bioae", "vq-vae", "vq-vae-wd", "qlae")
    seeds: int = 3
    ae_decays: tuple[float, ...] = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
    betas: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    lambda_tcs: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0)
    lambda_activities: tuple[float, ...] = (0.01, 0.1)
    vq_decay: float = 0.01
    qlae_decays: tuple[float, ...] = (1e-3, 1e-2, 0.1)
    resolution: int = 64
    widths: tuple[int, ...] = (32, 64, 128, 256)
    dense: int = 256
    latents_per_factor: int = 2
    rows: int = 1_000_000  # at most, to train on
    validation: int = 10_000  # of the same rows, as in the original
    sprite_sizes: tuple[int, ...] = (3, 6, 40, 32, 32)
    scene_sizes: tuple[int, ...] = (10, 10, 10, 8, 4, 15)
    steps: int = 200_000
    evaluations: int = 40
    batch: int = 128
    learning_rate: float = 1e-3
    clip_values: float = 1.0
    profile: str = PROFILE
    psnr_within: float = 2.0  # decibels of the best plain autoencoder's; the original's filter is not known
    together: int = 1

    def __post_init__(self) -> None:
        for name in ("seeds", "rows", "validation", "steps", "evaluations", "batch", "latents_per_factor", "together"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} {getattr(self, name)}: expected a whole number of at least 1.")
        for name in ("ae_decays", "betas", "lambda_tcs", "lambda_activities", "qlae_decays"):
            _each_a_weight(name, getattr(self, name))
        _each_a_weight("vq_decay", (self.vq_decay,))
        _each_known("data", self.data, (*WORLDS, *DATASETS))
        _each_known("models", self.models, tuple(GRIDS))
        _each_known("profile", (self.profile,), tuple(PROFILES))
        if PLAIN not in self.models:
            raise UsageError(
                f"models {self.models}: expected {PLAIN} among them, which the others are measured against."
            )
        if self.steps % self.evaluations:
            raise UsageError(
                f"evaluations {self.evaluations}: expected a divisor of the {self.steps} steps, so that all are equally far apart."
            )
        if not self.psnr_within >= 0:
            raise UsageError(f"psnr_within {self.psnr_within}: expected decibels of at least 0.")

    @property
    def architecture(self) -> Architecture:
        from identifiable.nn import Architecture

        return Architecture(resolution=self.resolution, widths=self.widths, dense=self.dense)


# What differs from the paper's scale. On two cores `small` takes about two hours, `smoke` half a minute.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {
        "data": WORLDS,
        "models": ("ae", "beta-vae", "beta-tcvae", "bioae", "qlae"),
        "ae_decays": (0.0, 0.01, 0.1),
        "betas": (0.3, 3.0),
        "lambda_tcs": (0.3, 3.0),
        "profile": SMALL_PROFILE,
        "lambda_activities": (0.01,),
        "qlae_decays": (1e-3, 0.1),
        "resolution": 16,
        "widths": (16, 32),
        "dense": 64,
        "rows": 12_000,
        "validation": 4000,
        "sprite_sizes": (3, 4, 8, 12, 12),
        "scene_sizes": (6, 6, 6, 4, 4, 8),
        "steps": 3000,
        "evaluations": 3,
        "batch": 32,
    },
    "smoke": {
        "data": WORLDS,
        "profile": SMALL_PROFILE,
        "models": ("ae", "beta-vae", "qlae"),
        "seeds": 2,
        "ae_decays": (0.0,),
        "betas": (1.0,),
        "qlae_decays": (1e-3,),
        "resolution": 8,
        "widths": (8,),
        "dense": 32,
        "rows": 600,
        "validation": 300,
        "sprite_sizes": (3, 3, 4, 6, 6),
        "scene_sizes": (4, 4, 4, 3, 2, 3),
        "steps": 40,
        "evaluations": 2,
        "batch": 32,
        "learning_rate": 3e-3,
        "psnr_within": 3.0,
    },
}


@dataclass(frozen=True)
class Fit:
    """One setting of one model: what is trained from every seed."""

    model: str  # as in the settings
    kind: str  # as `nn` calls it
    knob: str | None
    value: float
    weight_decay: float

    @property
    def name(self) -> str:
        parts = [self.model, *([f"{self.knob}={self.value:g}"] if self.knob else []), f"decay={self.weight_decay:g}"]
        return ",".join(parts)


def _one_knob(model: str, knob: str, setting: str, decay: float = 0.0) -> Callable[[Settings], list[Fit]]:
    return lambda chosen: [Fit(model, model, knob, value, decay) for value in getattr(chosen, setting)]


GRIDS: Mapping[str, Callable[[Settings], list[Fit]]] = {
    "ae": lambda chosen: [Fit("ae", "ae", None, math.nan, decay) for decay in chosen.ae_decays],
    "beta-vae": _one_knob("beta-vae", "beta", "betas"),
    "beta-tcvae": _one_knob("beta-tcvae", "lambda_tc", "lambda_tcs"),
    "bioae": _one_knob("bioae", "lambda_activity", "lambda_activities", BIOAE_DECAY),
    "vq-vae": lambda _: [Fit("vq-vae", "vq-vae", None, math.nan, 0.0)],
    "vq-vae-wd": lambda chosen: [Fit("vq-vae-wd", "vq-vae", None, math.nan, chosen.vq_decay)],
    "qlae": lambda chosen: [Fit("qlae", "qlae", None, math.nan, decay) for decay in chosen.qlae_decays],
}


def settings(scale: str, changes: Mapping[str, Any]) -> Settings:
    """The settings at a scale, some of them changed."""
    return changed(Settings(**PRESETS[scale]), changes)


@dataclass(frozen=True, eq=False)
class FactorData:
    """One data set: pictures to train on, the first of them (a copy) also to validate on, and the factors of those."""

    name: str
    grid: FactorGrid
    training: Pictures
    validation: Pictures
    codes: NDArray[np.int64]
    about: Input

    def scored(self, latents: NDArray[Any], *, discrete: bool) -> Codes:
        """Latents of the validation pictures with their factors."""
        return as_codes(latents, self.codes, discrete=discrete, kinds="discrete", factor_names=self.grid.names)


def run(
    experiment: Experiment,
    chosen: Settings,
    options: ReproduceOptions,
) -> Table2:
    """Train every fit on every data set from every seed, select, and draw what ICA does."""
    scale, data, seed = options.scale, options.data, options.seed
    checkpoint, progress, say = options.checkpoint, options.progress, options.say
    _ = chosen.architecture  # what cannot be had is said before the first of many hours
    sources = {name: _source(name, chosen, data) for name in chosen.data}
    runs: list[ModelRun] = []
    inputs: list[Input] = []
    fits = [fit for model in chosen.models for fit in GRIDS[model](chosen)]
    total = len(chosen.data) * len(fits) * chosen.seeds
    plain: dict[tuple[str, float], Any] = {}  # of the first seed
    validated: dict[str, FactorData] = {}
    for name in chosen.data:
        found = _factor_data(name, *sources[name], chosen, seed)
        inputs.append(found.about)
        for fit in fits:
            trained = _train(fit, found, chosen, seed, checkpoint, progress)
            for own_seed, one in zip(_seeds(chosen, seed), trained, strict=True):
                runs.append(_record(fit, name, own_seed, one))
                if say is not None:
                    say(_line(len(runs), total, runs[-1]))
            if fit.model == PLAIN:
                plain[name, fit.weight_decay] = trained[0].model
        validated[name] = replace(found, training=found.validation)
        del found  # pictures of two sets may not fit into memory
    selection = select(runs, chosen.data, chosen.models, chosen.psnr_within)
    pictures, undrawn = _drawn(selection, validated, plain, seed)
    return Table2(
        inputs=tuple(inputs),
        settings={"experiment": "table2", "scale": scale, "seed": seed, **asdict(chosen)},
        alerts=(*_alerts(runs, chosen), *selection.alerts, *undrawn),
        provenance=with_torch(
            default_provenance(seed, options.command or "identifiable.experiments.reproduce('table2')")
        ),
        scale=scale,
        choices=choices(chosen, experiment.settings),
        published=experiment.published,
        data=chosen.data,
        thresholds=selection.thresholds,
        cells=selection.cells,
        lifts=selection.lifts,
        runs=tuple(runs),
        traversals=tuple(pictures),
    )


def _each_a_weight(setting: str, values: Sequence[float]) -> None:
    if not values or len(set(values)) < len(values) or not all(0 <= value < math.inf for value in values):
        raise UsageError(f"{setting} {', '.join(map(str, values))}: expected different numbers of at least 0.")


def _each_known(setting: str, names: Sequence[str], known: Sequence[str]) -> None:
    unknown = [name for name in names if name not in known]
    if unknown or not names or len(set(names)) < len(names):
        raise UsageError(f"{setting} {', '.join(map(str, names))}: expected different ones of {', '.join(known)}.")


def _seeds(chosen: Settings, seed: int) -> list[int]:
    return [seed + k for k in range(chosen.seeds)]


def _factor_data(name: str, grid: FactorGrid, draw: Draw, chosen: Settings, seed: int) -> FactorData:
    """Rows drawn once from the grid, without repeats; the whole of it if there are no more."""
    order = np.random.default_rng([seed, 1]).permutation(grid.n)[: chosen.rows]
    training = draw(order)
    flat = training.reshape(len(training), -1)
    about = Input(name, len(flat), flat.shape[1], str(flat.dtype), content_hash(Blocks(flat, name=name)))
    first = order[: chosen.validation]
    return FactorData(name, grid, training, training[: len(first)].copy(), grid.codes(first), about)


def _source(name: str, chosen: Settings, folder: str | None) -> tuple[FactorGrid, Draw]:
    """The grid of a data set, and how its pictures are had."""
    grid, draw = _opened(name, chosen, folder)
    there, wanted = min(grid.n, chosen.rows), max(chosen.batch, chosen.validation)
    if there < wanted:
        raise DataError(
            f"{name}: expected at least {wanted} pictures (a batch of {chosen.batch}, {chosen.validation} for validation), "
            f"got {there}; set rows or the sizes of factors higher, or validation and batch lower."
        )
    return grid, draw


def _opened(name: str, chosen: Settings, folder: str | None) -> tuple[FactorGrid, Draw]:
    if name in WORLDS:
        world: PictureWorld
        if name == "sprites":
            world = SpriteWorld(chosen.resolution, sizes=chosen.sprite_sizes)
        else:
            world = SceneWorld(chosen.resolution, sizes=chosen.scene_sizes)
        return world.grid, world.render_index
    if chosen.resolution != 64:
        raise UsageError(
            f"resolution {chosen.resolution}: {DATASETS[name].name} is read at 64 pixels; set resolution=64."
        )
    about = DATASETS[name]
    if folder is None:
        raise UsageError(
            f"{about.name} is not part of this package: pass --data FOLDER with its file in it, or choose worlds that need none "
            f"(--set data=sprites,scene). Download it yourself from {about.where}."
        )
    stored = read_factor_pictures(_file(Path(folder), about.file_hint, about.name, about.where), dataset=name)
    return stored.grid, stored.pictures


def _file(folder: Path, hint: str, name: str, where: str) -> Path:
    """The one file of a folder whose name says that it is this data set."""
    if not folder.is_dir():
        return folder
    found = sorted(path for path in folder.iterdir() if hint in path.name.lower() and path.suffix != ".sha256")
    if len(found) != 1:
        what = "none" if not found else ", ".join(path.name for path in found)
        raise DataError(f"{folder}: expected one file with {hint!r} in its name, got {what}; {name} is at {where}.")
    return found[0]


def _train(
    fit: Fit, data: FactorData, chosen: Settings, seed: int, checkpoint: str | None, progress: Progress | None
) -> list[Trained]:
    from identifiable.nn import Training, representation_model, train

    seeds = _seeds(chosen, seed)
    knobs = {fit.knob: fit.value} if fit.knob else {}
    n_latents = chosen.latents_per_factor * len(data.grid.sizes)
    models = [
        representation_model(fit.kind, chosen.architecture, n_latents, seed=own, n_rows=len(data.training), **knobs)
        for own in seeds
    ]
    return train(
        models,
        data.training,
        data.validation,
        Training(
            learning_rate=chosen.learning_rate,
            batch=chosen.batch,
            max_epochs=chosen.evaluations,
            epoch_steps=chosen.steps // chosen.evaluations,
            patience=None,
            clip=None,
            clip_values=chosen.clip_values,
            keep="last",
        ),
        seeds=seeds,
        weight_decay=[fit.weight_decay] * len(seeds),
        together=chosen.together,
        watch_name=f"InfoMEC, {chosen.profile}",
        watch=lambda _, now: [_evaluate(model, fit, data, chosen.profile, seed) for model in now],
        checkpoint=None if checkpoint is None else Path(checkpoint) / data.name / _kept_as(fit, chosen.profile),
        progress=progress,
        of=f"{data.name}, {fit.name}",
    )


def _kept_as(fit: Fit, profile: str) -> str:
    """The name of a checkpoint, which keeps scores, too."""
    return f"{fit.name},{profile}"


def _evaluate(model: Any, fit: Fit, data: FactorData, profile: str, seed: int) -> dict[str, Any]:
    """PSNR and InfoMEC of a model as it is now; of the plain autoencoder after every mode of ICA, too."""
    from identifiable.nn import encodings, psnr

    latents = encodings(model, data.validation)
    found: dict[str, Any] = {"psnr": psnr(model, data.validation), "scores": {}}
    if not np.isfinite(latents).all():
        return found
    tables = {"none": np.asarray(latents, dtype=np.float64)}
    for mode in MODES if fit.model == PLAIN else ():
        with suppress(DataError):  # FastICA without whitening may find no rotation: there is no score then
            tables[mode] = ica_step(tables["none"], mode=mode, seed=seed).latents
    for name, values in tables.items():
        scored = infomec(data.scored(values, discrete=bool(model.discrete)), profile=profile, seed=seed)
        found["scores"][name] = dict(scored.scores)
    return found


def _record(fit: Fit, data: str, seed: int, trained: Trained) -> ModelRun:
    steps = trained.steps // max(trained.epochs, 1)
    evaluations = tuple(
        Evaluation(steps * (k + 1), loss, seen["psnr"], seen["scores"])
        for k, (loss, seen) in enumerate(zip(trained.validation, trained.watched, strict=False))
    )
    return ModelRun(
        data, fit.model, fit.knob, fit.value, fit.weight_decay, seed, trained.steps, trained.stopped, evaluations
    )


def _line(done: int, total: int, found: ModelRun) -> str:
    """One line for each run, as it ends."""
    knob = f", {found.knob} {found.value:g}" if found.knob else ""
    start = f"run {done}/{total}: {found.data}, {ROWS[found.model]}{knob}, weight decay {found.weight_decay:g}, seed {found.seed}"
    if not found.evaluations or not found.evaluations[-1].scores:
        return f"{start}: {found.stopped}"
    last = found.evaluations[-1]
    scores = ", ".join(f"{mode.replace('none', 'InfoM')} {values['infom']:.2f}" for mode, values in last.scores.items())
    return f"{start}: {last.step} steps, {last.psnr:.1f} dB, {scores}"


def _drawn(
    selection: Selection, validated: Mapping[str, FactorData], plain: Mapping[tuple[str, float], Any], seed: int
) -> tuple[list[Traversal], list[Alert]]:
    """Traversals of the autoencoder that AE + ICA was selected for, of the first seed and as training left it."""
    pictures, alerts = [], []
    for name, data in validated.items():
        cell = selection.cell("AE + ICA", name)
        if cell is None or not cell.step:
            continue
        try:
            pictures += traversals(name, plain[name, cell.weight_decay], data.validation, data.scored, seed=seed)
        except DataError as error:  # selected at an earlier step; what took hours must not be lost for a picture
            alerts.append(Alert("no_traversals", {"name": name, "error": str(error)}))
    return pictures, alerts


def _alerts(runs: Sequence[ModelRun], chosen: Settings) -> list[Alert]:
    alerts = _without_rotation(runs)
    diverged = sum(found.stopped == "diverged" for found in runs)
    if diverged:
        alerts.append(Alert("diverged", {"diverged": diverged, "runs": len(runs)}))
    if set(chosen.data) & set(WORLDS):
        alerts.append(Alert("procedural_data", {"data": [d for d in chosen.data if d in WORLDS]}))
    published = Settings()
    narrower = sum(chosen.widths) < sum(published.widths)
    if narrower or chosen.steps < published.steps or chosen.resolution < published.resolution:
        alerts.append(
            Alert(
                "smaller_than_published",
                {"steps": chosen.steps, "widths": list(chosen.widths), "resolution": chosen.resolution},
            )
        )
    return alerts


def _without_rotation(runs: Sequence[ModelRun]) -> list[Alert]:
    """One alert for each mode of ICA that failed, which takes settings out of its row."""
    scored = [seen.scores for found in runs if found.model == PLAIN for seen in found.evaluations if seen.scores]
    failed = {mode: sum(mode not in scores for scores in scored) for mode in MODES}
    return [
        Alert("ica_failed", {"mode": mode, "failed": count, "evaluations": len(scored)})
        for mode, count in failed.items()
        if count
    ]
