"""Encoder: a model of whatever family, its layers by name, and one vector for each input by pooling."""

from __future__ import annotations

import copy
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from identifiable._checks import DataError, UsageError, failing

LAST, ALL = "last", "all"
LAYER = "layer_"  # before the number of a layer
MEAN, LAST_TOKEN, CLASS_TOKEN, PATCHES = "mean", "last", "cls", "patches"
NAMES_SHOWN = 12

Pooled = dict[str, NDArray[np.float32]]


class States(NamedTuple):
    """Hidden states of a batch by layer, and what pooling must know: tokens that count (n, tokens), tokens before the patches."""

    layers: Mapping[str, torch.Tensor]
    mask: torch.Tensor | None = None
    prefix: int | None = None


class Found(NamedTuple):
    """What a first batch says: all layers by name, the width of those asked for, and whether each has passed the final norm.

    `final_norm` is None where the model has no norm after its last block.
    """

    available: tuple[str, ...]
    widths: Mapping[str, int]
    final_norm: Mapping[str, bool | None]
    pool: str | None


class Encoder(ABC):
    """A model in float32 and eval mode. `missing` are weights that its file does not have, which were drawn at random."""

    family: ClassVar[Literal["huggingface", "timm", "module"]]
    takes: tuple[str, ...]  # kinds of inputs
    limit: int | None = None  # tokens of an input, at most
    preparation: Mapping[str, Any] | None = None  # of pictures, as its directory says
    preparation_family: ClassVar[str] = ""

    def __init__(self, name: str, module: nn.Module, missing: Collection[str] = ()):
        self.name, self.missing = name, tuple(sorted(missing))
        settled = not module.training and all(
            p.dtype == torch.float32 for p in module.parameters() if p.is_floating_point()
        )
        self.module = module if settled else copy.deepcopy(module).float().eval()
        self.architecture = type(module).__name__
        self.parameters = sum(p.numel() for p in self.module.parameters())

    # -- what a family knows

    @abstractmethod
    def states(self, batch: Any, layers: Sequence[str] | None) -> States:
        """The hidden states of these layers, or of all."""

    def poolings(self, states: States) -> tuple[str, ...]:
        """How these states can be made one vector for each input, the usual way first."""
        return MEAN, PATCHES

    def tokenized(self, texts: Sequence[str], limit: int | None = None) -> list[NDArray[np.int64]]:
        """Token ids of each text, of at most `limit` tokens if given."""
        raise UsageError(
            f"{self.name}: has no tokenizer, so it cannot read text; pass token ids (.npy, .npz) or a model directory."
        )

    @property
    def vocabulary(self) -> int | None:
        return None

    # -- what all do alike

    def probe(self, batch: Any, asked: Sequence[int | str], pool: str | None) -> Found:
        """Look at one batch: which layers there are, which of them are meant, how wide they are, which are normed."""
        with self._failing():
            every, normed = self._watched(batch)
            again = self.features(batch, tuple(every.layers), None)
        names = chosen(asked, tuple(every.layers), self.name)
        drawn = [
            name for name in names if not np.allclose(again[name], pooled(every, name, None), rtol=1e-3, atol=1e-5)
        ]
        if drawn:
            raise DataError(
                f"{self.name}: gives other numbers for the same inputs when asked again ({_listed(drawn)}): it draws at random even in "
                "eval mode; switch that off in the model."
            )
        if self.missing:
            self._refuse_missing(batch, names)
        pools = {name: self._pool(every, name, pool) for name in names}
        return Found(
            tuple(every.layers),
            {name: pooled(every, name, how).shape[1] for name, how in pools.items()},
            {name: normed[name] for name in names},
            next(filter(None, pools.values()), None),
        )

    def features(self, batch: Any, layers: Sequence[str], pool: str | None) -> Pooled:
        """One vector for each input and layer."""
        with self._failing(), torch.inference_mode():
            states = self.states(batch, layers)
            return {name: pooled(states, name, pool).numpy().astype(np.float32, copy=False) for name in layers}

    def token_features(self, batch: Any, last: int, every: int = 1) -> list[NDArray[np.float32]]:
        """Every token that counts, input after input, at every so-manieth of the last so many layers."""
        with self._failing(), torch.inference_mode():
            states = self.states(batch, None)
            layers = list(states.layers.values())[-last:][::-every][::-1]
            if states.mask is None or any(values.ndim != 3 for values in layers):
                raise DataError(f"{self.name}: expected a model of text with a state for each token.")
            return [values[states.mask.bool()].numpy() for values in layers]

    def _pool(self, states: States, name: str, asked: str | None) -> str | None:
        """How a layer is pooled: as asked, or as is usual; not at all if it is one vector for each input already."""
        if states.layers[name].ndim == 2:
            return None
        known = self.poolings(states) if states.layers[name].ndim == 3 else (MEAN, PATCHES)
        if asked is not None and asked not in known:
            raise UsageError(f"pool {asked}: {self.name} can be pooled by {' or '.join(known)}, not by {asked}.")
        return asked or known[0]

    def _watched(self, batch: Any) -> tuple[States, Mapping[str, bool | None]]:
        """All states, and which of them are what the final norm gave: compared number by number, in one pass."""
        blocks, norms = _blocks_and_norms(self.module)
        events: list[torch.Tensor | None] = []  # None: a block ended
        hooks = [block.register_forward_hook(lambda *_: events.append(None)) for block in blocks]
        hooks += [norm.register_forward_hook(lambda _m, _a, out: events.append(first_tensor(out))) for norm in norms]
        try:
            with torch.no_grad():
                states = self.states(batch, None)
        finally:
            for hook in hooks:
                hook.remove()
        after = events[len(events) - events[::-1].index(None) :] if None in events else []
        given = [values for values in after if values is not None]
        if not given:
            return states, dict.fromkeys(states.layers)
        return states, {
            name: self.normed_by_design(name) or any(_same(values, norm) for norm in given)
            for name, values in states.layers.items()
        }

    def normed_by_design(self, name: str) -> bool:
        """Whether a layer is made of what the final norm gives, so that it cannot equal it."""
        return False

    def _refuse_missing(self, batch: Any, names: Sequence[str]) -> None:
        """Weights drawn at random must not enter a layer. Derivatives say which do: of what a layer does not use there is none."""
        own = dict(self.module.named_parameters())
        there = [name for name in self.missing if name in own]
        with torch.enable_grad(), self._failing():
            for name in there:
                own[name].requires_grad_(True)
            states = self.states(batch, names)
            total = torch.stack([states.layers[name].sum() for name in names]).sum()
            if total.requires_grad:
                found = torch.autograd.grad(total, [own[name] for name in there], allow_unused=True)
            else:
                found = (None,) * len(there)
        used = [name for name, by in zip(there, found, strict=True) if by is not None]
        used += [name for name in self.missing if name not in own]
        if used:
            raise DataError(
                f"{self.name}: {len(used)} of its weights are not in the file and would be drawn at random "
                f"({_listed(used)}); get the whole model, or pass --untrained SEED (untrained=) for one without training."
            )

    def _failing(self) -> AbstractContextManager[None]:
        """What goes wrong in someone else's code, in one line."""
        return failing(lambda words: DataError(f"{self.name}: the model failed on these inputs ({words})."))

    def digest(self) -> str:
        """sha256 of all weights, by name."""
        total = hashlib.sha256()
        for name, values in sorted(self.module.state_dict().items()):
            if isinstance(values, torch.Tensor):
                total.update(f"{name};{values.dtype};{tuple(values.shape)};".encode())
                total.update(values.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        return total.hexdigest()

    def described(self) -> str:
        """All that determines its values besides weights and inputs."""
        return repr(self.module)


def chosen(asked: Sequence[int | str], available: Sequence[str], model: str) -> tuple[str, ...]:
    """Names of the layers that numbers and words mean, in the order of the model, each once."""
    numbered = [name for name in available if name.startswith(LAYER)]
    found = set()
    for word in asked:
        if word == ALL:
            found |= set(numbered or available)
            continue
        name = (
            (numbered or list(available))[-1]
            if word == LAST
            else f"{LAYER}{word}"
            if f"{LAYER}{word}" in available
            else str(word)
        )
        if name not in available:
            raise UsageError(f"layers {word}: {model} has no such layer; it has {_spoken(available)}.")
        found.add(name)
    return tuple(name for name in available if name in found)


def _spoken(available: Sequence[str]) -> str:
    numbers = [name.removeprefix(LAYER) for name in available if name.startswith(LAYER)]
    others = [name for name in available if not name.startswith(LAYER)]
    said = [f"{numbers[0]} to {numbers[-1]} (or last, all)"] if numbers else []
    return " and ".join([*said, *([_listed(others)] if others else [])])


def pooled(states: States, name: str, how: str | None) -> torch.Tensor:
    """One vector for each input.

    mean      over the tokens that count, special ones included; over the places of a map of features
    last      the last token that counts
    cls       the first token
    patches   the mean over the tokens behind the class token and its like
    """
    values, mask = states.layers[name], states.mask
    if values.ndim == 2:
        return values
    if values.ndim == 4:  # (n, channels, height, width)
        return values.mean(dim=(2, 3))
    if values.ndim != 3:
        raise DataError(f"{name}: expected states of 2 to 4 dimensions, got shape {tuple(values.shape)}.")
    if how == CLASS_TOKEN:
        return values[:, 0]
    if how == LAST_TOKEN:
        ends = values.shape[1] - 1 if mask is None else mask.sum(dim=1) - 1
        return values[torch.arange(len(values)), ends]
    if how == PATCHES:
        return values[:, states.prefix or 0 :].mean(dim=1)
    if mask is None:
        return values.mean(dim=1)
    weights = mask.to(values.dtype)
    return torch.einsum("ntd,nt->nd", values, weights) / weights.sum(dim=1, keepdim=True)


def _blocks_and_norms(module: nn.Module) -> tuple[list[nn.Module], list[nn.Module]]:
    """The blocks that a model is a stack of, and norms that belong to none of them."""
    stacks = [
        f"{name}." for name, part in module.named_modules() if name and isinstance(part, nn.ModuleList | nn.Sequential)
    ]
    blocks, norms = [], []
    for name, part in module.named_modules():
        inside = [stack for stack in stacks if name.startswith(stack)]
        if len(inside) == 1 and "." not in name.removeprefix(inside[0]):
            blocks.append(part)
        elif not inside and re.search("norm", type(part).__name__, re.IGNORECASE):
            norms.append(part)
    return blocks, norms


def _same(values: torch.Tensor, norm: torch.Tensor) -> bool:
    return bool(values.shape == norm.shape and torch.equal(values, norm))


def first_tensor(output: Any) -> torch.Tensor | None:
    """The tensor that a module returns, or the first one of a tuple."""
    if isinstance(output, torch.Tensor):
        return output
    return (
        next((part for part in output if isinstance(part, torch.Tensor)), None)
        if isinstance(output, tuple | list)
        else None
    )


def _listed(names: Sequence[str]) -> str:
    more = f", … ({len(names) - NAMES_SHOWN} more)" if len(names) > NAMES_SHOWN else ""
    return ", ".join(names[:NAMES_SHOWN]) + more


@contextmanager
def drawn_from(seed: int) -> Iterator[None]:
    """Weights that are drawn in this block come from a seed; torch's own generator is as before afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """So many threads of torch while the block lasts."""
    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
