"""Figure 4 of Roeder et al. (2021): hidden states of language models, layer by layer, by SVCCA.

The paper compares the four sizes of GPT-2 on the first sentences of the Penn Treebank; at scale paper their states are read from
files. At the other scales small GPTs that differ in their seeds alone stand in for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.experiments.changing import changed
from identifiable.experiments.gpt_seeds import GPT_SMOKE, GptSettings, gpt_seeds
from identifiable.experiments.roeder.measuring import every, figure, similarities
from identifiable.experiments.text import text_lines
from identifiable.intake import blocks_of, content_hash, inputs_of
from identifiable.io.layer_files import open_layers
from identifiable.options import ReproduceOptions
from identifiable.results import Input, RoederFigure, SeedModel, SeedPair
from identifiable.run import Stage

if TYPE_CHECKING:
    from identifiable.experiments import Experiment

NAME = "roeder-fig4"
SIZES = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")
AXIS = "layer"
SENTENCES = "ptb.txt"
BATCH = 16  # sentences at once


@dataclass(frozen=True)
class Settings(GptSettings):
    """How many principal components SVCCA keeps; then the size of the GPTs."""

    components: tuple[int, ...] = (16, 64, 256, 768)
    states: int = 13  # the last ones of every published model
    every: int = 4  # of these
    sentences: int = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("components", "states", "every", "sentences"):
            if np.min(getattr(self, name), initial=1) < 1 or not getattr(self, name):
                raise UsageError(f"{name} {getattr(self, name)}: expected whole numbers of at least 1.")


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {"components": (16, 64)},
    "smoke": {"components": (16, 64), **GPT_SMOKE, "width": 64},
}


def settings(scale: str, changes: Mapping[str, Any]) -> Settings:
    """The settings at a scale, some of them changed."""
    return changed(Settings(**PRESETS[scale]), changes)


@dataclass(frozen=True, eq=False)
class _Layers:
    """Layers of every model on the same tokens, and of the same models untrained; `at` numbers the layers."""

    at: Sequence[float]
    trained: Sequence[Sequence[NDArray[Any]]]
    untrained: Sequence[Sequence[NDArray[Any]]] | None
    models: tuple[SeedModel, ...]
    inputs: tuple[Input, ...]


def run(experiment: Experiment, chosen: Settings, options: ReproduceOptions) -> RoederFigure:
    """Compare every pair of models at every layer."""
    found = _published(chosen, options) if options.scale == "paper" else _seeds(chosen, options)
    pairs = list(_pairs(found, chosen, options))
    return figure(NAME, experiment, chosen, options, inputs=found.inputs, pairs=pairs, models=found.models)


def _pairs(found: _Layers, chosen: Settings, options: ReproduceOptions) -> Iterator[SeedPair]:
    both = every(len(found.models))
    for done, (a, b) in enumerate(both):
        seeds = (found.models[a].seed, found.models[b].seed)
        for k, at in enumerate(found.at):
            one, other = (np.asarray(found.trained[model][k], dtype=np.float64) for model in (a, b))
            for components in chosen.components:
                if components > min(one.shape[1], other.shape[1]):
                    continue
                measured = similarities(one, other, seed=options.seed, components=components)
                before: Mapping[Any, tuple[float, float]] = {}
                if found.untrained is not None:
                    blank = (np.asarray(found.untrained[model][k], dtype=np.float64) for model in (a, b))
                    before = similarities(*blank, seed=options.seed, components=components)
                for measure, (value, shuffled) in measured.items():
                    if measure != "r2":  # that of all components, whatever their number here
                        part = f"k = {components}"
                        untrained = before.get(measure, (math.nan, math.nan))[0]
                        yield SeedPair(AXIS, at, part, measure, seeds, value, shuffled, untrained)
        if options.progress is not None:
            options.progress(Stage("comparing layers"), done + 1, len(both))


def _seeds(chosen: Settings, options: ReproduceOptions) -> _Layers:
    found = gpt_seeds(chosen, options)
    models = tuple(
        SeedModel("", seed, run.steps, run.validation[-1] if run.validation else math.nan)
        for seed, run in zip(found.seeds, found.runs, strict=True)
    )
    return _Layers(range(chosen.layers + 1), list(found.trained), list(found.untrained), models, (found.text,))


def _published(chosen: Settings, options: ReproduceOptions) -> _Layers:
    """The layers of every published model, from its directory or from a file; numbered from the last one, which is 0."""
    folder = None if options.data is None else Path(options.data)
    if folder is None or not folder.is_dir():
        raise UsageError(
            f"{NAME} at scale paper needs --data, a folder with {', '.join(SIZES)}: model directories, and {SENTENCES} with a "
            "sentence a line; or files of their layers on the same tokens (gpt2.safetensors, …). Scales smoke and small train "
            "small models."
        )
    directories = any((folder / name).is_dir() for name in SIZES)
    found = _from_directories(folder, chosen, options) if directories else _from_files(folder, chosen)
    deep = min(map(len, found.trained))
    at = [-chosen.every * k for k in range(deep)][::-1]
    return replace(found, at=at, trained=[layers[-deep:] for layers in found.trained])


def _from_directories(folder: Path, chosen: Settings, options: ReproduceOptions) -> _Layers:
    """Every token of the first sentences, by the trained models and by the same ones with weights drawn anew."""
    from identifiable.nn.encoders import open_encoder

    lines = (line.strip() for line in text_lines(folder / SENTENCES))
    sentences = list(islice(filter(None, lines), chosen.sentences))
    if not sentences:
        raise DataError(f"{folder / SENTENCES}: expected a sentence a line, found none.")
    layers: tuple[list[Any], list[Any]] = ([], [])
    seen: list[NDArray[np.int64]] = []
    for k, name in enumerate(SIZES):
        for untrained, kept in ((None, layers[0]), (options.seed + k, layers[1])):
            encoder = open_encoder(folder / name, untrained=untrained)
            tokens = encoder.tokenized(sentences, encoder.limit)
            seen.append(np.concatenate(tokens))
            if not np.array_equal(seen[0], seen[-1]):
                raise DataError(f"{folder / name}: cuts the sentences into other tokens than {SIZES[0]}.")
            parts = []
            for first in range(0, len(tokens), BATCH):
                parts.append(encoder.token_features(tokens[first : first + BATCH], chosen.states, chosen.every))
                if options.progress is not None:
                    options.progress(Stage("hidden states", name), min(first + BATCH, len(tokens)), len(tokens))
            kept.append([np.concatenate(part) for part in zip(*parts, strict=True)])
    ids = seen[0][:, None].astype(np.float64)
    about = Input(SENTENCES, len(ids), 1, "int64", content_hash(Blocks(ids, name=SENTENCES)))
    return _Layers((), layers[0], layers[1], _models(), (about,))


def _from_files(folder: Path, chosen: Settings) -> _Layers:
    found = [open_layers(_file(folder, name))[0] for name in SIZES]
    counts = {layer.n for model in found for layer in model.layers}
    if len(counts) > 1:
        raise DataError(f"{folder}: expected the same tokens in every layer, got {sorted(counts)} rows.")
    trained = [
        [blocks_of(layer)[:] for layer in model.layers[-chosen.states :][:: -chosen.every][::-1]] for model in found
    ]
    inputs = tuple(about for model in found for about in inputs_of(model.layers[-1:]))
    return _Layers((), trained, None, _models(), inputs)


def _models() -> tuple[SeedModel, ...]:
    return tuple(SeedModel(name, k, 0, math.nan) for k, name in enumerate(SIZES))


def _file(folder: Path, name: str) -> Path:
    found = [path for suffix in (".safetensors", ".npz") if (path := folder / f"{name}{suffix}").is_file()]
    if len(found) != 1:
        raise DataError(f"{folder}: expected {name}.safetensors or {name}.npz, found {len(found)} of them.")
    return found[0]
