"""Hugging Face directories (`config.json`, safetensors, a tokenizer), and their models in memory.

Layers are numbered as in `hidden_states`: 0 is what enters the first block, k what leaves the k-th. In transformers 5 most text
models replace the last of them by the state after the final norm, and vision models do not; which it is, is measured. Some lists do
not begin with what enters the first block (that of Mamba), and a model may change a state in place after it was listed: the first
batch is compared with what enters each block, and where they differ, that is taken.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from identifiable._checks import DataError, UsageError, words_of
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

CONFIG = "config.json"
PREPARATIONS = ("preprocessor_config.json", "processor_config.json")
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model", "tokenizer.model")
PICKLES = (".bin", ".pt", ".pth", ".ckpt")
TEXT, PIXELS = "input_ids", "pixel_values"
TOWERS = ("text_model", "vision_model", "image_model", "audio_model")
UNLIMITED = 10**9  # tokenizers without a limit name a larger number


class HuggingFace(Encoder):
    """A model of transformers; of one with a decoder, its encoder."""

    family = preparation_family = "huggingface"

    def __init__(
        self,
        name: str,
        module: nn.Module,
        missing: Collection[str] = (),
        folder: Path | None = None,
        trust: bool = False,
    ):
        if getattr(module.config, "is_encoder_decoder", False):
            whole, module = module, module.get_encoder()
            prefix = next(f"{n}." for n, part in whole.named_modules() if part is module)
            missing = [n.removeprefix(prefix) for n in missing if not n.startswith("decoder.")]
        if len(towers := [part for part, _ in module.named_children() if part in TOWERS]) > 1:
            raise UsageError(
                f"{name}: has {len(towers)} towers ({', '.join(towers)}) with inputs of their own; pass one of them, in Python "
                f"model.{towers[-1]}, on the command line as module:attribute."
            )
        super().__init__(name, module, missing)
        self._watched_blocks = self._stack()
        self._compared = False
        main = getattr(module, "main_input_name", TEXT)
        self._config = module.config
        self._tokenizer = None
        self._accepted = inspect.signature(self.module.forward).parameters
        if main == TEXT:
            self._tokenizer = _tokenizer(folder, trust)
            self.takes = ("text", "tokens") if self._tokenizer is not None else ("tokens",)
            self.limit = self._longest()
        elif main == PIXELS:
            self.takes = ("pictures", "arrays")
            self.preparation = _preparation(folder)
        else:
            raise UsageError(f"{name}: expected a model of text or pictures, got one of {main}.")

    @property
    def vocabulary(self) -> int | None:
        embeddings = self.module.get_input_embeddings()
        return getattr(embeddings, "num_embeddings", None)

    def tokenized(self, texts: Sequence[str], limit: int | None = None) -> list[NDArray[np.int64]]:
        if self._tokenizer is None:
            return super().tokenized(texts, limit)
        found = self._tokenizer(
            list(texts), truncation=limit is not None, max_length=limit, return_attention_mask=False, verbose=False
        )
        return [np.asarray(ids, np.int64) for ids in found[TEXT]]

    def states(self, batch: Any, layers: Sequence[str] | None) -> States:
        if isinstance(batch, np.ndarray):
            pixels = torch.as_tensor(batch, dtype=torch.float32)
            found = self._hidden({PIXELS: pixels, **self._unmasked(pixels)})
            return States(self._named(found), prefix=self._prefix(pixels, found))
        ids, mask = self._padded(batch)
        given = {TEXT: ids, "attention_mask": mask, "use_cache": False}
        kept = {name: value for name, value in given.items() if name in self._accepted or name == TEXT}
        return States(self._named(self._hidden(kept)), mask)

    def _hidden(self, given: Mapping[str, torch.Tensor]) -> Sequence[torch.Tensor]:
        """The list of transformers; where its states are not what enters the blocks, these and the last of the list."""
        entered: list[torch.Tensor] = []

        def keep(_block: nn.Module, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
            values = first_tensor(given) if given else named.get("hidden_states")
            if values is not None:
                entered.append(values.clone())  # a block may change it in place

        hooks = [block.register_forward_pre_hook(keep, with_kwargs=True) for block in self._watched_blocks]
        try:
            found: Sequence[torch.Tensor] | None = self.module(
                **given, output_hidden_states=True, return_dict=True
            ).hidden_states
        finally:
            for hook in hooks:
                hook.remove()
        if not found:
            raise DataError(f"{self.name}: {self.architecture} gives no hidden states.")
        comparable = [v.shape for v in entered] == [v.shape for v in found[:-1]]
        if not self._compared:
            self._compared = True
            if not comparable or all(map(torch.equal, entered, found)):
                self._watched_blocks = []
        return [*entered, found[-1]] if comparable and self._watched_blocks else found

    def _stack(self) -> list[nn.Module]:
        """The blocks, where one list of parts has as many as there are layers; those of other models cannot be told."""
        stacks: dict[str, list[nn.Module]] = {}
        for name, part in self.module.named_modules():
            inside = any(name.startswith(f"{other}.") for other in stacks)
            if isinstance(part, nn.ModuleList) and not inside:
                stacks[name] = list(part)
        fitting = [each for each in stacks.values() if len(each) == getattr(self.module.config, "num_hidden_layers", 0)]
        return fitting[0] if len(fitting) == 1 else []

    def _unmasked(self, pixels: torch.Tensor) -> dict[str, torch.Tensor]:
        """Masked autoencoders hide patches at random; here they see all of them, in their order."""
        if "noise" not in self._accepted or not hasattr(self._config, "mask_ratio"):
            return {}
        self._config.mask_ratio = 0.0
        side = self._config.patch_size
        patches = (pixels.shape[-2] // side) * (pixels.shape[-1] // side)
        return {"noise": torch.linspace(0, 1, patches).expand(len(pixels), -1)}

    def poolings(self, states: States) -> tuple[str, ...]:
        if states.mask is None:
            return (
                MEAN,
                *((PATCHES,) if states.prefix is not None else ()),
                *((CLASS_TOKEN,) if states.prefix else ()),
            )
        first = getattr(self._tokenizer, "cls_token_id", None) is not None or self._tokenizer is None
        return (MEAN, LAST_TOKEN, *((CLASS_TOKEN,) if first else ()))

    def described(self) -> str:
        tokens = "" if self._tokenizer is None else getattr(self._tokenizer, "backend_tokenizer", self._tokenizer)
        how = tokens.to_str() if hasattr(tokens, "to_str") else repr(tokens)
        return f"{self.architecture};{self._config.to_json_string()};{how}"

    def _named(self, found: Sequence[torch.Tensor]) -> Mapping[str, torch.Tensor]:
        return {f"{LAYER}{k}": values for k, values in enumerate(found)}

    def _padded(self, tokens: Sequence[NDArray[np.int64]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids and which of them count, padded on the right: positions of tokens are those without padding."""
        fill = getattr(self._tokenizer, "pad_token_id", None)
        fill = fill if fill is not None else getattr(self._config, "pad_token_id", None)
        fill = fill if isinstance(fill, int) and 0 <= fill < (self.vocabulary or fill + 1) else 0
        ids = np.full((len(tokens), max(map(len, tokens))), fill, np.int64)
        mask = np.zeros_like(ids)
        for row, kept, own in zip(ids, mask, tokens, strict=True):
            row[: len(own)] = own
            kept[: len(own)] = 1
        return torch.as_tensor(ids), torch.as_tensor(mask)

    def _prefix(self, pixels: torch.Tensor, found: Sequence[torch.Tensor]) -> int | None:
        """How many tokens stand before the patches; None if states are not patches of this size."""
        size = getattr(self._config, "patch_size", None)
        if found[0].ndim != 3 or size is None:
            return None
        high, wide = (size, size) if isinstance(size, int) else size
        before: int = found[0].shape[1] - (pixels.shape[-2] // high) * (pixels.shape[-1] // wide)
        return before if 0 <= before < found[0].shape[1] else None

    def _longest(self) -> int | None:
        """Tokens that the positions of the model allow, or the tokenizer if that is fewer."""
        own = getattr(self._tokenizer, "model_max_length", None)
        positions = getattr(self._config, "max_position_embeddings", None)
        for name, part in self.module.named_modules():
            if name.endswith("position_embeddings") and getattr(part, "padding_idx", None) is not None and positions:
                positions -= part.padding_idx + 1  # RoBERTa counts positions from behind its padding
                break
        known = [limit for limit in (own, positions) if isinstance(limit, int) and 0 < limit < UNLIMITED]
        return min(known, default=None)


def open_directory(folder: Path, *, untrained: int | None, trust: bool) -> HuggingFace:
    """The model in a directory, without its head, read from local files only."""
    transformers = imported()
    name = folder.resolve().name
    how: dict[str, Any] = {"local_files_only": True, "trust_remote_code": trust}
    with _one_line(folder, trust), quiet(transformers):
        if untrained is not None:
            config = transformers.AutoConfig.from_pretrained(folder, **how)
            with drawn_from(untrained):
                module = transformers.AutoModel.from_config(config, trust_remote_code=trust, dtype=torch.float32)
            return HuggingFace(name, module.eval(), folder=folder, trust=trust)
        _refuse_pickles(folder)
        module, info = transformers.AutoModel.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, use_safetensors=True, **how
        )
        lost = [
            *info.get("missing_keys", ()),
            *(key[0] if isinstance(key, tuple) else key for key in info.get("mismatched_keys", ())),
        ]
        return HuggingFace(name, module.eval(), lost, folder, trust)


