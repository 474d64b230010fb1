"""Optional dependencies: one place that knows what to install."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from identifiable._checks import MissingExtra

REASON_CHARACTERS = 120  # of what a failing import says


def require(module: str, *, extra: str, what: str = "this") -> None:
    """Raise a helpful error if `module` is not installed or does not import; a plain import follows the call.

    A broken installation raises anything, not only ImportError: timm beside a torchvision of another build of torch raises
    RuntimeError. An extra is someone else's code, so every exception of its import is caught.
    """
    if find_spec(module) is None:
        raise MissingExtra(f"{what} needs {module}: pip install 'identifiable[{extra}]'")
    try:
        import_module(module)
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:REASON_CHARACTERS]
        raise MissingExtra(
            f"{what} needs {module}, which is installed but does not import ({said}); repair it: "
            f"pip install --force-reinstall 'identifiable[{extra}]'"
        ) from error
