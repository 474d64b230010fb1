"""Optional dependencies: one place that knows what to install."""

from __future__ import annotations

import json
import shlex
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from urllib.parse import unquote, urlsplit

from identifiable._checks import MissingExtra

DISTRIBUTION = "identifiable"
REASON_CHARACTERS = 120  # of what a failing import says


def require(module: str, *, extra: str, what: str = "this") -> None:
    """Raise a helpful error if `module` is not installed or does not import; a plain import follows the call.

    A broken installation raises anything, not only ImportError: timm beside a torchvision of another build of torch raises
    RuntimeError. An extra is someone else's code, so every exception of its import is caught.
    """
    if find_spec(module) is None:
        raise MissingExtra(f"{what} needs {module}: pip install {_installed(extra)}")
    try:
        import_module(module)
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:REASON_CHARACTERS]
        raise MissingExtra(
            f"{what} needs {module}, which is installed but does not import ({said}); repair it: "
            f"pip install --force-reinstall {_installed(extra)}"
        ) from error


def _installed(extra: str) -> str:
    """What pip installs this package from, with an extra, quoted for the shell: the folder that it came from if it came from one.

    PEP 610: a package that was not installed from an index has a ``direct_url.json``.
    """
    try:
        recorded = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
        url = urlsplit(recorded.get("url", ""))
        folder = unquote(url.path) if url.scheme == "file" and "dir_info" in recorded else ""
        editable = ["-e"] if folder and recorded["dir_info"].get("editable") else []
    except (PackageNotFoundError, ValueError, AttributeError):  # not installed, or a record that is none
        folder, editable = "", []
    return shlex.join([*editable, f"{folder or DISTRIBUTION}[{extra}]"])
