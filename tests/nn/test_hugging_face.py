"""`extract` from Hugging Face directories equals forward passes written independently (`forward_passes`), however it is batched."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from commands import refused, run
from errors import naming
from forward_passes import CONFIGS, POSITIONS, SIDE, STATES, WORDS, tiny, tokens_of, weights_of
from identifiable import DataError, UsageError, compare, extract
from identifiable.experiments import reproduce, table1
from identifiable.nn.encoders import encoder as encoders
from identifiable.nn.encoders import open_encoder
from identifiable.nn.encoders.hugging_face import HuggingFace

CLOSE = 1e-5
TEXTS = ("gpt2", "gpt_neox", "bert", "albert")
REAL = Path("/work/shared/data/models/rxnmapper_albert")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {kind: tiny(kind, folder / kind) for kind in STATES}


@pytest.fixture(scope="module")
def texts():
    """67 texts of 1 to 20 letters, all different: in batches of 64 most of what a model sees is padding."""
    rng = np.random.default_rng(1)
    return [" ".join(rng.choice(WORDS[4:], 1 + (7 * i) % 20)) for i in range(67)]


def tensors(path):
    return load_file(path)


def metadata(path):
    with safe_open(path, "numpy") as file:
        return file.metadata()


def expected(folder, kind, inputs, layer, pool="mean"):
    """What an independent forward pass gives, one input at a time."""
    weights, config = weights_of(folder), json.loads((folder / "config.json").read_text())
    states = [STATES[kind](weights, config, given)[layer] for given in inputs]
    pools = {
        "mean": lambda s: s.mean(axis=0),
        "last": lambda s: s[-1],
        "cls": lambda s: s[0],
        "patches": lambda s: s[1:].mean(axis=0),
    }
    return np.array([pools[pool](state) for state in states])


@pytest.mark.parametrize("kind", TEXTS)
def test_every_layer_equals_an_independent_forward_pass(models, texts, kind, tmp_path):
    out = tmp_path / "out.safetensors"
    found = extract(models[kind], texts, output=out, layers=["all"], batch=64)
    blocks = len(found.layers) - 1
    tokens = [tokens_of(text, kind) for text in texts]
    held = tensors(out)
    assert blocks == (3 if kind == "albert" else 2)
    for layer in range(blocks + 1):
        truth = expected(models[kind], kind, tokens, layer)
        assert truth.std(axis=0).min() > 100 * CLOSE  # texts differ, so an error could be seen
        np.testing.assert_allclose(held[f"layer_{layer}"], truth, atol=CLOSE)
    normed = {"gpt2": True, "gpt_neox": True, "bert": None, "albert": None}[kind]
    assert [layer.final_norm for layer in found.layers] == [None if normed is None else False] * blocks + [normed]
    assert all(array.dtype == np.float32 for name, array in held.items() if name != "ids")


@pytest.mark.parametrize(("kind", "pool"), [("gpt2", "last"), ("bert", "cls"), ("bert", "last")])
def test_pooling_takes_tokens_that_count(models, texts, kind, pool, tmp_path):
    extract(models[kind], texts, output=tmp_path / "out.safetensors", layers=[1], pool=pool, batch=64)
    truth = expected(models[kind], kind, [tokens_of(t, kind) for t in texts], 1, pool)
    np.testing.assert_allclose(tensors(tmp_path / "out.safetensors")["layer_1"], truth, atol=CLOSE)


def test_batch_size_and_order_of_inputs_do_not_matter(models, texts, tmp_path):
    order = np.random.default_rng(2).permutation(len(texts))
    one, many, mixed = (tmp_path / f"{name}.safetensors" for name in ("one", "many", "mixed"))
    extract(models["bert"], texts, output=one, batch=1)
    extract(models["bert"], texts, output=many, batch=64)
    extract(models["bert"], [texts[i] for i in order], output=mixed, batch=7)
    a, b, c = tensors(one), tensors(many), tensors(mixed)
    np.testing.assert_allclose(a["layer_2"], b["layer_2"], atol=CLOSE)
    np.testing.assert_array_equal(a["ids"][order], c["ids"])
    np.testing.assert_allclose(a["layer_2"][order], c["layer_2"], atol=CLOSE)
    paired = compare(f"{one}:layer_2", f"{mixed}:layer_2", axes=False, nulls=(), intervals=False, neighbours=0)
    assert (paired.pairs[0].n, paired.pairs[0].dropped) == (len(texts), 0)
    assert paired.pairs[0].similarity.cka > 1 - 1e-6


def _without_mask(monkeypatch):
    monkeypatch.setattr(
        HuggingFace, "_padded", lambda self, tokens, keep=HuggingFace._padded: _all_count(keep(self, tokens))
    )


def _all_count(padded):
    ids, mask = padded
    return ids, mask * 0 + 1


def _attended(monkeypatch):
    states = HuggingFace.states

    def unmasked(self, batch, layers):
        monkeypatch.setattr(self, "_accepted", {})
        return states(self, batch, layers)

    monkeypatch.setattr(HuggingFace, "states", unmasked)


def _pooled(monkeypatch):
    pooled = encoders.pooled
    monkeypatch.setattr(encoders, "pooled", lambda states, *how: pooled(states._replace(mask=None), *how))


@pytest.mark.parametrize("mutation", [_without_mask, _attended, _pooled])
def test_a_mask_that_is_dropped_would_be_noticed(models, texts, mutation, monkeypatch, tmp_path):
    mutation(monkeypatch)
    extract(models["bert"], texts, output=tmp_path / "out.safetensors", batch=64)
    truth = expected(models["bert"], "bert", [tokens_of(t, "bert") for t in texts], 2)
    assert np.abs(tensors(tmp_path / "out.safetensors")["layer_2"] - truth).max() > 1000 * CLOSE


def test_a_directory_in_bfloat16_is_run_in_single_precision(models, texts, tmp_path):
    import torch
    from safetensors.torch import load_file as load_torch
    from safetensors.torch import save_file as save_torch

    folder = tmp_path / "half"
    shutil.copytree(models["gpt2"], folder)
    halved = {name: values.to(torch.bfloat16) for name, values in load_torch(folder / "model.safetensors").items()}
    save_torch(halved, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    extract(folder, texts, output=tmp_path / "out.safetensors")
    weights = {name: values.double().numpy() for name, values in halved.items()}
    truth = [STATES["gpt2"](weights, config, tokens_of(t, "gpt2"))[-1].mean(axis=0) for t in texts]
    np.testing.assert_allclose(tensors(tmp_path / "out.safetensors")["layer_2"], truth, atol=CLOSE)


@pytest.mark.parametrize("pool", ["mean", "cls", "patches"])
def test_pictures_are_prepared_as_the_directory_says(models, pool, tmp_path):
    from PIL import Image

    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 256, (5, SIDE, SIDE, 3), np.uint8)
    np.savez(tmp_path / "p.npz", x=np.moveaxis(pixels, -1, 1))
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    for i, picture in enumerate(pixels):
        Image.fromarray(picture).save(tmp_path / "folder" / ("deep" if i > 2 else ".") / f"{i}.png")
    ready = (pixels / 255 - [0.5, 0.4, 0.3]) / [0.2, 0.3, 0.4]
    truth = expected(models["vit"], "vit", np.moveaxis(ready, -1, 1), 2, pool)
    for source in (f"{tmp_path}/p.npz:x", tmp_path / "folder", np.moveaxis(ready, -1, 1).astype(np.float32)):
        found = extract(models["vit"], source, output=tmp_path / "out.safetensors", layers=[1, 2], pool=pool)
        np.testing.assert_allclose(tensors(tmp_path / "out.safetensors")["layer_2"], truth, atol=CLOSE)
        assert [layer.final_norm for layer in found.layers] == [False, False]  # its states are those before the norm


def test_a_masked_autoencoder_sees_every_patch(tmp_path):
    folder = tmp_path / "mae"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "vit_mae", **CONFIGS["vit"], "image_size": 16}))
    pixels = np.random.default_rng(5).standard_normal((4, 3, 16, 16)).astype(np.float32)
    other = pixels.copy()
    other[:, :, :4, :4] += 1  # one patch of sixteen
    for name, values in (("a", pixels), ("again", pixels), ("b", other)):
        extract(folder, values, output=tmp_path / f"{name}.safetensors", layers=[0], pool="patches", untrained=0)
    a, again, b = (tensors(tmp_path / f"{name}.safetensors")["layer_0"] for name in ("a", "again", "b"))
    np.testing.assert_array_equal(a, again)
    assert (np.abs(a - b).max(axis=1) > 1e-3).all()  # three quarters would be hidden in training


def test_pictures_of_another_size_are_resized_as_transformers_does(models):
    from PIL import Image
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    from identifiable.io.preparing import preparation

    config = json.loads((models["vit"] / "preprocessor_config.json").read_text())
    picture = Image.fromarray(np.random.default_rng(4).integers(0, 256, (13, 21, 3), np.uint8))
    theirs = ViTImageProcessorPil(**config)(picture, return_tensors="np")["pixel_values"][0]
    np.testing.assert_allclose(preparation(config, "huggingface", "vit")(picture), theirs, atol=1e-6)
    cropped = {**config, "size": {"shortest_edge": 10}, "do_center_crop": True, "crop_size": {"height": 8, "width": 9}}
    theirs = ViTImageProcessorPil(**cropped)(picture, return_tensors="np")["pixel_values"][0]
    np.testing.assert_allclose(preparation(cropped, "huggingface", "vit")(picture), theirs, atol=1e-6)


def test_token_ids_are_the_texts(models, texts, tmp_path):
    tokens = [tokens_of(t, "bert") for t in texts]
    ids = np.full((len(texts), 24), 5)
    for row, own in zip(ids, tokens, strict=True):
        row[: len(own)] = own
    mask = np.array([[i < len(own) for i in range(24)] for own in tokens]).astype(np.int64)
    np.savez(tmp_path / "t.npz", input_ids=ids, attention_mask=mask)
    np.save(tmp_path / "t.npy", np.where(mask, ids, -1))
    extract(models["bert"], texts, output=tmp_path / "text.safetensors")
    for name in ("t.npz", "t.npz:input_ids", "t.npy"):
        extract(models["bert"], f"{tmp_path}/{name}", output=tmp_path / "ids.safetensors")
        a, b = tensors(tmp_path / "text.safetensors"), tensors(tmp_path / "ids.safetensors")
        np.testing.assert_allclose(a["layer_2"], b["layer_2"], atol=CLOSE)


def test_untrained_weights_come_from_their_seed(models, texts, tmp_path):
    made = {}
    for name, seed in (("a", 0), ("again", 0), ("b", 1)):
        found = extract(models["bert"], texts, output=tmp_path / f"{name}.safetensors", untrained=seed)
        made[name] = tensors(tmp_path / f"{name}.safetensors")["layer_2"]
    assert found.model.untrained == 1
    trained = extract(models["bert"], texts, output=tmp_path / "trained.safetensors")
    assert trained.model.sha256 != found.model.sha256
    np.testing.assert_array_equal(made["a"], made["again"])
    assert np.abs(made["a"] - made["b"]).max() > 0.1


def test_texts_beyond_the_context_are_cut_and_counted(models, tmp_path):
    texts = [" ".join("abcdefghijklmnopqrstuvwxyz"), "a b", " ".join("abcdefghijklmnopqrstuvwxyz" * 2)]
    found = extract(models["bert"], texts, output=tmp_path / "out.safetensors")
    assert (found.truncated, found.limit, found.longest) == (2, POSITIONS, 54)
    assert [(alert.code, alert.values["inputs"]) for alert in found.alerts] == [("inputs_truncated", 2)]
    assert metadata(tmp_path / "out.safetensors")["truncated"] == "2"
    truth = expected(models["bert"], "bert", [tokens_of(t, "bert") for t in texts], 2)
    np.testing.assert_allclose(tensors(tmp_path / "out.safetensors")["layer_2"], truth, atol=CLOSE)
    with pytest.raises(DataError, match=naming(2, 3, POSITIONS, 1, 28)):
        extract(models["bert"], texts, output=tmp_path / "no.safetensors", too_long="error")
    assert extract(models["bert"], texts, output=tmp_path / "out.safetensors", max_tokens=5).truncated == 2


def _spoilt(folder, to, drop=(), add=None):
    shutil.copytree(folder, to)
    arrays = {n: v for n, v in load_file(to / "model.safetensors").items() if n not in drop}
    save_file({**arrays, **(add or {})}, to / "model.safetensors", {"format": "pt"})
    return to


def test_weights_that_would_be_drawn_at_random_are_refused_where_they_matter(models, texts, tmp_path):
    lost = "encoder.layer.1.output.dense.bias"
    folder = _spoilt(models["bert"], tmp_path / "lost", drop=[lost])
    with pytest.raises(DataError, match=naming("lost", 1, lost)) as found:
        extract(folder, texts, output=tmp_path / "out.safetensors")
    assert "pooler" not in str(found.value)  # missing too, but no layer uses it
    assert not list(tmp_path.glob("out*"))
    extract(folder, texts, output=tmp_path / "out.safetensors", layers=[1])  # the block before is whole
    truth = expected(models["bert"], "bert", [tokens_of(t, "bert") for t in texts], 1)
    np.testing.assert_allclose(tensors(tmp_path / "out.safetensors")["layer_1"], truth, atol=CLOSE)


def test_what_is_wrong_is_one_line(models, texts, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("\n".join(texts) + "\n")
    Path("long.txt").write_text("a " * 30 + "\n")
    Path("empty.txt").write_text("\n\n")
    Path("picture").mkdir()
    Path("picture/a.png").write_bytes(b"no picture")
    Path("picture/b.png").write_bytes(b"nor this")
    bare, pickled, other = Path("bare"), Path("pickled"), Path("other")
    bare.mkdir()
    shutil.copytree(models["bert"], pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    shutil.copytree(models["bert"], other)
    (other / "config.json").write_text('{"model_type": "no_such_type"}')
    bert, vit = str(models["bert"]), str(models["vit"])
    ids = np.full((3, 4), len(WORDS))
    np.save("ids.npy", ids)
    cases = [
        (["absent", "texts.txt"], 3, ["absent"]),
        (["bare", "texts.txt"], 3, ["bare", "config.json"]),
        (["pickled", "texts.txt"], 3, ["pytorch_model.bin"]),
        (["other", "texts.txt"], 3, ["other", "no_such_type"]),
        ([bert, "texts.txt", "--layers", "1,9"], 2, ["9", "0 to 2"]),
        ([bert, "texts.txt", "--layers", "pre_logits"], 2, ["pre_logits", "0 to 2"]),
        ([bert, "texts.txt", "--pool", "patches"], 2, ["patches", "mean", "cls"]),
        ([str(models["gpt2"]), "texts.txt", "--pool", "cls"], 2, ["cls", "mean or last"]),
        ([vit, "texts.txt"], 2, ["text", "pictures"]),
        ([bert, "picture"], 2, ["pictures", "text"]),
        ([vit, "picture"], 3, ["2 of 2", "a.png", "b.png"]),
        ([bert, "empty.txt"], 3, ["empty.txt"]),
        ([bert, "absent.txt"], 3, ["absent.txt"]),
        ([bert, "long.txt", "--too-long", "error"], 3, ["long.txt", "1 of 1", "24", "32"]),
        ([bert, "ids.npy"], 3, ["ids.npy", str(len(WORDS))]),
        ([bert, "texts.txt", "--weights", "w.safetensors"], 2, ["w.safetensors"]),
    ]
    before = sorted(Path().iterdir())
    for words, code, parts in cases:
        err = refused("extract", *words, "-o", "out.safetensors", code=code, capsys=capsys)
        assert all(part in err for part in parts), err
        assert sorted(Path().iterdir()) == before
    err = refused("extract", bert, "texts.txt", "-o", "out.npy", code=2, capsys=capsys)
    assert "out.npy" in err


def test_nothing_but_the_table_is_printed(models, texts, tmp_path, monkeypatch, capfd):
    """transformers has bars and notes of its own."""
    monkeypatch.chdir(tmp_path)
    Path("t.jsonl").write_text("".join(json.dumps({"n": i, "line": text}) + "\n" for i, text in enumerate(texts)))
    folder = _spoilt(models["gpt2"], tmp_path / "more", add={"lm_head.weight": np.zeros((3, 3), np.float32)})
    code, out, err = run(
        "extract", str(folder), "t.jsonl:line", "-o", "o.safetensors", "--layers", "1,last", capsys=capfd
    )
    assert (code, err) == (0, "")
    assert "norms_differ" in out or "norm" in out
    assert out.count("layer_2") >= 2


def test_a_model_in_memory_takes_token_ids(models, texts, tmp_path):
    from transformers import GPT2Config, GPT2Model

    with encoders.drawn_from(0):
        model = GPT2Model(GPT2Config(**CONFIGS["gpt2"], vocab_size=len(WORDS)))
    ids = np.random.default_rng(0).integers(0, len(WORDS), (6, 5))
    extract(model, ids, output=tmp_path / "a.safetensors", layers=[1])
    assert model.training  # it is left as it was
    with pytest.raises(UsageError, match=naming("GPT2Model", "tokens", "text")):
        extract(model, texts, output=tmp_path / "b.safetensors")


def _emptied(block, given, out):
    given[0].zero_()  # what entered the block, which hidden_states still has


@pytest.mark.parametrize("kind", ["mamba", "in place"])
def test_layer_0_is_what_enters_the_first_block_whatever_hidden_states_has(kind, tmp_path):
    import torch
    from transformers import GPT2Config, GPT2Model, MambaConfig, MambaModel

    ids = np.random.default_rng(0).integers(0, 9, (6, 5))
    with encoders.drawn_from(0):
        if kind == "mamba":
            model = MambaModel(MambaConfig(vocab_size=9, hidden_size=16, num_hidden_layers=2, state_size=4)).eval()
            blocks, norm, entering = model.layers, model.norm_f, model.embeddings(torch.as_tensor(ids))
        else:
            model = GPT2Model(GPT2Config(**CONFIGS["gpt2"], vocab_size=9)).eval()
            blocks, norm = model.h, model.ln_f
            entering = model.wte(torch.as_tensor(ids)) + model.wpe(torch.arange(5))
    with torch.no_grad():
        states = [entering]
        for block in blocks:
            states.append(block(states[-1]))
        states[-1] = norm(states[-1])
        if kind != "mamba":
            blocks[0].register_forward_hook(_emptied)
        theirs = model(torch.as_tensor(ids), output_hidden_states=True).hidden_states[0]
    assert torch.abs(theirs - entering).max() > 1000 * CLOSE
    for batch in (2, 6):
        extract(model, ids, output=tmp_path / "out.safetensors", layers=["all"], batch=batch)
        for k, values in enumerate(states):
            held = tensors(tmp_path / "out.safetensors")[f"layer_{k}"]
            np.testing.assert_allclose(held, values.mean(dim=1).detach().numpy(), atol=CLOSE)


def test_one_of_two_towers_is_asked_for(tmp_path):
    from transformers import CLIPConfig, CLIPModel

    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    text, vision = {**sizes, "vocab_size": 9}, {**sizes, "image_size": 16, "patch_size": 8}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision))
    pixels, ids = np.zeros((3, 3, 16, 16), np.float32), np.ones((3, 4), np.int64)
    for given in (pixels, ids, ["a b"]):
        with pytest.raises(UsageError, match=naming("CLIPModel", "text_model", "vision_model", "module:attribute")):
            extract(model, given, output=tmp_path / "out.safetensors")
    assert len(extract(model.vision_model, pixels, output=tmp_path / "out.safetensors", layers=["all"]).layers) == 3


@pytest.mark.parametrize(("asked", "part"), [({"layers": [9]}, "0 to 2"), ({"pool": "patches"}, "cls")])
def test_an_impossible_layer_or_pooling_is_found_before_inputs_are_read(models, texts, asked, part, tmp_path):
    told = []
    with pytest.raises(UsageError, match=part):
        extract(
            models["bert"], texts, output=tmp_path / "o.safetensors", progress=lambda *said: told.append(said), **asked
        )
    assert told == []


@pytest.mark.skipif(not REAL.exists(), reason=f"needs {REAL}")
def test_a_real_albert_equals_an_independent_forward_pass(tmp_path):
    lines = (REAL / "reactions.txt").read_text().splitlines()
    lines = [*sorted(lines, key=len)[::300][:4], lines[0]]
    extract(REAL, lines, output=tmp_path / "out.safetensors", layers=[0, 4, "last"])
    from transformers import AutoTokenizer

    known = AutoTokenizer.from_pretrained(REAL, local_files_only=True)
    tokens = [np.array(known(line)["input_ids"]) for line in lines]
    for layer in (0, 4, 12):
        truth = expected(REAL, "albert", tokens, layer)
        np.testing.assert_allclose(tensors(tmp_path / "out.safetensors")[f"layer_{layer}"], truth, atol=CLOSE)


CODE = """
from pathlib import Path
Path({made!r}).write_text("run")
from transformers import BertConfig, BertModel
class OwnConfig(BertConfig):
    model_type = "own"
