"""Freeze what the published InfoMEC codes give, in an environment where they still run.

Run by hand, with Python 3.11 and numpy<2, scipy<1.12, scikit-learn==1.3.2 (no part of this project):

    python make_infomec_reference.py OFFICIAL

OFFICIAL is a folder with the original files, which are not copied here:
    hsu_standalone.py      disentangle/metrics/infomec.py of kylehkhsu/latent_quantization
    mutual_information.py  disentangle/metrics/mutual_information.py of the same
    explicitness.py        disentangle/metrics/explicitness.py of the same
    tripod.py              disentangle/metrics/infomec.py of kylehkhsu/tripod
    factorqvae.py          metrics/infomec.py of ituvisionlab/FactorQVAE
Of each only the functions are taken; jax.numpy is numpy (in double precision) and optax's cross-entropy one line.

`spread` is how far InfoE of the original moves when its rows change their order: its regressions stop before they converge,
and rounding decides where.
"""

from __future__ import annotations

import ast
import json
import sys
import types
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
REORDERED = 3


def cases() -> dict[str, tuple[np.ndarray, np.ndarray, bool]]:
    """Latents, factors and whether latents are discrete. `RandomState`, whose numbers never change."""
    made = {}
    for seed, (classes, rows) in enumerate([((2, 3), 900), ((4, 10, 2), 1200), ((40, 5, 3), 2400)]):
        rng = np.random.RandomState(seed)
        factors = np.stack([rng.randint(k, size=rows) for k in classes], axis=1)
        standard = (factors - factors.mean(axis=0)) / factors.std(axis=0)
        name = "x".join(map(str, classes))
        mixed = standard @ rng.randn(len(classes), 5) + 0.4 * rng.randn(rows, 5)
        made[f"mixed {name}"] = mixed, factors, False
        aligned = np.concatenate([standard + 0.1 * rng.randn(*standard.shape), 0.02 * rng.randn(rows, 2)], axis=1)
        made[f"aligned {name}"] = aligned, factors, False
        noisy = np.where(rng.rand(rows, len(classes)) < 0.8, factors, rng.randint(2, size=factors.shape))
        codes = np.concatenate([noisy, rng.randint(6, size=(rows, 2))], axis=1)
        made[f"codes {name}"] = codes.astype(np.int64), factors, True
    return made


def functions(path: Path, extra: dict[str, object]) -> types.SimpleNamespace:
    """The functions of a file, with numpy and scikit-learn and nothing else it imports."""
    import functools

    import sklearn
    from sklearn import feature_selection, linear_model, metrics, preprocessing

    names: dict[str, object] = {
        "np": np, "jnp": np, "functools": functools, "sklearn": sklearn, "metrics": metrics,
        "preprocessing": preprocessing, "feature_selection": feature_selection, "linear_model": linear_model, **extra,
    }  # fmt: skip
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    exec(compile(tree, str(path), "exec"), names)
    return types.SimpleNamespace(**names)


def concentrations(nmi: np.ndarray, active: np.ndarray) -> tuple[float, float]:
    """InfoM and InfoC of FactorQVAE, whose function wants a model: the formulas of its lines 52 and 53."""
    kept, m, a = nmi[:, active], len(nmi), active.sum()
    infom = ((kept.max(axis=0) / kept.sum(axis=0)).mean() - 1 / m) / (1 - 1 / m)
    infoc = ((kept.max(axis=1) / kept.sum(axis=1)).mean() - 1 / a) / (1 - 1 / a)
    return float(infom), float(infoc)


def main(official: Path) -> None:
    def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
        shifted = logits - logits.max(axis=1, keepdims=True)
        return np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]

    optax = types.SimpleNamespace(softmax_cross_entropy_with_integer_labels=cross_entropy)
    # scikit-learn 1.3 calls the argument `sparse_output`; it was `sparse` when the file was written.
    from sklearn import preprocessing

    def one_hot(**options: bool) -> object:
        return preprocessing.OneHotEncoder(sparse_output=False)

    older = types.SimpleNamespace(OneHotEncoder=one_hot, StandardScaler=preprocessing.StandardScaler,
                                  LabelEncoder=preprocessing.LabelEncoder)  # fmt: skip
    standalone = functions(official / "hsu_standalone.py", {})
    tripod = functions(official / "tripod.py", {"print": lambda *_: None})
    information = functions(official / "mutual_information.py", {})
    explicit = functions(official / "explicitness.py", {"optax": optax, "preprocessing": older})
    factorqvae = functions(official / "factorqvae.py", {})

    def of_training(latents: np.ndarray, factors: np.ndarray, discrete: bool) -> dict[str, object]:
        estimator = "discrete-discrete" if discrete else "continuous-discrete"
        nmi, mask = information.compute_pairwise_mutual_information(latents, factors, not discrete, estimator)
        ratio = information.compute_mutual_information_ratio
        return {
            "infom": ratio(nmi, mask, "modularity"), "infoc": ratio(nmi, mask, "compactness"),
            "infoe": explicit.explicitness_classification(latents, factors), "nmi": nmi.T, "active_latents": mask,
        }  # fmt: skip

    def of_factorqvae(latents: np.ndarray, factors: np.ndarray, discrete: bool) -> dict[str, object]:
        rng = np.random.RandomState(0)
        nmi = factorqvae.compute_nmi(latents, factors, discrete, rng)
        span = np.ptp(latents, axis=0)
        active = span > 0 if discrete else span > span.max() / 20
        infom, infoc = concentrations(nmi, active)
        infoe = factorqvae.compute_infoe(latents.astype(float), factors, discrete, rng)
        return {"infom": infom, "infoc": infoc, "infoe": infoe, "nmi": nmi, "active_latents": active}

    runs = {
        # their null is zeros like the latents, which must be floats (spec: "integer codes still fail")
        "hsu-standalone": lambda z, s, d: standalone.compute_infomec(s, z.astype(float), d),
        "tripod": lambda z, s, d: tripod.compute_infomec(s, z.astype(float), d),
        "hsu-training": of_training,
        "factorqvae": of_factorqvae,
    }
    found: dict[str, dict[str, object]] = {}
    for name, (latents, factors, discrete) in cases().items():
        found[name] = {}
        for profile, run in runs.items():
            result = run(latents, factors, discrete)
            moved = []
            for k in range(REORDERED):
                order = np.random.RandomState(100 + k).permutation(len(latents))
                moved.append(
                    abs(float(run(latents[order], factors[order], discrete)["infoe"]) - float(result["infoe"]))
                )
            found[name][profile] = {
                "infom": float(result["infom"]), "infoe": float(result["infoe"]), "infoc": float(result["infoc"]),
                "spread": max(moved), "nmi": np.asarray(result["nmi"]).tolist(),
                "active": np.asarray(result["active_latents"]).tolist(),
            }  # fmt: skip
            print(name, profile, {k: v for k, v in found[name][profile].items() if k not in ("nmi", "active")})
    import scipy
    import sklearn

    about = f"scikit-learn {sklearn.__version__}, scipy {scipy.__version__}, numpy {np.__version__}"
    (HERE / "infomec.json").write_text(json.dumps({"made_with": about, "cases": found}, indent=1) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(Path(sys.argv[1]))
