"""Models of timm, known by their methods, and any other torch module.

A timm model is what has `forward_intermediates` (its blocks, numbered from 0 as timm does) or `forward_features` and
`forward_head` (`pre_logits`, what the classifier sees). Of another module `output` is what it returns, and each part of it can
be named as a layer.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from identifiable._checks import DataError, IdentifiableError, UsageError, failing, words_of
from identifiable._extras import require
from identifiable.nn.encoders.encoder import (
    CLASS_TOKEN,
    LAST_TOKEN,
    LAYER,
    MEAN,
    PATCHES,
    Encoder,
    States,
    drawn_from,
    first_tensor,
)

PRE_LOGITS, FEATURES, OUTPUT = "pre_logits", "features", "output"
CONFIG, WEIGHTS = "config.json", "model.safetensors"


class Timm(Encoder):
    """A model with the methods of timm."""

    family = preparation_family = "timm"
    takes = ("pictures", "arrays")

    def __init__(self, name: str, module: nn.Module, preparation: Mapping[str, Any] | None = None):
        super().__init__(name, module)
        self.preparation = preparation if preparation is not None else getattr(module, "pretrained_cfg", None)

    def states(self, batch: Any, layers: Sequence[str] | None) -> States:
        pixels = as_floats(batch)
        module: Any = self.module
        found: dict[str, torch.Tensor] = {}
        prefix = None
        wanted = None if layers is None else [int(n.removeprefix(LAYER)) for n in layers if n.startswith(LAYER)]
        if hasattr(module, "forward_intermediates") and wanted != []:
            more: dict[str, Any] = {}
            if "return_prefix_tokens" in inspect.signature(module.forward_intermediates).parameters:
                more = {"return_prefix_tokens": True, "output_fmt": "NLC"}
            features, each = module.forward_intermediates(pixels, indices=wanted, **more)
            for k, state in zip(wanted or range(len(each)), each, strict=True):
                if isinstance(state, tuple):  # patches, and the tokens before them
                    prefix = state[1].shape[1]
                    state = torch.cat([state[1], state[0]], dim=1)
                elif more:
                    prefix = 0
                found[f"{LAYER}{k}"] = state
        else:
            features = module.forward_features(pixels)
        if hasattr(module, "forward_head") and (layers is None or PRE_LOGITS in layers):
            found[PRE_LOGITS] = module.forward_head(features, pre_logits=True)
        if layers is None and not found:
            found[FEATURES] = features
        return States(found, prefix=prefix)

    def poolings(self, states: States) -> tuple[str, ...]:
        return (MEAN, *((PATCHES,) if states.prefix is not None else ()), *((CLASS_TOKEN,) if states.prefix else ()))

    def normed_by_design(self, name: str) -> bool:
        return name == PRE_LOGITS


class Plain(Encoder):
    """Any other module: its output, and by hooks the output of any of its parts."""

    family = "module"
    takes = ("arrays", "tokens")

    def states(self, batch: Any, layers: Sequence[str] | None) -> States:
        given = torch.as_tensor(np.stack(batch)) if isinstance(batch, list) else as_floats(batch)
        found: dict[str, torch.Tensor] = {}

        def keep(name: str) -> Any:
            def hook(_module: Any, _given: Any, out: Any) -> None:
                values = first_tensor(out)
                if values is not None and values.ndim in (2, 3, 4) and len(values) == len(given):
                    found[name] = values

            return hook

        parts = [(n, p) for n, p in self.module.named_modules() if n and (layers is None or n in layers)]
        hooks = [part.register_forward_hook(keep(name)) for name, part in parts]
        try:
            values = first_tensor(self.module(given))
        finally:
            for hook in hooks:
                hook.remove()
        if values is None or len(values) != len(given):
            raise DataError(f"{self.name}: expected one output for each of {len(given)} inputs, got something else.")
        found[OUTPUT] = values
        return States(found)

    def poolings(self, states: States) -> tuple[str, ...]:
        return MEAN, LAST_TOKEN, CLASS_TOKEN


def as_floats(batch: Any) -> torch.Tensor:
    """Numbers in single precision."""
    return torch.as_tensor(np.ascontiguousarray(batch), dtype=torch.float32)


def open_timm(name: str, weights: str | None, untrained: int | None) -> Timm:
    """A model of timm by its name, with weights from a local file or drawn from a seed."""
    if weights is None and untrained is None:
        raise UsageError(
            f"timm:{name}: expected its weights in a local file, --weights FILE.safetensors (weights=), or --untrained SEED."
        )
    return _timm(name, {}, weights, untrained, None, f"timm:{name}")


def open_timm_directory(folder: Path, config: Mapping[str, Any], untrained: int | None) -> Timm:
    """A model directory of timm: `config.json` with its architecture, and safetensors."""
    file = folder / WEIGHTS if (folder / WEIGHTS).is_file() else next(iter(sorted(folder.glob("*.safetensors"))), None)
    if file is None and untrained is None:
        raise DataError(
            f"{folder}: holds no .safetensors file; save the model as safetensors, or pass --untrained SEED."
        )
    more = {key: config[key] for key in ("num_classes", "global_pool") if isinstance(config.get(key), int | str)}
    own = config.get("model_args")
    return _timm(
        str(config["architecture"]), {**more, **(own if isinstance(own, dict) else {})}, file, untrained,
        config.get("pretrained_cfg"), folder.resolve().name,
    )  # fmt: skip


def _timm(name: str, more: Mapping[str, Any], weights: Any, untrained: int | None, preparation: Any, said: str) -> Timm:
    require("timm", extra="timm", what="extract from a model of timm")
    import timm

    try:
        with drawn_from(untrained or 0):
            module = timm.create_model(name, pretrained=False, **more)
    except Exception as error:  # unknown names, bad arguments
        raise DataError(f"{said}: timm cannot make this model ({words_of(error)}).") from error
    if untrained is None:
        fill(module, Path(weights), said)
    return Timm(said, module.eval(), preparation if isinstance(preparation, dict) else None)


def fill(module: nn.Module, file: Path, name: str) -> None:
    """Weights from a file into a module; all of them must be there."""
    if file.suffix.lower() != ".safetensors":
        raise DataError(
            f"{file}: expected weights as .safetensors; pickled weights are never loaded, they can run code."
        )
    from safetensors.torch import load_file

    try:
        found = module.load_state_dict(load_file(file), strict=False)
    except IdentifiableError:
        raise
    except Exception as error:  # damaged files, shapes that differ
        raise DataError(f"{file}: does not fit {name} ({words_of(error)}).") from error
    if found.missing_keys:
        some = ", ".join(found.missing_keys[:5])
        raise DataError(
            f"{file}: {len(found.missing_keys)} weights of {name} are missing ({some}); get the whole model."
        )


def of_module(name: str, source: Any, weights: str | None, untrained: int | None) -> Encoder:
    """A module, or what a function makes."""
    made = source
    if not isinstance(source, nn.Module):
        if not callable(source):
            raise UsageError(
                f"{name}: expected a torch.nn.Module or a function that returns one, got {type(source).__name__}."
            )
        with (
            failing(lambda words: UsageError(f"{name}: making the model failed ({words}).")),
            drawn_from(untrained or 0),
        ):
            made = source()
        if not isinstance(made, nn.Module):
            raise UsageError(f"{name}: expected a function that returns a torch.nn.Module, got {type(made).__name__}.")
    elif untrained is not None:
        raise UsageError(
            f"{name}: untrained needs a function that makes the model, to make it anew; this is one that is made."
        )
    if weights is not None:
        fill(made, Path(weights), name)
    if hasattr(made, "forward_features") or hasattr(made, "forward_intermediates"):
        return Timm(name, made)
    return Plain(name, made)


def timm_config(folder: Path) -> Mapping[str, Any] | None:
    """config.json of a directory if it is one of timm."""
    try:
        found = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "architecture" in found and "model_type" not in found else None
