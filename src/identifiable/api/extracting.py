"""Extracting: a model and inputs in, a file with one vector for each input and layer out."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from identifiable._checks import DataError, UsageError, as_text
from identifiable.api.opening import is_path
from identifiable.intake import default_provenance
from identifiable.io.growing import GrowingFile
from identifiable.io.inputs import Inputs, identified, open_inputs
from identifiable.io.preparing import Preparation, preparation
from identifiable.options import ExtractOptions, takes
from identifiable.results import Alert, ExtractedLayer, Extraction, Holder, Input, ModelCard
from identifiable.run import Run, Stage

if TYPE_CHECKING:
    from identifiable.nn.encoders import Encoder, Found

SUFFIX = ".safetensors"
SCHEMA = "identifiable/extracted/1"  # of the file
AT_ONCE = 256  # texts whose tokens are counted at once
PROBED = 2  # inputs of the batch that a model is looked at with
LIBRARIES = {"huggingface": ("torch", "transformers", "tokenizers"), "timm": ("torch", "timm"), "module": ("torch",)}


@takes(ExtractOptions)
def extract(model: Any, inputs: Any, /, *, options: ExtractOptions) -> Extraction:
    """Vectors of inputs from the layers of a model, as one `.safetensors` file that every other call reads.

    Ours. The file has a float32 tensor for each layer (`layer_4`), rows in the order of the inputs, and `ids`: a hash of each
    input, so that the rows of two models pair by it. It is written as the work goes on, beside its place; a call that was
    stopped goes on where it was, and gives the same bytes.

    Parameters
    ----------
    model
        A Hugging Face or timm directory, ``timm:NAME`` (with `weights`), a `torch.nn.Module`, or a function that returns one.
    inputs
        A text file (an input a line), ``file.jsonl:field``, a folder of pictures, an array in a file (``file.npz:key``: pictures in
        bytes, real numbers, token ids); or a list of texts or an array.
    """
    found = extracted(model, inputs, options)
    found.deliver()
    return found.result


@dataclass(frozen=True, eq=False, repr=False)
class Extracted(Holder):
    """The result, and its file, which has all rows and not yet its name."""

    result: Extraction
    file: GrowingFile

    def deliver(self) -> Path:
        """The file takes its name."""
        return self.file.deliver()


def extracted(model: Any, inputs: Any, options: ExtractOptions, *, by_length: bool = True) -> Extracted:
    """Do the work. `by_length`: batches hold inputs of about equal length, which leaves least padding."""
    if not is_path(options.output) or Path(options.output).suffix.lower() != SUFFIX:
        raise UsageError(f"output {options.output!r}: expected the name of a {SUFFIX} file.")
    from identifiable.nn.encoders import open_encoder
    from identifiable.nn.encoders.encoder import threads

    run = Run(0, options.workers, progress=options.progress)
    shown = open_inputs(inputs)
    encoder = open_encoder(
        model,
        name=options.name,
        weights=options.weights,
        untrained=options.untrained,
        trust=options.trust_remote_code,
    )
    if shown.kind not in encoder.takes:
        raise UsageError(
            f"{shown.label}: {encoder.name} takes {' or '.join(encoder.takes)} as inputs, not {shown.kind}"
            f"{_advice(shown.kind)}."
        )
    with threads(options.workers):
        work = _Work(encoder, shown, options, run, by_length)
        return work.done()


def _advice(kind: str) -> str:
    return {
        "text": ": it has no tokenizer",
        "pictures": "; pass arrays of real numbers, prepared as it wants them",
        "tokens": "; convert whole numbers to float32",
    }.get(kind, "")


class _Work:
    """One extraction: which inputs in which batches, and what the model makes of them."""

    def __init__(self, encoder: Encoder, shown: Inputs, options: ExtractOptions, run: Run, by_length: bool):
        self.encoder, self.shown, self.options, self.run = encoder, shown, options, run
        self.prepared = self._preparation()
        self.limit = _smaller(encoder.limit, options.max_tokens) if shown.kind in ("text", "tokens") else None
        self.found = self._found()
        self.ids, self.repeated = identified(shown, lambda done: run.say(Stage("reading inputs"), done, shown.n))
        self.truncated = self.longest = 0
        self.lengths = self._measured() if shown.kind in ("text", "tokens") else None
        order = np.arange(shown.n)
        if self.lengths is not None and by_length:  # the longest first: what does not fit in memory fails at once
            order = np.argsort(-self.lengths, kind="stable")
        self.batches = [order[a : a + options.batch] for a in range(0, shown.n, options.batch)]

    def _preparation(self) -> Preparation | None:
        if self.shown.kind != "pictures":
            return None
        config = self.encoder.preparation
        if config is None:
            raise DataError(
                f"{self.encoder.name}: does not say how pictures are prepared (no preprocessor_config.json); pass arrays of real "
                "numbers (n, channels, height, width)."
            )
        return preparation(config, self.encoder.preparation_family, self.encoder.name)

    def _found(self) -> Found | None:
        """What the first inputs say about the layers, before the others are read; None where something is wrong with these inputs."""
        try:
            return self._probed(np.arange(min(PROBED, self.shown.n)))
        except DataError:  # reading all inputs says which are wrong, and how many
            return None

    def _probed(self, places: NDArray[Any]) -> Found:
        return self.encoder.probe(self.batch(places), self.options.layers, self.options.pool)

    def _measured(self) -> NDArray[np.int64]:
        """The tokens of every input, as many as the model is shown."""
        whole = np.empty(self.shown.n, np.int64)
        for start in range(0, self.shown.n, AT_ONCE):
            stop = min(start + AT_ONCE, self.shown.n)
            given = self.shown.get(range(start, stop))
            whole[start:stop] = [
                len(t) for t in (self.encoder.tokenized(given) if self.shown.kind == "text" else given)
            ]
            if self.shown.kind == "tokens":
                self._check_vocabulary(given, start)
            self.run.say(Stage("counting tokens"), stop, self.shown.n)
        if not whole.all():
            raise DataError(f"{self.shown.label}: input {int(np.argmin(whole)) + 1} has no tokens.")
        self.longest = int(whole.max())
        long = whole > (self.limit or self.longest)
        self.truncated = int(long.sum())
        if self.truncated and self.options.too_long == "error":
            raise DataError(
                f"{self.shown.label}: {self.truncated} of {self.shown.n} inputs have more than {self.limit} tokens (first: input "
                f"{int(np.argmax(long)) + 1}, {int(whole[np.argmax(long)])} tokens); shorten them, or pass --too-long truncate."
            )
        return np.minimum(whole, self.limit or self.longest)

    def _check_vocabulary(self, given: Sequence[NDArray[np.int64]], start: int) -> None:
        size = self.encoder.vocabulary
        for i, tokens in enumerate(given):
            if size is not None and len(tokens) and tokens.max() >= size:
                raise DataError(
                    f"{self.shown.label}: input {start + i + 1} has token {int(tokens.max())}; {self.encoder.name} has {size} tokens."
                )

    def batch(self, places: NDArray[Any]) -> Any:
        """These inputs as the model takes them."""
        given = self.shown.get(places)
        if self.shown.kind == "text":
            return self.encoder.tokenized(given, self.limit)
        if self.shown.kind == "tokens":
            return [tokens[: self.limit] for tokens in given]
        if self.prepared is not None:
            return np.stack([self.prepared(picture) for picture in given])
        return given

    def done(self) -> Extracted:
        options, encoder = self.options, self.encoder
        found = self.found or self._probed(self.batches[-1][-PROBED:])
        names = tuple(found.widths)
        sha256 = encoder.digest()
        described: dict[str, Any] = {
            "schema": SCHEMA,
            "model": encoder.name,
            "architecture": encoder.architecture,
            "weights_sha256": sha256,
            "untrained": options.untrained,
            "layers": names,
            "pool": found.pool,
            "final_norm": {name: _yes_no(normed) for name, normed in found.final_norm.items()},
            "kind": self.shown.kind,
            "inputs": self.shown.name,
            "inputs_sha256": hashlib.sha256(self.ids.astype("<i8").tobytes()).hexdigest(),
            "truncated": self.truncated,
            "limit": self.limit,
        }
        described["fingerprint"] = self._fingerprint(described)
        metadata = {k: as_text(v) if isinstance(v, str) else json.dumps(v) for k, v in described.items()}
        with GrowingFile(options.output, found.widths, self.ids, metadata) as file:
            self._fill(file, names, found.pool)
        return Extracted(self._result(described, found.widths, found.final_norm), file)

    def _fill(self, file: GrowingFile, names: tuple[str, ...], pool: str | None) -> None:
        stage = Stage("extracting", self.encoder.name)
        costs = [int(self.lengths[b].max()) * len(b) if self.lengths is not None else len(b) for b in self.batches]
        start = file.done
        total, spent = sum(costs[start:]), 0
        for places, cost in zip(self.batches[start:], costs[start:], strict=True):
            values = self.encoder.features(self.batch(places), names, pool)
            self._check_finite(values, places)
            file.write(places, values)
            spent += cost
            self.run.say(stage, spent, total)
        file.finish()

    def _check_finite(self, values: Mapping[str, NDArray[np.float32]], places: NDArray[Any]) -> None:
        for name, block in values.items():
            bad = ~np.isfinite(block).all(axis=1)
            if bad.any():
                raise DataError(
                    f"{self.encoder.name}: {name} of input {int(places[np.argmax(bad)]) + 1} is not finite in float32; leave the "
                    "input out, or choose another layer."
                )

    def _fingerprint(self, described: Mapping[str, Any]) -> str:
        """All that determines the bytes of the file."""
        whole = {
            **described,
            "model": self.encoder.described(),
            "preparation": None if self.prepared is None else self.prepared.described(),
            "batch": self.options.batch,
            "order": hashlib.sha256(np.concatenate(self.batches).astype("<i8").tobytes()).hexdigest(),
            "versions": dict(_versions(LIBRARIES[self.encoder.family])),
        }
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    def _result(
        self, described: Mapping[str, Any], widths: Mapping[str, int], normed: Mapping[str, bool | None]
    ) -> Extraction:
        options, encoder, shown, lengths = self.options, self.encoder, self.shown, self.lengths
        provenance = default_provenance(options.untrained or 0, options.command or "identifiable.extract(...)")
        libraries = {**provenance.libraries, **dict(_versions(LIBRARIES[encoder.family]))}
        tokens = None if lengths is None else int(lengths.sum())
        filled = None if lengths is None else sum(int(lengths[b].max()) * len(b) for b in self.batches)
        width = self.longest or int(np.prod(np.shape(self.batch(np.arange(1)))[1:]))
        return Extraction(
            inputs=(Input(shown.name, shown.n, width, shown.kind, described["inputs_sha256"]),),
            settings=options.settings(),
            alerts=tuple(self._alerts(normed)),
            provenance=replace(provenance, libraries=libraries),
            output=os.fspath(options.output),
            model=ModelCard(
                encoder.name,
                encoder.family,
                encoder.architecture,
                encoder.parameters,
                described["weights_sha256"],
                options.untrained,
            ),
            layers=tuple(ExtractedLayer(name, width, normed[name]) for name, width in widths.items()),
            kind=shown.kind,
            n=shown.n,
            pool=described["pool"],
            truncated=self.truncated,
            limit=self.limit,
            longest=self.longest or None,
            tokens=tokens,
            padding=None if filled is None or tokens is None else filled - tokens,
            repeated=self.repeated,
        )

    def _alerts(self, normed: Mapping[str, bool | None]) -> Iterator[Alert]:
        if self.truncated:
            values = {"inputs": self.truncated, "of": self.shown.n, "limit": self.limit, "longest": self.longest}
            yield Alert("inputs_truncated", values)
        if len(set(normed.values())) > 1:
            sides = {True: [n for n, by in normed.items() if by], False: [n for n, by in normed.items() if not by]}
            yield Alert("norms_differ", {"normed": sides[True], "raw": sides[False]})
        if self.repeated:
            yield Alert("inputs_repeated", {"inputs": self.repeated, "of": self.shown.n})


def _smaller(first: int | None, second: int | None) -> int | None:
    return min((limit for limit in (first, second) if limit is not None), default=None)


def _yes_no(value: bool | None) -> str:
    return "none" if value is None else "yes" if value else "no"


def _versions(libraries: Sequence[str]) -> Iterator[tuple[str, str]]:
    for name in libraries:
        try:
            yield name, version(name)
        except PackageNotFoundError:  # a module with timm's methods need not be of timm
            continue
