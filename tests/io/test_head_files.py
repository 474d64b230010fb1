"""Heads in files and in Hugging Face model directories: what is found, and what is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from errors import naming
from identifiable._checks import DataError
from identifiable.io.array_files import safetensors_header
from identifiable.io.head_files import read_head, read_vector

RNG = np.random.default_rng(0)
ALBERT = Path("/work/shared/data/models/rxnmapper_albert")


def matrix(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def model(folder: Path, kind: str | None, tensors: dict[str, Any], /, **config: Any) -> Path:
    """A model directory as `save_pretrained` writes it."""
    folder.mkdir(exist_ok=True)
    named = {} if kind is None else {"architectures": [kind]}
    (folder / "config.json").write_text(json.dumps({**named, **config}))
    save_file(tensors, folder / "model.safetensors")
    return folder


BODY = {"encoder.layer.0.weight": matrix(4, 4), "encoder.layer.0.bias": matrix(4)}
FOUND = {
    "GPT-2, tied": (
        "GPT2LMHeadModel",
        {"transformer.wte.weight": 9, "transformer.wpe.weight": 5},
        {},
        "transformer.wte.weight",
        None,
    ),
    "GPT-NeoX": (
        "GPTNeoXForCausalLM",
        {"gpt_neox.embed_in.weight": 9, "embed_out.weight": 9},
        {"tie_word_embeddings": False},
        "embed_out.weight",
        None,
    ),
    "Llama, not tied": (
        "LlamaForCausalLM",
        {"model.embed_tokens.weight": 9, "lm_head.weight": 9},
        {},
        "lm_head.weight",
        None,
    ),
    "BERT, tied": (
        "BertForMaskedLM",
        {
            "bert.embeddings.word_embeddings.weight": 9,
            "cls.predictions.bias": 9,
            "bert.embeddings.position_embeddings.weight": 5,
        },
        {},
        "bert.embeddings.word_embeddings.weight",
        "cls.predictions.bias",
    ),
    "ALBERT": (
        "AlbertForMaskedLM",
        {"albert.embeddings.word_embeddings.weight": 9, "predictions.decoder.weight": 9, "predictions.decoder.bias": 9},
        {},
        "predictions.decoder.weight",
        "predictions.decoder.bias",
    ),
    "classifier": (
        "BertForSequenceClassification",
        {"bert.pooler.dense.weight": 4, "classifier.weight": 3, "classifier.bias": 3},
        {},
        "classifier.weight",
        "classifier.bias",
    ),
    "RoBERTa classifier": (
        "RobertaForSequenceClassification",
        {"classifier.dense.weight": 4, "classifier.out_proj.weight": 3, "classifier.out_proj.bias": 3},
        {},
        "classifier.out_proj.weight",
        "classifier.out_proj.bias",
    ),
    "GPT-2 classifier": (
        "GPT2ForSequenceClassification",
        {"transformer.wte.weight": 9, "score.weight": 3},
        {},
        "score.weight",
        None,
    ),
    "ViT": (
        "ViTForImageClassification",
        {"classifier.weight": 3, "classifier.bias": 3},
        {},
        "classifier.weight",
        "classifier.bias",
    ),
    "timm": (
        None,
        {"fc.weight": 3, "fc.bias": 3, "head.weight": 8},
        {"architecture": "resnet18", "pretrained_cfg": {"classifier": "fc"}},
        "fc.weight",
        "fc.bias",
    ),
}


@pytest.mark.parametrize(("architecture", "sizes", "config", "weight", "bias"), FOUND.values(), ids=FOUND)
def test_the_head_is_the_tensor_that_the_config_says(tmp_path, architecture, sizes, config, weight, bias):
    tensors = {name: matrix(k) if name.endswith("bias") else matrix(k, 4) for name, k in sizes.items()}
    folder = model(tmp_path / "net", architecture, {**BODY, **tensors}, **config)
    found = read_head(folder)
    assert np.array_equal(found.weight, tensors[weight])
    assert (found.bias is None) == (bias is None)
    assert bias is None or np.array_equal(found.bias, tensors[bias])
    assert (found.name, found.dtype) == ("net", "float32")


REFUSED = {
    "a base model": ("BertModel", {"embeddings.word_embeddings.weight": 9}, {}, ("BertModel", "embeddings.word_embeddings.weight")),
    "not tied, head absent": (
        "LlamaForCausalLM",
        {"model.embed_tokens.weight": 9},
        {"tie_word_embeddings": False},
        ("LlamaForCausalLM", "lm_head.weight", "model.embed_tokens.weight"),
    ),
    "GPT-NeoX, head absent": (
        "GPTNeoXForCausalLM", {"gpt_neox.embed_in.weight": 9}, {}, ("GPTNeoXForCausalLM", "gpt_neox.embed_in.weight"),
    ),
    "classifier absent": (
        "BertForSequenceClassification", {"bert.pooler.dense.weight": 4}, {}, ("classifier.weight", "bert.pooler.dense.weight"),
    ),
    "no class": (None, {"lm_head.weight": 9}, {}, ("config.json", "lm_head.weight")),
}  # fmt: skip


@pytest.mark.parametrize(("architecture", "sizes", "config", "parts"), REFUSED.values(), ids=REFUSED)
def test_a_directory_without_its_head_is_refused_with_what_it_holds(tmp_path, architecture, sizes, config, parts):
    tensors = {name: matrix(k, 4) for name, k in sizes.items()}
    folder = model(tmp_path / "net", architecture, {**BODY, **tensors}, **config)
    with pytest.raises(DataError, match=naming("net", *parts)):
        read_head(folder)
    name = next(iter(sizes))
    assert np.array_equal(read_head(f"{folder}:{name}").weight, tensors[name])


def test_tensors_may_lie_in_several_files(tmp_path):
    folder = model(tmp_path / "net", "LlamaForCausalLM", {"model.embed_tokens.weight": matrix(9, 4)})
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    head = matrix(9, 4)
    save_file({"lm_head.weight": head}, folder / "model-00002-of-00002.safetensors")
    placed = {"model.embed_tokens.weight": 1, "lm_head.weight": 2}
    index = {"weight_map": {name: f"model-0000{i}-of-00002.safetensors" for name, i in placed.items()}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert np.array_equal(read_head(folder).weight, head)
    (folder / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(DataError, match="model-00002-of-00002"):
        read_head(folder)


def test_names_of_classes_and_tokens_are_read_to_join_heads_on(tmp_path):
    classifier = {"classifier.weight": matrix(3, 4)}
    named = {"0": "cat", "1": "dog", "2": "owl"}
    folder = model(tmp_path / "a", "ViTForImageClassification", classifier, id2label=named)
    assert read_head(folder).labels.tolist() == ["cat", "dog", "owl"]
    unnamed = {str(i): f"LABEL_{i}" for i in range(3)}
    assert read_head(model(tmp_path / "b", "ViTForImageClassification", classifier, id2label=unnamed)).labels is None
    folder = model(tmp_path / "c", "GPT2LMHeadModel", {"wte.weight": matrix(4, 2)})
    assert read_head(folder).labels is None
    (folder / "vocab.json").write_text(json.dumps({"b": 1, "a": 0}))
    assert read_head(folder).labels.tolist() == ["a", "b", "row 2", "row 3"]
    tokenizer = {"model": {"vocab": [["x", -1.0], ["y", -2.0]]}, "added_tokens": [{"id": 2, "content": "<s>"}]}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    assert read_head(folder).labels.tolist() == ["x", "y", "<s>", "row 3"]


def test_heads_in_files_and_the_bias_beside_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    weight, bias = matrix(6, 3), matrix(6)
    np.save("head.npy", weight)
    np.savez("one.npz", head_a=weight, bias_a=bias, ids=np.arange(50))
    np.savez_compressed("packed.npz", weight=weight, bias=bias)
    save_file({"classifier.weight": weight, "classifier.bias": bias, "other": bias}, "net.safetensors")
    for spec, found in (
        ("head.npy", None),
        ("one.npz", bias),
        ("one.npz:head_a", bias),
        ("packed.npz", bias),
        ("net.safetensors", bias),
    ):
        head = read_head(spec)
        assert np.array_equal(head.weight, weight)
        assert np.array_equal(head.bias, found) if found is not None else head.bias is None
    assert np.array_equal(read_head("head.npy", "one.npz:bias_a").bias, bias)
    assert np.array_equal(read_head("net.safetensors", "other").bias, bias)
    assert np.array_equal(read_vector("net.safetensors:classifier.bias"), bias)


def test_bfloat16_weights_are_read_exactly_and_known_as_such(tmp_path):
    half = (matrix(6, 3).view(np.uint32) >> 16).astype(np.uint16)
    header = {"lm_head.weight": {"dtype": "BF16", "shape": [6, 3], "data_offsets": [0, half.nbytes]}}
    (tmp_path / "net.safetensors").write_bytes(safetensors_header(header) + half.tobytes())
    found = read_head(tmp_path / "net.safetensors")
    assert np.array_equal(found.weight, (half.astype(np.uint32) << 16).view(np.float32))
    assert (found.dtype, found.precision) == ("bfloat16", 2.0**-7)


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def test_what_is_pickled_is_never_loaded(tmp_path):
    for name in ("head.pt", "pytorch_model.bin", "head.pkl"):
        (tmp_path / name).write_bytes(pickle.dumps(Trap()))
        with pytest.raises(DataError, match=naming(name, ".safetensors")):
            read_head(tmp_path / name)
    (tmp_path / "config.json").write_text('{"architectures": ["GPT2LMHeadModel"]}')
    with pytest.raises(DataError, match=naming(".safetensors", "pytorch_model.bin")):
        read_head(tmp_path)
    np.savez(tmp_path / "a.npz", head=np.array([[Trap()]], dtype=object))
    with pytest.raises(DataError, match=naming("a.npz:head")):
        read_head(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("spec", "parts"),
    [
        ("absent.npy", ("absent.npy",)),
        ("table.csv", ("table.csv", ".npy, .npz, .safetensors")),
        ("vector.npy", ("vector.npy", "(3,)")),
        ("two.npz", ("two.npz", "2-D", 3, "head (3, 2)", "tail (3, 2)")),
        ("two.npz:haed", ("two.npz", "haed", "head")),
        ("two.npz:words", ("two.npz:words",)),
        ("empty", ("empty", "config.json")),
        ("broken", ("config.json",)),
        ("listed", ("config.json", "list")),
        ("damaged", ("model.safetensors",)),
    ],
)
def test_what_is_no_head_is_one_line(tmp_path, monkeypatch, spec, parts):
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("a,b\n1,2\n")
    np.save("vector.npy", np.ones(3))
    np.savez("two.npz", head=np.ones((3, 2)), tail=np.ones((3, 2)), words=np.array([["a", "b"]]))
    for name, text in (("empty", None), ("broken", "{"), ("listed", "[]"), ("damaged", "{}")):
        Path(name).mkdir()
        if text is not None:
            Path(name, "config.json").write_text(text)
    Path("damaged", "model.safetensors").write_bytes(b"no tensors here")
    with pytest.raises(DataError, match=naming(*parts)) as found:
        read_head(spec)
    assert "\n" not in str(found.value)


@pytest.mark.skipif(not ALBERT.exists(), reason="needs the real model directory in /work/shared/data/models")
def test_a_real_model_directory():
    found = read_head(ALBERT)
    assert (found.weight.shape, found.bias.shape, found.labels.shape, found.name) == (
        (591, 128),
        (591,),
        (591,),
        "rxnmapper_albert",
    )