class OwnModel(BertModel):
    config_class = OwnConfig
"""


def test_code_of_a_directory_runs_only_if_it_is_trusted(models, texts, tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "cache"))
    folder, made = tmp_path / "own", tmp_path / "made"
    shutil.copytree(models["bert"], folder)
    (folder / "own.py").write_text(CODE.format(made=str(made)))
    config = json.loads((folder / "config.json").read_text())
    own = {"model_type": "own", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}}
    (folder / "config.json").write_text(json.dumps({**config, **own}))
    with pytest.raises(DataError, match=naming("own", "--trust-remote-code")):
        extract(folder, texts, output=tmp_path / "out.safetensors")
    assert not made.exists()
    extract(folder, texts, output=tmp_path / "out.safetensors", trust_remote_code=True)
    assert made.exists()
    truth = expected(models["bert"], "bert", [tokens_of(t, "bert") for t in texts], 2)
    np.testing.assert_allclose(tensors(tmp_path / "out.safetensors")["layer_2"], truth, atol=CLOSE)


# -- experiments on published models


def test_figure_4_of_roeder_reads_model_directories_token_by_token(models, texts, tmp_path):
    for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"):
        (tmp_path / name).symlink_to(models["gpt2"])
    (tmp_path / "ptb.txt").write_text("\n".join(texts))
    changes = {"components": (4,), "states": 3, "every": 2, "sentences": 50}
    found = reproduce("roeder-fig4", scale="paper", data=str(tmp_path), changes=changes)
    tokens = [tokens_of(text, "gpt2") for text in texts[:50]]
    assert found.inputs[0].n == sum(map(len, tokens))
    assert {(pair.at, pair.part) for pair in found.pairs} == {(-2, "k = 4"), (0, "k = 4")}
    assert len({pair.seeds for pair in found.pairs}) == 6
    for pair in found.pairs:  # one model under four names; untrained ones differ
        assert pair.value == pytest.approx(1, abs=1e-6)
        assert pair.untrained < 0.95
    weights, config = weights_of(models["gpt2"]), json.loads((models["gpt2"] / "config.json").read_text())
    truth = np.concatenate([STATES["gpt2"](weights, config, given)[2] for given in tokens])
    opened = open_encoder(models["gpt2"])
    rows = opened.token_features(opened.tokenized(texts[:50]), last=3, every=2)
    assert len(rows) == 2
    np.testing.assert_allclose(rows[1], truth, atol=CLOSE)


def test_table_1_runs_model_directories_once(models, texts, tmp_path, monkeypatch):
    folder = tmp_path / "mae"
    folder.mkdir()
    (folder / "a").symlink_to(models["gpt2"])
    (folder / "b").symlink_to(models["gpt_neox"])
    (folder / "inputs.txt").write_text("\n".join(texts))
    changes = {"pairs": ("mae",), "left_out": 3, "null_draws": 1}
    how = {"scale": "paper", "data": str(tmp_path), "changes": changes}
    with pytest.raises(UsageError, match="--checkpoint"):
        reproduce("table1", **how)
    (line,) = reproduce("table1", **how, checkpoint=str(tmp_path / "kept")).lines
    assert (line.n, line.kind) == (len(texts), "published")
    monkeypatch.setattr(table1, "extract", None)
    assert reproduce("table1", **how, checkpoint=str(tmp_path / "kept")).lines == (line,)