def imported() -> Any:
    """transformers. It imports torchvision where that is installed; one that does not import is as good as not installed."""
    if "torchvision" not in sys.modules and "transformers" not in sys.modules:
        try:
            import_module("torchvision")
        except Exception:  # a build for another torch raises RuntimeError
            for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
            sys.modules["torchvision"] = cast(Any, None)
    require("transformers", extra="models", what="extract from a Hugging Face directory")
    import transformers

    return transformers


@contextmanager
def quiet(transformers: Any) -> Iterator[None]:
    """No bars and no notes about weights: what matters of them is in `output_loading_info`."""
    said = transformers.utils.logging
    level, bars = said.get_verbosity(), said.is_progress_bar_enabled()
    said.set_verbosity_error()
    said.disable_progress_bar()
    try:
        yield
    finally:
        said.set_verbosity(level)
        if bars:
            said.enable_progress_bar()


@contextmanager
def _one_line(folder: Path, trust: bool) -> Iterator[None]:
    try:
        yield
    except (DataError, UsageError, MemoryError):
        raise
    except Exception as error:  # transformers raises a dozen unrelated types on bad directories
        own = _json(folder / CONFIG).get("auto_map")
        hint = (
            ""
            if own is None or trust
            else "; it has code of its own: pass --trust-remote-code (trust_remote_code=True) to run it"
        )
        raise DataError(f"{folder}: cannot be loaded as a model of transformers ({words_of(error)}){hint}.") from error


def _refuse_pickles(folder: Path) -> None:
    if any(folder.glob("*.safetensors")):
        return
    pickled = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    why = f" ({', '.join(pickled[:3])}: pickled weights are never loaded, they can run code)" if pickled else ""
    raise DataError(
        f"{folder}: holds no .safetensors file{why}; save the model with save_pretrained, or pass --untrained SEED."
    )


def _tokenizer(folder: Path | None, trust: bool) -> Any:
    if folder is None or not any((folder / name).is_file() for name in TOKENIZERS):
        return None
    transformers = imported()
    with quiet(transformers):
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=trust)


def _preparation(folder: Path | None) -> Mapping[str, Any] | None:
    """What the directory says about preparing pictures."""
    for name in PREPARATIONS:
        if folder is not None and (folder / name).is_file():
            found = _json(folder / name)
            inner = found.get("image_processor")
            return inner if isinstance(inner, dict) else found
    return None


def _json(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise DataError(f"{path}: expected JSON, could not read it; copy or write it again.") from None
    if not isinstance(found, dict):
        raise DataError(f"{path}: expected a JSON object, got {type(found).__name__}.")
    return found
