"""What every experiment records: which settings are the paper's, and the torch that trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from importlib.metadata import version
from typing import Any

from identifiable.results import Choice, Provenance


def choices(chosen: Any, published: Mapping[str, Any]) -> tuple[Choice, ...]:
    """Every setting; the paper's where it is known and this run keeps to it."""
    found = []
    for f in fields(chosen):
        value, paper = getattr(chosen, f.name), published.get(f.name)
        paper = tuple(paper) if isinstance(paper, list) else paper
        found.append(Choice(f.name, value, "paper" if paper == value else "ours", paper))
    return tuple(found)


def with_torch(provenance: Provenance) -> Provenance:
    return replace(provenance, libraries={**provenance.libraries, "torch": version("torch")})
