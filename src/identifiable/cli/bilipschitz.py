"""`identifiable bilipschitz Z --decoder module:attribute`."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

from identifiable.cli.importing import imported
from identifiable.cli.measuring import Command, Job
from identifiable.cli.options import TABLE_FORMATS
from identifiable.options import DecoderOptions
from identifiable.results import Distortion


def _is_program(job: Job) -> bool:
    from identifiable.api.decoders import PROGRAM

    return Path(job.options.decoder).suffix.lower() == PROGRAM


def _call(job: Job) -> Any:
    from identifiable.api import bilipschitz
    from identifiable.options import BilipschitzOptions

    words = job.options.decoder
    options = replace(job.options.shared(BilipschitzOptions), name=words)
    with redirect_stdout(sys.stderr):  # what the user's code prints must not end up in the result
        decoder = words if _is_program(job) else imported(words, "--decoder")
        return bilipschitz(decoder, job.paths[0], **vars(options))


COMMAND = Command(
    name="bilipschitz",
    text="How much does a decoder stretch and shrink, point by point, and what does that bound?",
    example="identifiable bilipschitz latents.npy --decoder model:decoder --report distortion.html",
    options=DecoderOptions,
    tables={"points": {"metavar": "Z", "help": f"latents at which to look, one point a row: {TABLE_FORMATS}"}},
    call=_call,
    result=lambda job: Distortion,
    gate="'constant > 3' (of the worst point), 'constant.q95 > 2', 'best_constant > 1.5' or 'deficient > 0'",
    inputs=lambda job: [job.options.decoder if _is_program(job) else None, job.options.ids],
)
