"""The page of `extract`: what was written, from which layers, with what to keep in mind."""

from __future__ import annotations

from collections.abc import Iterator

from identifiable.report.frame import framed, glossary, section, terms
from identifiable.report.page import Block, Card, Code, Page, Table, Text, Tone, columns
from identifiable.report.words import MISSING, count, display_name, one_line, percent, sentence_of
from identifiable.results import Extraction

GUIDE = (
    "Every layer is a table in one file: a row for each input, in the order of the inputs, and a hash of the input as its id. "
    "Compare layers with equal entries under final norm."
)
READING = ("Layer", "Final norm", "Pooling", "Ids", "Truncated", "Padding", "Untrained")
NORMS = {True: "yes", False: "no", None: "model has none"}
OTHER = "OTHER.safetensors"
FAMILIES = {"huggingface": "Hugging Face", "timm": "timm", "module": "torch module"}


def page(result: Extraction) -> Page:
    words = glossary("extraction")
    return framed(
        result,
        title=f"{display_name(result.model.name)}: layers of {display_name(result.inputs[0].name)}",
        subtitle="Which vectors were extracted, from which layers of which model, and on what inputs?",
        guide=GUIDE,
        verdict=(_card(result),),
        sections=[
            section("layers", "Layers", _layers(result)),
            section("steps", "What to do next", _steps(result)),
        ],
        reading=(Text(words[""]), terms("extraction", *READING)),
        methods=(words["Computed"],),
        papers=(),
    )


def _card(result: Extraction) -> Card:
    model = result.model
    facts = [("inputs", count(result.n)), ("layers", count(len(result.layers)))]
    if result.pool is not None:
        facts.append(("pooling", result.pool))
    if result.tokens is not None:
        facts += [("tokens", count(result.tokens)), ("padding", percent(_padding(result)))]
    if result.limit is not None:
        facts.append(("truncated", count(result.truncated)))
    facts += [("parameters", count(model.parameters)), ("model", FAMILIES[model.family])]
    badge = "untrained" if model.untrained is not None else "extracted"
    tone: Tone = "caution" if result.truncated else "plain"
    return Card(display_name(model.name), badge, sentence_of(result.headline), tone, tuple(facts), brief=True)


def _padding(result: Extraction) -> float:
    """The share of padding in what the model was shown."""
    padding, tokens = result.padding or 0, result.tokens or 0
    return padding / max(padding + tokens, 1)


def _layers(result: Extraction) -> Iterator[Block]:
    yield Table(
        "Tensors in the file",
        columns("tensor", "rows", "columns", "final norm", words=("final norm",)),
        tuple(
            (one_line(layer.name), count(result.n), count(layer.width), NORMS[layer.final_norm])
            for layer in result.layers
        ),
        brief=True,
    )
    if result.longest is not None:
        yield Table(
            "Tokens",
            columns("measure", "value"),
            (
                ("longest input", count(result.longest)),
                ("limit", MISSING if result.limit is None else count(result.limit)),
                ("inputs above the limit, cut off there", count(result.truncated)),
                ("tokens shown to the model", count(result.tokens or 0)),
                ("padding beside them", count(result.padding or 0)),
            ),
        )
    yield Text(
        f"Model: {one_line(result.model.architecture)}, {count(result.model.parameters)} parameters, weights "
        f"{one_line(result.model.sha256[:16])}.",
        note=True,
    )


def _steps(result: Extraction) -> Iterator[Block]:
    """The command that a reader most likely wants."""
    yield Text("Extract another model on the same inputs, then compare. Rows pair by id.", brief=True)
    if len(result.layers) > 1:
        yield _command("layers", result.output, OTHER)
        yield Text("Or see how far the first and the last of these layers agree.", brief=True)
        yield _command("compare", *(f"{result.output}:{layer.name}" for layer in (result.layers[0], result.layers[-1])))
    else:
        yield _command("compare", *(f"{file}:{result.layers[0].name}" for file in (result.output, OTHER)))
    if result.model.untrained is None:
        yield Text(glossary("extraction")["Baseline"])


def _command(name: str, *words: str) -> Code:
    quoted = (f'"{word}"' if " " in word else word for word in map(one_line, words))
    return Code(name, " ".join(["identifiable", name, *quoted]), brief=True)
