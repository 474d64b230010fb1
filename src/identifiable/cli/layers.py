"""`identifiable layers A B [--untrained A0 B0]`."""

from __future__ import annotations

from typing import Any

from identifiable.cli.measuring import Command, Job, listed_ids
from identifiable.options import LayersOptions
from identifiable.results import Layers

FILES = ".safetensors or .npz with several arrays (file:pattern chooses some), or a folder of such files, checkpoints over training"


def _call(job: Job) -> Any:
    from identifiable.api.layering import layers

    return layers(*job.paths, **job.keywords())


COMMAND = Command(
    name="layers",
    text="Which layers of two models are alike?",
    example="identifiable layers a.safetensors b.safetensors --untrained a0.safetensors b0.safetensors --report layers.html",
    options=LayersOptions,
    tables={
        "first": {"metavar": "A", "help": f"the layers of the first model: {FILES}"},
        "second": {"metavar": "B", "help": "the layers of the second model, on the same samples"},
    },
    call=_call,
    result=lambda job: Layers,
    gate="'diagonal.cka < 0.5', 'matched < 10' or 'above_untrained < 12'",
    inputs=lambda job: [*(job.options.untrained or ()), *listed_ids(job.options)],
)
