"""`identifiable mechanisms Z --decoder module:attribute`, or `identifiable mechanisms --jacobians J.npy`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from identifiable._checks import UsageError
from identifiable.cli.bilipschitz import imported
from identifiable.cli.measuring import Command, Job, Output
from identifiable.cli.options import TABLE_FORMATS
from identifiable.cli.output import BASIS, prints_aside
from identifiable.options import MechanismsCommandOptions
from identifiable.results import Mechanisms


def _file(job: Job) -> str | None:
    """The file that stands for the decoder: its Jacobians, or an exported program."""
    from identifiable.api.decoding import PROGRAM

    options = job.options
    if options.jacobians is not None:
        return str(options.jacobians)
    return options.decoder if Path(options.decoder).suffix.lower() == PROGRAM else None


def _check(job: Job) -> None:
    if job.options.decoder is not None and not job.paths:
        raise UsageError("mechanisms: --decoder needs Z, the latents at which to look.")


def _call(job: Job) -> Any:
    from identifiable.api.factoring import mechanisms
    from identifiable.options import MechanismsOptions

    file = _file(job)
    options = job.options.shared(MechanismsOptions)
    if job.options.decoder is not None:
        options = replace(options, name=job.options.decoder)
    with prints_aside():
        source = imported(job.options.decoder, "--decoder") if file is None else file
        return mechanisms(source, *job.paths, **vars(options))


def _withheld(job: Job, found: Mechanisms) -> str:
    return "" if found.basis is not None else "no basis is written: no one linear change of basis serves all points"


def _write_basis(job: Job, found: Mechanisms, path: str) -> None:
    from identifiable.api import save_basis
    from identifiable.deconfounding.feature_map import FeatureMap

    save_basis(path, FeatureMap(found.basis, found, found.columns))


COMMAND = Command(
    name="mechanisms",
    text="Which latent factors act on which outputs of a decoder, read off its Jacobians?",
    example="identifiable mechanisms latents.npy --decoder model:decoder --report mechanisms.html",
    options=MechanismsCommandOptions,
    tables={
        "points": {
            "metavar": "Z",
            "nargs": "?",
            "help": f"latents at which to look, one point a row: {TABLE_FORMATS}; may be left out with --jacobians",
        }
    },
    call=_call,
    result=lambda job: Mechanisms,
    gate="'n_factors != 3', 'certain == 0', 'agree < 0.8' or 'factors.axis_angle > 10'",
    check=_check,
    inputs=lambda job: [_file(job), job.options.ids],
    files=(Output(("-o", "--output"), "the change of basis, for identifiable transform", (BASIS,), _write_basis),),
    withheld=_withheld,
)
