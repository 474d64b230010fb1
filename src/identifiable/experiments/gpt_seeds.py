"""Small GPTs that differ in their seeds alone, and what their layers make of the same held-out text.

Table 1 of Nelson et al. (2026) and Figure 4 of Roeder et al. (2021) compare published language models; these stand in for them
on a CPU. Both experiments train the same models, so one `--checkpoint` serves both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError
from identifiable.blocks import Blocks
from identifiable.experiments.text import Tokens, byte_pair_tokens, made_text, text_lines
from identifiable.intake import content_hash
from identifiable.options import ReproduceOptions
from identifiable.results import Input

if TYPE_CHECKING:
    from identifiable.nn import Trained

TEXT = "tinyshakespeare.txt"  # looked for where `--data` is a folder
EPOCHS = 5  # of training, each of which ends with a loss on held-out windows and a checkpoint
HELD_OUT = 0.1  # of the windows: the last ones, which no model is trained on


@dataclass(frozen=True)
class GptSettings:
    """Size and training of the GPTs; ours, for the published ones do not fit here."""

    models: int = 5
    layers: int = 4
    width: int = 64
    heads: int = 4
    context: int = 64
    vocabulary: int = 512
    steps: int = 1290
    batch: int = 16
    learning_rate: float = 3e-3
    windows: int = 256  # of held-out text, the tokens of which are the rows that are compared

    def __post_init__(self) -> None:
        for name, least in (("models", 2), ("layers", 1), ("context", 2), ("steps", 1), ("batch", 1), ("windows", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} {getattr(self, name)}: expected a whole number of at least {least}.")


GPT_SMOKE: dict[str, Any] = {
    "models": 3, "layers": 2, "width": 8, "heads": 2, "context": 16, "vocabulary": 64, "steps": 60, "windows": 60,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class GptSeeds:
    """What every layer of every model makes of the tokens of held-out windows: (model, layer, token, width).

    `window` numbers the window of every token. `untrained` are the models before training.
    """

    trained: NDArray[np.float32]
    untrained: NDArray[np.float32]
    window: NDArray[np.int64]
    seeds: tuple[int, ...]
    runs: tuple[Trained, ...]
    text: Input


def gpt_seeds(chosen: GptSettings, options: ReproduceOptions) -> GptSeeds:
    """Train the models on the text that `data` names, a file or a folder that holds it; at scale smoke on a made one."""
    from identifiable.nn import GPT, Training, layer_states, train

    tokens, about = _tokens(chosen, options)
    rows = tokens.windows(chosen.context)
    held = round(HELD_OUT * len(rows))
    if len(rows) - held < chosen.batch or held < chosen.windows:
        wanted = max(chosen.batch, round(chosen.windows / HELD_OUT)) * chosen.context
        raise DataError(f"{about.name}: expected at least {wanted} tokens, got {len(tokens.ids)}; set windows lower.")
    training, held_out = rows[:-held], rows[-held:][: chosen.windows]
    seeds = tuple(range(options.seed, options.seed + chosen.models))
    size = {name: getattr(chosen, name) for name in ("layers", "width", "heads")}

    def models() -> list[Any]:
        return [GPT(len(tokens.vocabulary), chosen.context, **size, seed=seed) for seed in seeds]

    settings = Training(
        learning_rate=chosen.learning_rate,
        batch=chosen.batch,
        max_epochs=EPOCHS,
        epoch_steps=math.ceil(chosen.steps / EPOCHS),
        patience=None,
        keep="last",
        schedule="cosine",
    )
    runs = train(
        models(),
        training,
        held_out,
        settings,
        seeds=seeds,
        together=1,
        checkpoint=None if options.checkpoint is None else Path(options.checkpoint) / "gpt",
        progress=options.progress,
        of=about.name,
    )
    if lost := [run.seed for run in runs if run.stopped == "diverged"]:
        raise DataError(f"training diverged from seeds {lost}; set a smaller learning_rate.")
    return GptSeeds(
        np.stack([layer_states(run.model, held_out[:, :-1]) for run in runs]),
        np.stack([layer_states(model, held_out[:, :-1]) for model in models()]),
        np.repeat(np.arange(chosen.windows), chosen.context),
        seeds,
        tuple(runs),
        about,
    )


def _tokens(chosen: GptSettings, options: ReproduceOptions) -> tuple[Tokens, Input]:
    if options.data is None:
        if options.scale != "smoke":
            raise UsageError(f"--scale {options.scale} needs a text: pass --data {TEXT}, or a folder that holds it.")
        text, name = made_text(seed=options.seed), "made text"
    else:
        path = Path(options.data)
        path = path / TEXT if path.is_dir() else path
        text, name = "".join(text_lines(path)), path.name
    tokens = byte_pair_tokens(text, chosen.vocabulary)
    ids = tokens.ids[:, None]
    return tokens, Input(name, len(ids), 1, str(ids.dtype), content_hash(Blocks(ids.astype(np.float64), name=name)))
