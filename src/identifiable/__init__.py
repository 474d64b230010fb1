"""identifiable: if I trained this model again, would I get the same representation?

Names are loaded when they are used, so importing the package costs nothing.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False  # not from typing: until a command has its handlers of signals, every millisecond counts
if TYPE_CHECKING:
    from typing import Any

    from identifiable import deconfound as deconfound
    from identifiable import metrics as metrics
    from identifiable import pp as pp
    from identifiable._checks import DataError as DataError
    from identifiable._checks import DataWarning as DataWarning
    from identifiable._checks import IdentifiableError as IdentifiableError
    from identifiable._checks import PairingError as PairingError
    from identifiable._checks import UsageError as UsageError
    from identifiable.api import bilipschitz as bilipschitz
    from identifiable.api import compare as compare
    from identifiable.api import load as load
    from identifiable.api import load_basis as load_basis
    from identifiable.api import mechanisms as mechanisms
    from identifiable.api import resolve as resolve
    from identifiable.api import save_basis as save_basis
    from identifiable.api import structural as structural
    from identifiable.api import transform as transform
    from identifiable.api.aligner import Aligner as Aligner
    from identifiable.api.aligning import Aligned as Aligned
    from identifiable.api.aligning import align as align
    from identifiable.api.disentangling import disentangle as disentangle
    from identifiable.api.estimator import ICA as ICA
    from identifiable.api.extracting import extract as extract
    from identifiable.api.layering import layers as layers
    from identifiable.api.matching import match as match
    from identifiable.api.unembedding import heads as heads
    from identifiable.blocks import Blocks as Blocks
    from identifiable.blocks import fold as fold
    from identifiable.groups import GROUPS as GROUPS
    from identifiable.groups import AffineMap as AffineMap
    from identifiable.ica import Resolved as Resolved
    from identifiable.ica import match_components as match_components
    from identifiable.moments import Moments as Moments
    from identifiable.representation import Representation as Representation
    from identifiable.representation import pair as pair
    from identifiable.results import Alignment as Alignment
    from identifiable.results import Comparison as Comparison
    from identifiable.results import Disentanglement as Disentanglement
    from identifiable.results import Distortion as Distortion
    from identifiable.results import Extraction as Extraction
    from identifiable.results import Heads as Heads
    from identifiable.results import JointResolution as JointResolution
    from identifiable.results import Layers as Layers
    from identifiable.results import Matches as Matches
    from identifiable.results import Mechanisms as Mechanisms
    from identifiable.results import Resolution as Resolution

_ROOM_OF = {
    "AffineMap": "groups",
    "Aligned": "api.aligning",
    "Aligner": "api.aligner",
    "Alignment": "results",
    "Blocks": "blocks",
    "Comparison": "results",
    "DataError": "_checks",
    "DataWarning": "_checks",
    "Disentanglement": "results",
    "Distortion": "results",
    "Extraction": "results",
    "GROUPS": "groups",
    "Heads": "results",
    "ICA": "api.estimator",
    "IdentifiableError": "_checks",
    "JointResolution": "results",
    "Layers": "results",
    "Matches": "results",
    "Mechanisms": "results",
    "Moments": "moments",
    "PairingError": "_checks",
    "Representation": "representation",
    "Resolution": "results",
    "Resolved": "ica",
    "UsageError": "_checks",
    "align": "api.aligning",
    "bilipschitz": "api",
    "compare": "api",
    "disentangle": "api.disentangling",
    "extract": "api.extracting",
    "fold": "blocks",
    "heads": "api.unembedding",
    "layers": "api.layering",
    "load": "api",
    "load_basis": "api",
    "match": "api.matching",
    "match_components": "ica",
    "mechanisms": "api",
    "pair": "representation",
    "resolve": "api",
    "save_basis": "api",
    "structural": "api",
    "transform": "api",
}

_MODULES = ("deconfound", "metrics", "pp")  # public as modules: `identifiable.metrics.infomec`

__all__ = [
    "GROUPS",
    "ICA",
    "AffineMap",
    "Aligned",
    "Aligner",
    "Alignment",
    "Blocks",
    "Comparison",
    "DataError",
    "DataWarning",
    "Disentanglement",
    "Distortion",
    "Extraction",
    "Heads",
    "IdentifiableError",
    "JointResolution",
    "Layers",
    "Matches",
    "Mechanisms",
    "Moments",
    "PairingError",
    "Representation",
    "Resolution",
    "Resolved",
    "UsageError",
    "align",
    "bilipschitz",
    "compare",
    "deconfound",
    "disentangle",
    "extract",
    "fold",
    "heads",
    "layers",
    "load",
    "load_basis",
    "match",
    "match_components",
    "mechanisms",
    "metrics",
    "pair",
    "pp",
    "resolve",
    "save_basis",
    "structural",
    "transform",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _MODULES or name in _ROOM_OF:
        from identifiable._importing import import_for_threads

        import_for_threads()
    if name in _MODULES:
        return import_module(f"identifiable.{name}")
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'identifiable' has no attribute {name!r}")
    value = getattr(import_module(f"identifiable.{_ROOM_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
