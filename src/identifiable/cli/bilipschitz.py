"""`identifiable bilipschitz Z --decoder module:attribute`."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from identifiable._checks import UsageError, words_of
from identifiable.cli.measuring import Command, Job
from identifiable.cli.options import TABLE_FORMATS
from identifiable.cli.output import prints_aside
from identifiable.options import DecoderOptions
from identifiable.results import Distortion


def imported(spec: str, flag: str) -> Any:
    """What `spec` names. The current directory is importable from then on; importing a module runs its code."""
    module, colon, attribute = spec.partition(":")
    if not (module and colon and attribute):
        raise UsageError(f"{flag} {spec}: expected module:attribute, for example model:decoder.")
    if module.endswith(".py") or "/" in module or os.sep in module:
        plain = module.removesuffix(".py").strip("./").replace(os.sep, ".").replace("/", ".")
        raise UsageError(f"{flag} {spec}: expected the name of a module, not its path; write {plain}:{attribute}.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found = _module(module, f"{flag} {spec}")
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise UsageError(f"{flag} {spec}: {module} has no attribute {attribute!r}; check its spelling.")
        found = getattr(found, part)
    return found


def _module(name: str, what: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise UsageError(
                f"{what}: there is no module {error.name}, neither installed nor in {os.getcwd()}; "
                "run this where it is, or set PYTHONPATH."
            ) from None
        raise UsageError(f"{what}: importing {name} failed ({error}); install what it needs.") from error
    except SystemExit as error:
        raise UsageError(
            f"{what}: importing {name} ended with exit code {error.code}; guard its script with if __name__ == '__main__'."
        ) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # someone else's code: anything may come out of it
        raise UsageError(
            f"{what}: importing {name} failed ({words_of(error)}); it must import without errors."
        ) from error


def _is_program(job: Job) -> bool:
    from identifiable.api.decoding import PROGRAM

    return Path(job.options.decoder).suffix.lower() == PROGRAM


def _call(job: Job) -> Any:
    from identifiable.api import bilipschitz
    from identifiable.options import BilipschitzOptions

    words = job.options.decoder
    options = replace(job.options.shared(BilipschitzOptions), name=words)
    with prints_aside():
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
