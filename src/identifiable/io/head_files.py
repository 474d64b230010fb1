"""Output layers (heads) from `.npy`, `.npz`, `.safetensors`, `.pt` and Hugging Face model directories. Nothing is ever unpickled."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, check_numeric
from identifiable.io.array_files import NamedArrays, NpyFile, NpzFile, SafetensorsFile
from identifiable.io.containers import (
    check_is_file,
    did_you_mean,
    identities,
    is_file_name,
    listed,
    named,
    shown,
    split_spec,
    suffix_of,
)
from identifiable.io.opening import READERS, read_labels
from identifiable.io.torch_files import SUFFIXES, TorchFile

FORMATS: dict[str, Callable[[Path], NpyFile | NamedArrays]] = {
    ".npy": NpyFile,
    ".npz": NpzFile,
    ".safetensors": SafetensorsFile,
    ".pt": TorchFile,
    ".pth": TorchFile,
}
PICKLES = (".bin", ".ckpt", ".pkl", ".pickle")
CONFIG, INDEX, WHOLE = "config.json", "model.safetensors.index.json", "model.safetensors"
WEIGHT, BIAS = "weight", "bias"
PRECISION = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}
"""The spacing of numbers near 1 by how weights are stored; what is not listed is double."""

# What the class that config.json names calls its output layer, by the ends of names of tensors, the first that is there.
LANGUAGE = (
    "lm_head.weight", "embed_out.weight", "predictions.decoder.weight", "lm_head.decoder.weight", "generator_lm_head.weight",
    "vocab_projector.weight", "pred_layer.proj.weight", "decoder.weight",
)  # fmt: skip
CLASSIFIER = (
    "classifier.weight", "classifier.out_proj.weight", "score.weight", "classifier.1.weight",
    "classification_head.out_proj.weight", "classification_head.weight", "head.weight", "head.fc.weight", "fc.weight",
)  # fmt: skip
BY_CLASS = {
    "ForCausalLM": LANGUAGE, "ForMaskedLM": LANGUAGE, "LMHeadModel": LANGUAGE, "ForPreTraining": LANGUAGE,
    "ForConditionalGeneration": LANGUAGE, "WithLMHead": LANGUAGE, "Classification": CLASSIFIER,
}  # fmt: skip
EMBEDDINGS = (
    "word_embeddings.weight",
    "wte.weight",
    "embed_tokens.weight",
    "tok_embeddings.weight",
    "shared.weight",
    "embed_in.weight",
)
TIED = "tie_word_embeddings"
OWN_BIAS = ("predictions.bias", "lm_head.bias")  # of a head that is tied to the embeddings


class StoredHead(NamedTuple):
    """A head as it is stored: a matrix of which either axis may be the labels, its bias and label names where there are any."""

    weight: NDArray[Any]
    bias: NDArray[Any] | None
    labels: NDArray[Any] | None
    name: str
    dtype: str

    @property
    def precision(self) -> float:
        return PRECISION.get(self.dtype, float(np.finfo(np.float64).eps))


def read_head(
    spec: str | os.PathLike[str], bias: str | os.PathLike[str] | None = None, labels: str | None = None
) -> StoredHead:
    """The head in a file (``path`` or ``path:part``) or in a model directory (``folder`` or ``folder:tensor``).

    In a directory the class in `config.json` says what its output layer is called; a directory without one is refused, because
    loading such a model would make a random head. `bias` and `labels` are names in the same file, or other files; without them
    the bias stored beside the weights (``x.weight`` and ``x.bias``, ``head_a`` and ``bias_a``) and the labels of `config.json`
    are taken.
    """
    at = split_spec(spec, tuple(READERS))
    held: _Held = _Directory(at.path) if at.path.is_dir() else _File(at.path)
    tensor = held.tensor(at.part)
    weight, dtype = held.array(tensor)
    if weight.ndim != 2:
        raise DataError(
            f"{held.at(tensor)}: expected a head (labels, dimensions), got an array of shape {weight.shape}."
        )
    own = held.bias_of(tensor) if bias is None else None
    vector = held.array(own)[0] if own is not None else None if bias is None else _vector(bias, held)
    label_names = held.labels(weight.shape) if labels is None else _labels(labels, held)
    if label_names is not None:
        label_names = identities(label_names, f"{held.label}: the labels")
    name = at.path.resolve().name if isinstance(held, _Directory) and at.part is None else at.name
    return StoredHead(weight, vector, label_names, name, dtype)


def read_vector(spec: str | os.PathLike[str]) -> NDArray[Any]:
    """One number for each label, from a file of arrays."""
    at = split_spec(spec, tuple(READERS))
    held = _File(at.path)
    return held.array(held.only(1) if at.part is None else at.part)[0]


class _Held(ABC):
    """Arrays by name, wherever they are."""

    label: str
    names: Sequence[str]

    def at(self, name: str) -> str:
        return f"{self.label}:{shown(name)}" if name else self.label

    @abstractmethod
    def array(self, name: str) -> tuple[NDArray[Any], str]:
        """The array of that name and how it is stored."""

    @abstractmethod
    def shape(self, name: str) -> tuple[int, ...]: ...

    @abstractmethod
    def tensor(self, part: str | None) -> str:
        """The name of the head: `part`, or the one that is meant."""

    def labels(self, shape: tuple[int, ...]) -> NDArray[Any] | None:
        return None

    def bias_of(self, tensor: str) -> str | None:
        """The bias beside a tensor, by its name."""
        for word in (WEIGHT, "head", "kernel"):
            before, found, after = tensor.rpartition(word)
            if found and (name := f"{before}{BIAS}{after}") in self.names and len(self.shape(name)) == 1:
                return name
        return None

    def known(self, part: str) -> str:
        if part not in self.names:
            raise DataError(
                f"{self.label}: holds no {part!r}; it holds {named(self.names) or 'nothing'}{did_you_mean(part, self.names)}"
            )
        return part


class _File(_Held):
    """A file of arrays."""

    def __init__(self, path: Path):
        check_is_file(path)
        suffix = suffix_of(path)
        if suffix in PICKLES:
            raise DataError(
                f"{path}: holds pickled Python objects, which are never loaded because that can run code; save the head as "
                ".safetensors or .npz."
            )
        if suffix not in FORMATS:
            raise DataError(
                f"{path}: cannot read a head from {suffix or 'a file without a suffix'}; expected {', '.join(FORMATS)} or a model "
                f"directory with {CONFIG}."
            )
        self.label, self._file = str(path), FORMATS[suffix](path)
        self.names = self._file.names or ("",)

    def array(self, name: str) -> tuple[NDArray[Any], str]:
        return _numbers(self._file, self.known(name), self.at(name))

    def shape(self, name: str) -> tuple[int, ...]:
        return self._file.layout(name).shape

    def only(self, ndim: int) -> str:
        fitting = [name for name in self.names if len(self.names) == 1 or len(self.shape(name)) == ndim]
        if len(fitting) != 1:
            held = listed([f"{shown(name)} {self.shape(name)}" for name in self.names]) or "nothing"
            raise DataError(
                f"{self.label}: expected exactly one {ndim}-D array, found {len(fitting)}; it holds {held}: name one after a colon."
            )
        return fitting[0]

    def tensor(self, part: str | None) -> str:
        return self.only(2) if part is None else self.known(part)


class _Directory(_Held):
    """A Hugging Face model directory: `config.json`, and tensors in one `.safetensors` file or more."""

    def __init__(self, path: Path):
        self.label, self._path = str(path), path
        config = path / CONFIG
        if not config.is_file():
            raise DataError(
                f"{path}: expected a model directory with {CONFIG}, it holds {named(sorted(os.listdir(path))) or 'nothing'}."
            )
        self._config = _json(config)
        self._files: dict[str, SafetensorsFile] = {}
        for file in self._parts():
            check_is_file(file)
            part = SafetensorsFile(file)
            self._files |= dict.fromkeys(part.names, part)
        self.names = tuple(self._files)

    def _parts(self) -> list[Path]:
        if (self._path / INDEX).is_file():
            placed = _json(self._path / INDEX).get("weight_map")
            if not isinstance(placed, dict) or not all(isinstance(name, str) for name in placed.values()):
                raise DataError(
                    f"{self._path / INDEX}: expected a weight_map, which says where each tensor is; copy it again."
                )
            files = [Path(name).name for name in sorted(set(placed.values()))]
            for name in files:
                if not is_file_name(name):
                    raise DataError(f"{self._path / INDEX}: names a file {shown(name)}; copy it again.")
            return [self._path / name for name in files]
        found = [self._path / WHOLE] if (self._path / WHOLE).is_file() else sorted(self._path.glob("*.safetensors"))
        if not found:
            pickled = sorted(p.name for p in self._path.iterdir() if p.suffix in (*PICKLES, *SUFFIXES))
            why = f"; {named(pickled)} is pickled and never loaded" if pickled else ""
            raise DataError(
                f"{self.label}: holds no .safetensors file{why}: save the model with safe_serialization=True."
            )
        return found

    def array(self, name: str) -> tuple[NDArray[Any], str]:
        return _numbers(self._files[self.known(name)], name, self.at(name))

    def shape(self, name: str) -> tuple[int, ...]:
        return self._files[name].layout(name).shape

    @property
    def _class(self) -> str:
        """The class of the model, as config.json names it; of timm its architecture."""
        several = self._config.get("architectures")
        return str(several[0] if isinstance(several, list) and several else self._config.get("architecture", ""))

    def _candidates(self) -> tuple[str, ...]:
        own = self._config.get("pretrained_cfg")  # of timm: the module that classifies
        if isinstance(own, dict) and isinstance(own.get("classifier"), str):
            return (f"{own['classifier']}.{WEIGHT}",)
        return next((names for end, names in BY_CLASS.items() if self._class.endswith(end)), ())

    def tensor(self, part: str | None) -> str:
        if part is not None:
            return self.known(part)
        candidates = self._candidates()
        tie = self._config.get(TIED)
        tied = candidates is LANGUAGE and tie is not False
        embeddings = EMBEDDINGS if tie else EMBEDDINGS[:-1]  # GPT-NeoX is tied only where its config says so
        for end in (*candidates, *(embeddings if tied else ())):
            fitting = [n for n in self.names if (n == end or n.endswith(f".{end}")) and len(self.shape(n)) == 2]
            if len(fitting) == 1:
                return fitting[0]
        tables = [f"{shown(n)} {self.shape(n)}" for n in self.names if len(self.shape(n)) == 2]
        says = f"{CONFIG} names {shown(self._class)}" if self._class else f"{CONFIG} names no class"
        sought = (
            f", whose head would be {' or '.join(candidates[:3])}"
            if candidates
            else ", which has no head that is known here"
        )
        raise DataError(
            f"{self.label}: found no head: {says}{sought}; it holds {listed(tables[::-1]) or 'no 2-D tensor'}. "
            f"If one of them is the head, name it: {self.label}:NAME"
        )

    def bias_of(self, tensor: str) -> str | None:
        if self._candidates() is LANGUAGE and tensor.endswith(EMBEDDINGS):  # the head's own, not of the embeddings
            return next((n for n in self.names if n.endswith(OWN_BIAS)), None)
        return super().bias_of(tensor)

    def labels(self, shape: tuple[int, ...]) -> NDArray[Any] | None:
        """Names of classes in config.json, or the tokens of a language model; None where they are not said."""
        if self._candidates() is LANGUAGE:
            return _vocabulary(self._path, shape[0])
        known = self._config.get("id2label")
        names = self._config.get("label_names")
        if isinstance(known, dict) and set(known) == set(map(str, range(shape[0]))):
            names = [known[str(i)] for i in range(shape[0])]
        if not isinstance(names, list) or len(names) != shape[0] or len(set(map(str, names))) < len(names):
            return None
        unnamed = all(name == f"LABEL_{i}" for i, name in enumerate(names))
        return None if unnamed else np.array([str(name) for name in names])


def _vocabulary(folder: Path, size: int) -> NDArray[Any] | None:
    """The token of every row of an unembedding; rows beyond the vocabulary are called by their number."""
    tokens: dict[int, str] = {}
    if (folder / "tokenizer.json").is_file():
        whole = _json(folder / "tokenizer.json")
        model = whole.get("model")
        held = model.get("vocab") if isinstance(model, dict) else None
        if isinstance(held, dict):
            tokens = {i: t for t, i in held.items() if isinstance(i, int)}
        elif isinstance(held, list):
            tokens = {i: str(entry[0]) for i, entry in enumerate(held) if isinstance(entry, list) and entry}
        added = whole.get("added_tokens")
        for entry in added if isinstance(added, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("id"), int):
                tokens[entry["id"]] = str(entry.get("content"))
    elif (folder / "vocab.json").is_file():
        tokens = {i: t for t, i in _json(folder / "vocab.json").items() if isinstance(i, int)}
    if not tokens or max(tokens) >= size:
        return None
    names = [tokens.get(i, f"row {i}") for i in range(size)]
    return np.array(names) if len(set(names)) == size else None


def _numbers(file: NpyFile | NamedArrays, name: str, label: str) -> tuple[NDArray[Any], str]:
    values = file.array(name)
    check_numeric(values.dtype, label)
    return values, file.layout(name).stored_dtype


def _vector(given: str | os.PathLike[str], held: _Held) -> NDArray[Any]:
    return held.array(str(given))[0] if str(given) in held.names else read_vector(given)


def _labels(given: str, held: _Held) -> NDArray[Any]:
    at = f"{held.label}:{given}"
    return read_labels(at if given in held.names and not isinstance(held, _Directory) else given)


def _json(path: Path) -> Mapping[str, Any]:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise DataError(f"{path}: expected JSON, could not read it; copy or write it again.") from None
    if not isinstance(held, dict):
        raise DataError(f"{path}: expected a JSON object, got {type(held).__name__}.")
    return held
