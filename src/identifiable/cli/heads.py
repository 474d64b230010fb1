"""`identifiable heads W1 W2 [--features F1 F2]`."""

from __future__ import annotations

from typing import Any

from identifiable.cli.measuring import Command, Job, Output, listed_ids
from identifiable.options import HeadsOptions
from identifiable.results import Heads

HEAD = ".npy, .npz or .safetensors (file:part names an array), or a Hugging Face model directory"


def _call(job: Job) -> Any:
    from identifiable.api.unembedding import heads

    return heads(*job.paths, **job.keywords())


def _write_map(job: Job, found: Heads, path: str) -> None:
    """The map from the first model's features to the second's."""
    from identifiable.io import save_arrays

    arrays = found.maps[0].arrays
    save_arrays(path, {} if arrays is None else arrays._asdict())


def _inputs(job: Job) -> list[str | None]:
    options = job.options
    labels = [options.labels] if isinstance(options.labels, str) else options.labels or ()
    return [*(options.features or ()), *(options.bias or ()), *labels, options.frequencies, *listed_ids(options)]


COMMAND = Command(
    name="heads",
    text="What do two output layers fix of the representation, and does the map that they imply hold?",
    example="identifiable heads model1 model2 --features run1.npy run2.npy --report heads.html",
    options=HeadsOptions,
    tables={
        "first": {"metavar": "W1", "help": f"the head of the first model: {HEAD}"},
        "second": {"metavar": "W2", "help": "the head of the second model, of the same labels"},
    },
    call=_call,
    result=lambda job: Heads,
    gate="'r2_ridge < 0.5', 'correlation < 0.9', 'agreement < 0.9' or 'heads.rank < 64'",
    inputs=_inputs,
    files=(Output(("--map-out",), "the map from W1's features to W2's: matrix, offset, basis", (".npz",), _write_map),),
)
