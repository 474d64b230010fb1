"""`extract` from models of timm equals forward passes in plain torch functions, in a process of its own.

timm imports torchvision. Where that is of another build than torch it needs two operators that it does not have; the child
defines them, as nothing of ours uses them. Without them, the message of one line is tested here, too.
"""

from __future__ import annotations

import json
import sys

import pytest

import children

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np, torch
from torch.nn import functional as F
from safetensors.numpy import load_file, save_file

from identifiable import IdentifiableError, extract

def error(*given, **more):
    try:
        extract(*given, output="no.safetensors", **more)
    except IdentifiableError as raised:
        return str(raised)

said = {}
pixels = np.random.default_rng(0).integers(0, 256, (3, 40, 40, 3), np.uint8)
np.savez("p.npz", pixels)
said["broken"] = error("timm:resnet10t", "p.npz", untrained=0)
for name in [name for name in sys.modules if name.startswith("torchvision")]:
    del sys.modules[name]
library = torch.library.Library("torchvision", "FRAGMENT")
if not hasattr(torch.ops.torchvision, "nms"):
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import timm

def saved(folder, architecture, cfg, **args):
    torch.manual_seed(0)
    model = timm.create_model(architecture, num_classes=5, **args)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
        for b in model.buffers():
            b.add_(0.3) if b.is_floating_point() else None
    Path(folder).mkdir()
    weights = {k: v.detach().numpy() for k, v in model.state_dict().items()}
    save_file(weights, f"{folder}/model.safetensors")
    config = {"architecture": architecture, "num_classes": 5, "model_args": args, "pretrained_cfg": cfg}
    Path(folder, "config.json").write_text(json.dumps(config))
    return {k: torch.as_tensor(v).double() for k, v in weights.items() if v.dtype == np.float32}

cfg = {"input_size": [3, 32, 32], "mean": [.5, .4, .3], "std": [.2, .3, .4], "interpolation": "bicubic", "crop_pct": 0.8}
x = torch.as_tensor(pixels[:, 4:36, 4:36] / 255 - [.5, .4, .3]) / torch.tensor([.2, .3, .4])
x = x.double().permute(0, 3, 1, 2)  # 32 / 0.8 = 40, so nothing is resized; the middle is cut out

def vit(w):
    norm = lambda t, n: F.layer_norm(t, (24,), w[f"{n}.weight"], w[f"{n}.bias"], 1e-6)
    line = lambda t, n: F.linear(t, w[f"{n}.weight"], w[f"{n}.bias"])
    t = F.conv2d(x, w["patch_embed.proj.weight"], w["patch_embed.proj.bias"], stride=16).flatten(2).transpose(1, 2)
    t = torch.cat([w["cls_token"].expand(len(t), -1, -1), t], 1) + w["pos_embed"]
    states = []
    for k in range(2):
        q, key, v = line(norm(t, f"blocks.{k}.norm1"), f"blocks.{k}.attn.qkv").reshape(3, 5, 3, 2, 12).permute(2, 0, 3, 1, 4)
        shares = torch.softmax(q @ key.transpose(-1, -2) / 12**0.5, -1)
        t = t + line((shares @ v).transpose(1, 2).reshape(3, 5, 24), f"blocks.{k}.attn.proj")
        t = t + line(F.gelu(line(norm(t, f"blocks.{k}.norm2"), f"blocks.{k}.mlp.fc1")), f"blocks.{k}.mlp.fc2")
        states.append(t)
    return states, norm(t, "norm")[:, 0]

