"""Forward passes of five architectures, written from their papers in numpy: one input at a time, in double precision, no padding.

`tiny(kind, folder)` writes a model directory with random weights under the names that transformers reads; `STATES[kind](weights,
config, input)` gives the list of hidden states. Nothing here uses torch or transformers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file
from scipy.special import erf

Array = np.ndarray[Any, Any]
Weights = dict[str, Array]
WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", *"abcdefghijklmnopqrstuvwxyz"]
VOCABULARY, POSITIONS, WIDTH, INNER, HEADS, BLOCKS = len(WORDS), 24, 16, 24, 2, 2
CLASS, END, SIDE, PATCH = 1, 2, 8, 4


def weights_of(folder: Path) -> Weights:
    return {name: values.astype(np.float64) for name, values in load_file(folder / "model.safetensors").items()}


def _norm(x: Array, w: Weights, name: str, eps: float) -> Array:
    spread = np.sqrt(x.var(axis=-1, keepdims=True) + eps)
    return (x - x.mean(axis=-1, keepdims=True)) / spread * w[f"{name}.weight"] + w[f"{name}.bias"]


def _linear(x: Array, w: Weights, name: str) -> Array:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def _gelu(x: Array) -> Array:
    return x * (1 + erf(x / np.sqrt(2))) / 2


def _gelu_by_tanh(x: Array) -> Array:
    return x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2


def _attend(q: Array, k: Array, v: Array, *, causal: bool) -> Array:
    """Of each head (heads, tokens, numbers), put side by side again."""
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:])) > 0, scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return _joined(shares / shares.sum(axis=-1, keepdims=True) @ v)


def _split(x: Array, heads: int) -> Array:
    return x.reshape(len(x), heads, -1).transpose(1, 0, 2)


def _joined(x: Array) -> Array:
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def gpt2(w: Weights, config: dict[str, Any], tokens: Array) -> list[Array]:
    heads, eps = config["n_head"], config["layer_norm_epsilon"]

    def turned(x: Array, name: str) -> Array:  # its linear maps are stored transposed
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)]
    states = [x]
    for k in range(config["n_layer"]):
        q, key, v = np.split(turned(_norm(x, w, f"h.{k}.ln_1", eps), f"h.{k}.attn.c_attn"), 3, axis=1)
        x = x + turned(
            _attend(_split(q, heads), _split(key, heads), _split(v, heads), causal=True), f"h.{k}.attn.c_proj"
        )
        x = x + turned(_gelu_by_tanh(turned(_norm(x, w, f"h.{k}.ln_2", eps), f"h.{k}.mlp.c_fc")), f"h.{k}.mlp.c_proj")
        states.append(x)
    return [*states[:-1], _norm(x, w, "ln_f", eps)]


def neox(w: Weights, config: dict[str, Any], tokens: Array) -> list[Array]:
    heads, eps = config["num_attention_heads"], config["layer_norm_eps"]
    turned = int(config["hidden_size"] // heads * config["rope_parameters"]["partial_rotary_factor"])
    speed = config["rope_parameters"]["rope_theta"] ** (-np.arange(0, turned, 2) / turned)
    angle = np.tile(np.arange(len(tokens))[:, None] * speed, 2)

    def rotated(x: Array) -> Array:
        part, rest = x[..., :turned], x[..., turned:]
        swapped = np.concatenate([-part[..., turned // 2 :], part[..., : turned // 2]], axis=-1)
        return np.concatenate([part * np.cos(angle) + swapped * np.sin(angle), rest], axis=-1)

    x = w["embed_in.weight"][tokens]
    states = [x]
    for k in range(config["num_hidden_layers"]):
        at = f"layers.{k}"
        mixed = _split(_linear(_norm(x, w, f"{at}.input_layernorm", eps), w, f"{at}.attention.query_key_value"), heads)
        q, key, v = np.split(mixed, 3, axis=-1)
        attended = _linear(_attend(rotated(q), rotated(key), v, causal=True), w, f"{at}.attention.dense")
        inner = _gelu(_linear(_norm(x, w, f"{at}.post_attention_layernorm", eps), w, f"{at}.mlp.dense_h_to_4h"))
        x = x + attended + _linear(inner, w, f"{at}.mlp.dense_4h_to_h")
        states.append(x)
    return [*states[:-1], _norm(x, w, "final_layer_norm", eps)]


def _embedded(w: Weights, tokens: Array, at: str, eps: float) -> Array:
    x = w[f"{at}.word_embeddings.weight"][tokens] + w[f"{at}.position_embeddings.weight"][: len(tokens)]
    return _norm(x + w[f"{at}.token_type_embeddings.weight"][0], w, f"{at}.LayerNorm", eps)


def bert(w: Weights, config: dict[str, Any], tokens: Array) -> list[Array]:
    heads, eps = config["num_attention_heads"], config["layer_norm_eps"]
    states = [_embedded(w, tokens, "embeddings", eps)]
    for k in range(config["num_hidden_layers"]):
        x, at = states[-1], f"encoder.layer.{k}"
        q, key, v = (_split(_linear(x, w, f"{at}.attention.self.{part}"), heads) for part in ("query", "key", "value"))
        attended = _linear(_attend(q, key, v, causal=False), w, f"{at}.attention.output.dense")
        x = _norm(x + attended, w, f"{at}.attention.output.LayerNorm", eps)
        inner = _gelu(_linear(x, w, f"{at}.intermediate.dense"))
        states.append(_norm(x + _linear(inner, w, f"{at}.output.dense"), w, f"{at}.output.LayerNorm", eps))
    return states


def albert(w: Weights, config: dict[str, Any], tokens: Array) -> list[Array]:
    heads, eps = config["num_attention_heads"], config["layer_norm_eps"]
    w = {name.removeprefix("albert."): values for name, values in w.items()}
    at = "encoder.albert_layer_groups.0.albert_layers.0"
    states = [_linear(_embedded(w, tokens, "embeddings", eps), w, "encoder.embedding_hidden_mapping_in")]
    for _ in range(config["num_hidden_layers"]):  # one block, again and again
        x = states[-1]
        q, key, v = (_split(_linear(x, w, f"{at}.attention.{part}"), heads) for part in ("query", "key", "value"))
        attended = _linear(_attend(q, key, v, causal=False), w, f"{at}.attention.dense")
        x = _norm(x + attended, w, f"{at}.attention.LayerNorm", eps)
        inner = _gelu(_linear(x, w, f"{at}.ffn"))
        states.append(_norm(x + _linear(inner, w, f"{at}.ffn_output"), w, f"{at}.full_layer_layer_norm", eps))
    return states


def vit(w: Weights, config: dict[str, Any], pixels: Array) -> list[Array]:
    heads, eps, size = config["num_attention_heads"], config["layer_norm_eps"], config["patch_size"]
    channels, high, wide = pixels.shape
    patches = (
        pixels.reshape(channels, high // size, size, wide // size, size)
        .transpose(1, 3, 0, 2, 4)
        .reshape(-1, channels * size**2)
    )
    kernel = w["embeddings.patch_embeddings.projection.weight"]
    x = patches @ kernel.reshape(len(kernel), -1).T + w["embeddings.patch_embeddings.projection.bias"]
    x = np.concatenate([w["embeddings.cls_token"][0], x]) + w["embeddings.position_embeddings"][0]
    states = [x]
    for k in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{k}"
        before = _norm(x, w, f"{at}.layernorm_before", eps)
        q, key, v = (
            _split(_linear(before, w, f"{at}.attention.attention.{part}"), heads) for part in ("query", "key", "value")
        )
        x = x + _linear(_attend(q, key, v, causal=False), w, f"{at}.attention.output.dense")
        inner = _gelu(_linear(_norm(x, w, f"{at}.layernorm_after", eps), w, f"{at}.intermediate.dense"))
        x = x + _linear(inner, w, f"{at}.output.dense")
        states.append(x)
    return states


STATES: dict[str, Callable[[Weights, dict[str, Any], Array], list[Array]]] = {
    "gpt2": gpt2, "gpt_neox": neox, "bert": bert, "albert": albert, "vit": vit,
}  # fmt: skip


# -- directories

CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": WIDTH, "n_layer": BLOCKS, "n_head": HEADS, "n_positions": POSITIONS, "layer_norm_epsilon": 1e-5},
    "gpt_neox": {
        "hidden_size": WIDTH, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS, "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS, "layer_norm_eps": 1e-5,
        "rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.5, "rope_type": "default"},
    },
    "bert": {
        "hidden_size": WIDTH, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS, "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS, "layer_norm_eps": 1e-12,
    },
    "albert": {
        "hidden_size": WIDTH, "embedding_size": 8, "num_hidden_layers": 3, "num_attention_heads": HEADS, "intermediate_size": INNER,
        "max_position_embeddings": POSITIONS, "layer_norm_eps": 1e-12, "hidden_act": "gelu", "num_hidden_groups": 1,
        "inner_group_num": 1,
    },
    "vit": {
        "hidden_size": WIDTH, "num_hidden_layers": BLOCKS, "num_attention_heads": HEADS, "intermediate_size": INNER,
        "image_size": SIDE, "patch_size": PATCH, "num_channels": 3, "layer_norm_eps": 1e-12,
    },
}  # fmt: skip


def _shapes(kind: str) -> dict[str, tuple[int, ...]]:
    def linear(name: str, out: int, into: int) -> dict[str, tuple[int, ...]]:
        return {f"{name}.weight": (out, into), f"{name}.bias": (out,)}

    def norm(name: str, width: int = WIDTH) -> dict[str, tuple[int, ...]]:
        return {f"{name}.weight": (width,), f"{name}.bias": (width,)}

    def embedded(at: str, width: int) -> dict[str, tuple[int, ...]]:
        sizes = {"word": VOCABULARY, "position": POSITIONS, "token_type": 2}
        return {f"{at}.{n}_embeddings.weight": (size, width) for n, size in sizes.items()} | norm(
            f"{at}.LayerNorm", width
        )

    def attention(at: str, out: str) -> dict[str, tuple[int, ...]]:
        each = [linear(f"{at}.{part}", WIDTH, WIDTH) for part in ("query", "key", "value")]
        return {**each[0], **each[1], **each[2], **linear(out, WIDTH, WIDTH)}

    found: dict[str, tuple[int, ...]] = {}
    blocks = range(BLOCKS)
    if kind == "gpt2":
        found = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (POSITIONS, WIDTH)} | norm("ln_f")
        for k in blocks:
            for name, shape in (
                ("attn.c_attn", (WIDTH, 3 * WIDTH)),
                ("attn.c_proj", (WIDTH, WIDTH)),
                ("mlp.c_fc", (WIDTH, 4 * WIDTH)),
                ("mlp.c_proj", (4 * WIDTH, WIDTH)),
            ):
                found |= {f"h.{k}.{name}.weight": shape, f"h.{k}.{name}.bias": shape[1:]}
            found |= norm(f"h.{k}.ln_1") | norm(f"h.{k}.ln_2")
    elif kind == "gpt_neox":
        found = {"embed_in.weight": (VOCABULARY, WIDTH)} | norm("final_layer_norm")
        for at in (f"layers.{k}" for k in blocks):
            found |= linear(f"{at}.attention.query_key_value", 3 * WIDTH, WIDTH) | linear(
                f"{at}.attention.dense", WIDTH, WIDTH
            )
            found |= linear(f"{at}.mlp.dense_h_to_4h", INNER, WIDTH) | linear(f"{at}.mlp.dense_4h_to_h", WIDTH, INNER)
            found |= norm(f"{at}.input_layernorm") | norm(f"{at}.post_attention_layernorm")
    elif kind == "bert":
        found = embedded("embeddings", WIDTH)
        for at in (f"encoder.layer.{k}" for k in blocks):
            found |= attention(f"{at}.attention.self", f"{at}.attention.output.dense") | norm(
                f"{at}.attention.output.LayerNorm"
            )
            found |= linear(f"{at}.intermediate.dense", INNER, WIDTH) | linear(f"{at}.output.dense", WIDTH, INNER)
            found |= norm(f"{at}.output.LayerNorm")
    elif kind == "albert":
        at = "encoder.albert_layer_groups.0.albert_layers.0"
        found = embedded("embeddings", 8) | linear("encoder.embedding_hidden_mapping_in", WIDTH, 8)
        found |= attention(f"{at}.attention", f"{at}.attention.dense") | norm(f"{at}.attention.LayerNorm")
        found |= (
            linear(f"{at}.ffn", INNER, WIDTH)
            | linear(f"{at}.ffn_output", WIDTH, INNER)
            | norm(f"{at}.full_layer_layer_norm")
        )
    else:
        found = {
            "embeddings.cls_token": (1, 1, WIDTH),
            "embeddings.position_embeddings": (1, (SIDE // PATCH) ** 2 + 1, WIDTH),
        }
        projection = "embeddings.patch_embeddings.projection"
        found |= {f"{projection}.weight": (WIDTH, 3, PATCH, PATCH), f"{projection}.bias": (WIDTH,)} | norm("layernorm")
        for at in (f"encoder.layer.{k}" for k in blocks):
            found |= attention(f"{at}.attention.attention", f"{at}.attention.output.dense")
            found |= linear(f"{at}.intermediate.dense", INNER, WIDTH) | linear(f"{at}.output.dense", WIDTH, INNER)
            found |= norm(f"{at}.layernorm_before") | norm(f"{at}.layernorm_after")
    return found


def tiny(kind: str, folder: Path, seed: int = 0) -> Path:
    """A model directory of a few thousand random weights, with a tokenizer or a description of how pictures are prepared."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, shape in _shapes(kind).items():
        scale = 0.3 if len(shape) > 1 else 0.1
        around = 1.0 if len(shape) == 1 and name.endswith("weight") else 0.0
        arrays[name] = (around + scale * rng.standard_normal(shape)).astype(np.float32)
    save_file(arrays, folder / "model.safetensors", {"format": "pt"})
    config = {"model_type": kind, **CONFIGS[kind]}
    if kind == "vit":
        ready = {"do_resize": True, "size": {"height": SIDE, "width": SIDE}, "resample": 2, "do_rescale": True}
        ready |= {"do_normalize": True, "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}
        (folder / "preprocessor_config.json").write_text(json.dumps(ready))
    else:
        config["vocab_size"] = VOCABULARY
        _write_tokenizer(folder, special=kind in ("bert", "albert"))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def _write_tokenizer(folder: Path, *, special: bool) -> None:
    """Words are letters with blanks between them; BERT and ALBERT put [CLS] and [SEP] around them."""
    whole: dict[str, Any] = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(WORDS)}, "unk_token": "[UNK]"},
    }  # fmt: skip
    known: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]"}
    if special:
        ends = [{"SpecialToken": {"id": name, "type_id": 0}} for name in ("[CLS]", "[SEP]")]
        whole["post_processor"] = {
            "type": "TemplateProcessing", "single": [ends[0], {"Sequence": {"id": "A", "type_id": 0}}, ends[1]], "pair": [],
            "special_tokens": {n: {"id": n, "ids": [i], "tokens": [n]} for n, i in (("[CLS]", CLASS), ("[SEP]", END))},
        }  # fmt: skip
        whole["post_processor"]["pair"] = [*whole["post_processor"]["single"], {"Sequence": {"id": "B", "type_id": 1}}]
        known |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}
    (folder / "tokenizer.json").write_text(json.dumps(whole))
    (folder / "tokenizer_config.json").write_text(json.dumps(known))


def tokens_of(text: str, kind: str, limit: int = POSITIONS) -> Array:
    inner = [WORDS.index(word) for word in text.split()]
    if kind not in ("bert", "albert"):
        return np.array(inner[:limit])
    return np.array([CLASS, *inner[: limit - 2], END])
