"""What `extract` wrote: vectors of inputs from the layers of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from identifiable.results.record import Shown


@dataclass(frozen=True)
class ModelCard:
    """The model. `sha256` is of its weights by name, in float32; `untrained` the seed they were drawn from, if they were."""

    name: str
    family: Literal["huggingface", "timm", "module"]
    architecture: str
    parameters: int
    sha256: str
    untrained: int | None = None


@dataclass(frozen=True)
class ExtractedLayer:
    """A layer: its tensor in the file, and whether it has passed the final norm (None: the model has none)."""

    name: str
    width: int
    final_norm: bool | None = None


@dataclass(frozen=True, repr=False)
class Extraction(Shown):
    """What `extract` wrote to `output`, and from what.

    Of texts, `longest` is that with the most tokens, `limit` what the model was shown of one at most, `truncated` how many were
    longer. `tokens` were shown in all, `padding` beside them to fill batches. `repeated` inputs are equal to an earlier one.
    """

    output: str
    model: ModelCard
    layers: tuple[ExtractedLayer, ...]
    kind: Literal["text", "tokens", "pictures", "arrays"]
    n: int
    pool: Literal["mean", "last", "cls", "patches"] | None = None
    truncated: int = 0
    limit: int | None = None
    longest: int | None = None
    tokens: int | None = None
    padding: int | None = None
    repeated: int = 0
    schema: Literal["identifiable/extraction/1"] = "identifiable/extraction/1"
    rows_in = "layers"
    written = "layers"  # what the command line calls its file
