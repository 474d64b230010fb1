"""`identifiable extract MODEL INPUTS -o out.safetensors`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from identifiable.cli.bilipschitz import imported
from identifiable.cli.measuring import Command, Job
from identifiable.cli.output import BASIS, check_suffix, prints_aside
from identifiable.options import ExtractOptions
from identifiable.results import Extraction

TIMM = "timm:"


def _check(job: Job) -> None:
    check_suffix(job.options.output, (BASIS,))


def _call(job: Job) -> Any:
    from identifiable.api.extracting import extracted

    words, inputs = job.paths
    if words.startswith(TIMM) or os.path.exists(words) or ":" not in words:
        return extracted(words, inputs, job.options)
    with prints_aside():
        return extracted(imported(words, "MODEL"), inputs, replace(job.options, name=words))


def _save(job: Job, found: Any) -> Mapping[str, Callable[[str], object]]:
    return {job.options.output: lambda path: found.deliver()}


COMMAND = Command(
    name="extract",
    text="Vectors of inputs from the layers of a model, as a file that every other command reads.",
    example="identifiable extract MODEL_DIR texts.txt -o model1.safetensors --layers 4,8,last --pool mean",
    options=ExtractOptions,
    tables={
        "model": {
            "metavar": "MODEL",
            "help": "a Hugging Face or timm directory, timm:NAME (with --weights), or module:attribute, a torch.nn.Module or a function "
            "that returns one (importing it runs its code)",
        },
        "inputs": {
            "metavar": "INPUTS",
            "help": "a text file (an input a line), file.jsonl:field, a folder of pictures, or an array (file.npz:key)",
        },
    },
    call=_call,
    result=lambda job: Extraction,
    gate="'truncated > 0', 'repeated > 0' or 'n < 1000'",
    check=_check,
    inputs=lambda job: [job.options.weights],
    outputs=lambda job: [job.options.output],
    save=_save,
)
