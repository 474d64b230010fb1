"""`module:attribute`: an object of the user's own code, imported as `python -m` would."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from identifiable._checks import UsageError


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
    except Exception as error:  # someone else's code: anything may come out of it
        from identifiable.api.decoders import words_of

        raise UsageError(
            f"{what}: importing {name} failed ({words_of(error)}); it must import without errors."
        ) from error
