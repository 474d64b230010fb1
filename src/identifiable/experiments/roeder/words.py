"""Figure 1 of Roeder et al. (2021): word embeddings of a log-bilinear model, from several seeds.

A word is predicted from the words around it. f is the prediction from the context, g the vector of a word. The paper trains by noise
contrastive estimation on the One Billion Word benchmark; `small` has 500 words of any text and the whole softmax, `smoke` a text made by
a Markov chain. Windows are held out at the end of the text. Vectors of words are trained, and held out of fitted maps only, by folds.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.experiments.changing import changed
from identifiable.experiments.roeder.measuring import (
    Measures,
    check_settings,
    disjoint,
    figure,
    from_heads,
    retrained,
    scatter,
    seeds_of,
    similarities,
    training,
)
from identifiable.experiments.text import text_lines
from identifiable.intake import content_hash
from identifiable.moments import Array
from identifiable.options import ReproduceOptions
from identifiable.results import Input, RoederFigure, SeedModel

if TYPE_CHECKING:
    from identifiable.experiments import Experiment

NAME = "roeder-fig1"
WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
HELD_OUT = 0.1  # of the text, its end
UNIGRAMS = 100_000  # words of the table that noise is drawn from
FEWEST_ROWS = 100  # held-out windows

Windows = NDArray[np.float32]  # words as whole numbers, the one to predict last


@dataclass(frozen=True)
class Settings:
    """The settings at the paper's scale; where they are not known, ours."""

    pairs: int = 5
    words: int = 8192
    text: int = 12_000_000  # words of the text, at most
    window: int = 5  # words, of which the one in the middle is predicted
    dimensions: int = 2
    noise_samples: int = 25  # 0: the whole softmax
    learning_rate: float = 3e-3
    batch: int = 200
    steps: int = 50_000
    checkpoints: int = 10
    rows: int = 5000  # held-out windows, at most

    def __post_init__(self) -> None:
        check_settings(self, pairs=1, words=20, window=3, noise_samples=0, dimensions=1, rows=FEWEST_ROWS, text=1000)
        if self.window % 2 == 0:
            raise UsageError(f"window {self.window}: expected an odd number, so that one word is in the middle.")


# What differs from the paper's scale. On one core `small` takes two minutes, `smoke` seconds.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {
        "words": 500,
        "noise_samples": 0,
        "learning_rate": 0.01,
        "batch": 512,
        "steps": 1000,
        "checkpoints": 5,
    },
    "smoke": {
        "pairs": 3,
        "words": 60,
        "text": 20_000,
        "noise_samples": 0,
        "learning_rate": 0.03,
        "batch": 128,
        "steps": 200,
        "checkpoints": 2,
        "rows": 1000,
    },
}


def settings(scale: str, changes: Mapping[str, Any]) -> Settings:
    """The settings at a scale, some of them changed."""
    return changed(Settings(**PRESETS[scale]), changes)


# -- text


def chain(words: int, length: int, rng: np.random.Generator) -> list[str]:
    """A text by a Markov chain: words lie on a circle, and the next word is near the last one, most of the time.

    What comes next depends on two numbers of a word (its cosine and sine), so vectors of two dimensions can learn it.
    """
    steps = np.round(rng.normal(0, words / 12, length)).astype(int)
    jumps = rng.random(length) < 0.05
    steps[jumps] = rng.integers(0, words, jumps.sum())
    return [f"w{word:04d}" for word in np.cumsum(steps) % words]


def read_words(path: str, limit: int) -> list[str]:
    """The first words of a text file, in lower case."""
    words = (word for line in text_lines(path) for word in WORD.findall(line.lower()))
    return [sys.intern(word) for word in itertools.islice(words, limit)]  # one object for each different word


