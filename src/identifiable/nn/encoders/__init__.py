"""Models that others have trained, as functions from inputs to the hidden states of their layers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from identifiable._checks import DataError, UsageError
from identifiable.nn.encoders.encoder import Encoder, Found
from identifiable.nn.encoders.hugging_face import CONFIG, HuggingFace, open_directory
from identifiable.nn.encoders.modules import of_module, open_timm, open_timm_directory, timm_config

__all__ = ["Encoder", "Found", "open_encoder"]

TIMM = "timm:"


def open_encoder(
    source: Any,
    *,
    name: str | None = None,
    weights: str | None = None,
    untrained: int | None = None,
    trust: bool = False,
) -> Encoder:
    """The model that `source` names or is, in float32 and eval mode."""
    if not isinstance(source, str | os.PathLike):
        called = name or str(getattr(source, "__name__", type(source).__name__))
        if hasattr(source, "config") and hasattr(source, "get_input_embeddings") and hasattr(source, "main_input_name"):
            if untrained is not None or weights is not None:
                raise UsageError(
                    f"{called}: weights and untrained are for models that are loaded; this one is in memory."
                )
            return HuggingFace(called, source)
        return of_module(called, source, weights, untrained)
    text = os.fspath(source)
    if text.startswith(TIMM):
        return open_timm(text.removeprefix(TIMM), weights, untrained)
    if weights is not None:
        raise UsageError(
            f"weights {weights}: only for timm:NAME and functions that make a model; a directory has its own."
        )
    folder = Path(text)
    if not folder.is_dir():
        what = "a file" if folder.is_file() else "no such directory"
        raise DataError(f"{text}: expected a model directory with {CONFIG}, timm:NAME or module:attribute, got {what}.")
    if not (folder / CONFIG).is_file():
        held = ", ".join(sorted(os.listdir(folder))[:8]) or "nothing"
        raise DataError(f"{text}: expected a model directory with {CONFIG}; it holds {held}.")
    config = timm_config(folder)
    return (
        open_directory(folder, untrained=untrained, trust=trust)
        if config is None
        else open_timm_directory(folder, config, untrained)
    )
