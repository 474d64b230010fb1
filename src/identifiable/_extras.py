"""Optional dependencies: one place that knows what to install."""

from __future__ import annotations

from importlib.util import find_spec

from identifiable._checks import MissingExtra


def require(module: str, *, extra: str, what: str = "this") -> None:
    """Raise a helpful error if `module` is not installed; a plain import follows the call."""
    if find_spec(module) is None:
        raise MissingExtra(f"{what} needs {module}: pip install 'identifiable[{extra}]'")