@dataclass(frozen=True, eq=False)
class Text:
    """A text as numbers of words, the most frequent first; the number after the last is any other word."""

    vocabulary: tuple[str, ...]
    numbers: NDArray[np.int64]
    name: str

    @classmethod
    def of(cls, text: list[str], words: int, name: str) -> Text:
        counts = Counter(text)
        if len(counts) < words:
            raise DataError(f"{name}: expected at least {words} different words, got {len(counts)}; set words lower.")
        vocabulary = sorted(counts, key=lambda word: (-counts[word], word))[:words]
        number = {word: k for k, word in enumerate(vocabulary)}
        return cls(tuple(vocabulary), np.array([number.get(word, words) for word in text]), name)

    def windows(self, size: int) -> tuple[Windows, Windows]:
        """Contexts with their word last, where that is known: of the beginning of the text, and of its end."""
        cut = round((1 - HELD_OUT) * len(self.numbers))
        return self._windows(self.numbers[:cut], size), self._windows(self.numbers[cut:], size)

    def _windows(self, numbers: NDArray[np.int64], size: int) -> Windows:
        if len(numbers) < size:
            return np.zeros((0, size), np.float32)
        found = np.lib.stride_tricks.sliding_window_view(numbers, size)
        middle = size // 2
        found = found[found[:, middle] < len(self.vocabulary)]
        order = [*range(middle), *range(middle + 1, size), middle]
        return found[:, order].astype(np.float32)

    def unigrams(self) -> list[int]:
        """Numbers of words, each as often as in the text, in a table of fixed length."""
        counts = np.bincount(self.numbers, minlength=len(self.vocabulary))[: len(self.vocabulary)]
        ends = np.cumsum(counts) / counts.sum()
        found: list[int] = np.searchsorted(ends, (np.arange(UNIGRAMS) + 0.5) / UNIGRAMS).tolist()
        return found


def _text(chosen: Settings, options: ReproduceOptions) -> Text:
    if options.data is None:
        if options.scale != "smoke":
            raise UsageError(f"--scale {options.scale} needs a text: pass --data PATH, a text file, plain or gzipped.")
        made = chain(chosen.words, chosen.text, np.random.default_rng([options.seed, 1]))
        return Text.of(made, chosen.words, "a Markov chain of words")
    return Text.of(read_words(options.data, chosen.text), chosen.words, Path(options.data).name)


# -- the experiment


def run(experiment: Experiment, chosen: Settings, options: ReproduceOptions) -> RoederFigure:
    """Train pairs, and compare f on held-out windows and g on words held out of the fitted maps."""
    from identifiable.nn import LogBilinear, outputs

    text = _text(chosen, options)
    seen, held_out = text.windows(chosen.window)
    if len(seen) < chosen.batch or len(held_out) < FEWEST_ROWS:
        raise DataError(
            f"{text.name}: expected at least {chosen.batch} windows to train on and {FEWEST_ROWS} held out, got "
            f"{len(seen)} and {len(held_out)}; pass a longer text, or set words higher."
        )
    rng = np.random.default_rng([options.seed, 2])
    held_out = held_out[np.sort(rng.permutation(len(held_out))[: chosen.rows])]
    contexts = held_out[:, :-1]

    def f(model: Any) -> Array:
        features: Array = outputs(model, contexts, function=model.f).astype(np.float64)
        return features

    def g(model: Any) -> Array:
        return _array(model.word)

    def measure(one: Any, other: Any) -> Measures:
        both = (one, other)
        features, vectors, biases = ([part(model) for model in both] for part in (f, g, _bias))
        found: Measures = {("words", name): v for name, v in similarities(*vectors, seed=options.seed).items()}
        found |= {("contexts", name): v for name, v in similarities(*features, seed=options.seed).items()}
        implied = from_heads(vectors, features, biases=biases, seed=options.seed)
        return found | {("contexts", name): v for name, v in implied.items()}

    table = text.unigrams() if chosen.noise_samples else (0,)
    models = [
        LogBilinear(
            chosen.words,
            chosen.window - 1,
            chosen.dimensions,
            samples=chosen.noise_samples,
            table=table,
            seed=seed,
        )
        for seed in seeds_of(options.seed, 2 * chosen.pairs)
    ]
    runs = retrained(models, seen, held_out, training(chosen), disjoint(len(models)), measure, options, of="words")
    targets = held_out[:, -1].astype(int)
    found = []
    for k, trained in enumerate(runs.trained):
        scores = log_softmax(f(trained.model) @ g(trained.model).T + _bias(trained.model), axis=1)
        loss = float(-scores[np.arange(len(targets)), targets].mean())
        found.append(SeedModel("", k, trained.steps, loss, None, "diverged" if k in runs.diverged else None))
    drawn = next((pair for pair in disjoint(len(models)) if not runs.diverged & set(pair)), None)
    scatters = []
    if chosen.dimensions == 2 and drawn is not None:
        both = [runs.trained[k].model for k in drawn]
        for part, represent in (("words", g), ("contexts", f)):
            scatters.append(scatter(part, drawn, *map(represent, both), seed=options.seed))
    given = Input(text.name, len(text.numbers), 1, "words", content_hash(Blocks(text.numbers[:, None], name=text.name)))
    pairs = runs.over_training()
    return figure(NAME, experiment, chosen, options, inputs=[given], pairs=pairs, models=found, scatters=scatters)


def _array(parameter: Any) -> Array:
    values: Array = parameter.detach().numpy().astype(np.float64)
    return values


def _bias(model: Any) -> Array:
    return _array(model.bias)