def resnet(w):
    def bn(t, n):
        return F.batch_norm(t, w[f"{n}.running_mean"], w[f"{n}.running_var"], w[f"{n}.weight"], w[f"{n}.bias"])
    t = F.relu(bn(F.conv2d(x, w["conv1.weight"], stride=2, padding=3), "bn1"))
    states = [t]
    t = F.max_pool2d(t, 3, 2, 1)
    for l in range(1, 5):
        n, step = f"layer{l}.0", 1 if l == 1 else 2
        inner = F.relu(bn(F.conv2d(t, w[f"{n}.conv1.weight"], stride=step, padding=1), f"{n}.bn1"))
        inner = bn(F.conv2d(inner, w[f"{n}.conv2.weight"], padding=1), f"{n}.bn2")
        if f"{n}.downsample.0.weight" in w:
            t = bn(F.conv2d(t, w[f"{n}.downsample.0.weight"], stride=step), f"{n}.downsample.1")
        t = F.relu(inner + t)
        states.append(t)
    return states, t.mean((2, 3))

def apart(values, truth):
    assert truth.std() > 0.01
    return float(np.abs(values - truth.numpy()).max() / truth.abs().max())

w = saved("vit", "vit_tiny_patch16_224", cfg, img_size=32, embed_dim=24, depth=2, num_heads=2)
states, head = vit(w)
found = extract("vit", "p.npz", output="v.safetensors", layers=["all", "pre_logits"], batch=2)
held = load_file("v.safetensors")
said["vit"] = [apart(held["layer_0"], states[0].mean(1)), apart(held["layer_1"], states[1].mean(1)), apart(held["pre_logits"], head)]
said["vit norm"] = [layer.final_norm for layer in found.layers]
for pool, truth in (("cls", states[1][:, 0]), ("patches", states[1][:, 1:].mean(1))):
    extract("vit", "p.npz", output="v.safetensors", pool=pool)
    said[pool] = apart(load_file("v.safetensors")["layer_1"], truth)
said["pool"] = error("vit", "p.npz", pool="last")
said["layer"] = error("vit", "p.npz", layers=[7])

w = saved("resnet", "resnet18", cfg, layers=(1, 1, 1, 1))
states, head = resnet(w)
extract("resnet", "p.npz", output="r.safetensors", layers=["all", "pre_logits"])
held = load_file("r.safetensors")
said["resnet"] = [apart(held[f"layer_{k}"], s.mean((2, 3))) for k, s in enumerate(states)] + [apart(held["pre_logits"], head)]
said["cls"] = max(said["cls"], 1.0 if error("resnet", "p.npz", pool="cls") is None else 0.0)

save_file({"head.bias": np.zeros(1000, np.float32)}, "part.safetensors")
said["missing"] = error("timm:vit_tiny_patch16_224", "p.npz", weights="part.safetensors")
said["weights"] = error("timm:vit_tiny_patch16_224", "p.npz")
said["name"] = error("timm:no_such_model", "p.npz", untrained=0)
extract("vit", "p.npz", output="u.safetensors", untrained=1)
said["untrained"] = float(np.abs(load_file("u.safetensors")["layer_1"] - load_file("v.safetensors")["layer_1"]).max())
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    done = children.run([sys.executable, "-c", PROGRAM], cwd=tmp_path_factory.mktemp("timm"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("model", ["vit", "resnet"])
def test_layers_equal_an_independent_forward_pass(said, model):
    assert max(said[model]) < 1e-5


def test_pooling_and_norms_are_those_of_timm(said):
    assert max(said["cls"], said["patches"]) < 1e-5
    assert said["vit norm"] == [False, False, True]  # blocks as they are; the classifier sees the norm
    assert said["untrained"] > 0.01


@pytest.mark.parametrize(
    ("case", "parts"),
    [
        ("pool", ("last", "mean", "patches", "cls")),
        ("layer", ("7", "0 to 1", "pre_logits")),
        ("missing", ("part.safetensors", "cls_token")),
        ("weights", ("timm:vit_tiny_patch16_224", "--weights", "--untrained")),
        ("name", ("timm:no_such_model",)),
    ],
)
def test_what_is_wrong_is_one_line(said, case, parts):
    assert all(part in said[case] for part in parts), said[case]
    assert "\n" not in said[case]


def test_a_timm_that_does_not_import_says_what_to_repair(said):
    if said["broken"] is None:
        pytest.skip("timm and torchvision fit this torch: nothing is broken here")
    assert "[timm]" in said["broken"]
    assert "timm" in said["broken"]
