"""Aligner, the estimator of two views: it keeps the promises of scikit-learn, and its own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from identifiable import Aligner, Blocks, DataError, DataWarning, PairingError, Representation, UsageError
from identifiable.groups import haar_rotation

N, D = 120, 4
NEEDS_SCIPY_ARRAY_API = "check_array_api_input"
QUICK: dict[str, Any] = {"group": "rigid", "workers": 1}


def views(n=N, widths=(D, D), noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, widths[0])) * np.linspace(2, 1, widths[0]) + 5
    by = haar_rotation(max(widths), rng)[: widths[0], : widths[1]]
    return X, X @ by + noise * rng.standard_normal((n, widths[1]))


@pytest.fixture(scope="module")
def pair():
    return views()


@pytest.fixture(scope="module")
def fitted(pair):
    return Aligner(**QUICK).fit(*pair)


# scikit-learn's own checks


def failed(model: Any) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DataWarning)
        results = check_estimator(model, on_skip=None, on_fail=None)
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {NEEDS_SCIPY_ARRAY_API}
    assert len(results) > 40
    return [r["check_name"] for r in results if r["status"] in ("failed", "xfail")]


def test_every_check_of_scikit_learn_passes_without_exemption():
    assert failed(Aligner("linear", ridge=0.1, workers=1)) == []
    tags = Aligner().__sklearn_tags__()
    assert tags.target_tags.required
    assert not tags.non_deterministic
    assert not tags._skip_test


# What it finds


def test_it_maps_the_first_view_to_the_second(pair, fitted):
    X, Y = pair
    mapped = fitted.transform(X)
    np.testing.assert_allclose(mapped, X @ fitted.matrix_ + fitted.offset_, atol=1e-9)
    residual = np.sum((Y - mapped) ** 2) / np.sum((Y - Y.mean(axis=0)) ** 2)
    assert fitted.score(X, Y) == pytest.approx(1 - residual)
    assert fitted.score(X, Y) > 0.99
    assert fitted.score(X, Y[::-1]) < 0.5
    np.testing.assert_allclose(fitted.inverse_transform(mapped), X, atol=1e-9)
    assert fitted.group_ == "rigid"
    assert {c.family for c in fitted.tried_} == {"rigid", "toward_identity"}
    assert fitted.why_.code in ("highest_recall", "smaller_group_ties")


def test_auto_tries_more_and_the_options_are_those_of_align(pair):
    X, Y = pair
    assert len(Aligner(workers=1).fit(X, Y).tried_) > 5
    assert np.linalg.matrix_rank(Aligner(rank=2, ridge=0.0, workers=1).fit(X, Y).matrix_) == 2
    assert Aligner(ridge=0.3, workers=1).fit(X, Y).penalty_ == 0.3
    unit = Aligner(normalize=True, **QUICK).fit(X, Y)
    np.testing.assert_allclose(np.linalg.norm(unit.transform(7 * X), axis=1), 1)
    assert unit.score(X, Y) == pytest.approx(unit.score(3 * X, 2 * Y))
    wrong = {
        "none": Aligner("none"),
        "-1": Aligner(ridge=-1),
        "rigid": Aligner("rigid", ridge=0.1),
        "9": Aligner(rank=9),
    }
    for said, model in wrong.items():
        with pytest.raises(UsageError, match=said):
            model.fit(X, Y)


def test_a_map_without_an_inverse_has_no_inverse_transform():
    X, Y = views(widths=(4, 2))
    model = Aligner(**QUICK)
    assert hasattr(model, "inverse_transform")
    with pytest.raises(NotFittedError):
        model.inverse_transform(Y)
    model.fit(X, Y)
    assert not hasattr(model, "inverse_transform")
    with pytest.raises(AttributeError):
        model.inverse_transform(Y)
    wider = Aligner(**QUICK).fit(*views(widths=(2, 4)))
    assert wider.transform(X[:, :2]).shape == (N, 4)


def test_the_seed_decides_folds_and_workers_do_not(pair):
    X, Y = views(noise=2.0)
    one, two = (Aligner("linear", random_state=3, workers=k).fit(X, Y) for k in (1, 2))
    assert one.matrix_.tobytes() == two.matrix_.tobytes()
    other = Aligner("linear", random_state=4, workers=1).fit(X, Y)
    assert other.tried_ != one.tried_


# As scikit-learn has it


def test_it_clones_pipes_and_cross_validates(pair, fitted):
    X, Y = pair
    again = clone(fitted)
    assert again.get_params() == fitted.get_params()
    assert not hasattr(again, "aligned_")
    pipe = make_pipeline(StandardScaler(), Aligner("linear", ridge=1e-6, workers=1)).fit(X, Y)
    assert pipe.score(X, Y) > 0.99
    assert pipe.transform(X).shape == Y.shape
    assert cross_val_score(Aligner(**QUICK), X, Y, cv=3).min() > 0.99


def test_names_of_columns_are_those_of_the_second_view(pair):
    X, Y = pair
    left = pd.DataFrame(X, columns=list("abcd"))
    right = pd.DataFrame(Y, columns=list("wxyz"))
    model = Aligner(**QUICK).set_output(transform="pandas").fit(left, right)
    assert model.feature_names_in_.tolist() == list("abcd")
    assert model.transform(left).columns.tolist() == model.get_feature_names_out().tolist() == list("wxyz")
    assert Aligner(**QUICK).fit(X, Y).get_feature_names_out()[0] == "aligner0"
    with pytest.raises(ValueError, match="a"):
        model.transform(left.rename(columns={"a": "q"}))
    with pytest.raises(UsageError, match="index"):
        model.fit(left, right[::-1])


def test_tables_that_are_read_in_blocks_give_the_same_map(pair, fitted, tmp_path):
    X, Y = pair
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    for lazy in (
        (tmp_path / "x.npy", tmp_path / "y.npy"),
        (Blocks(X, rows=50), Blocks(Y)),
        (Blocks(X), Y),
        (X, Blocks(Y)),
    ):
        found = Aligner(**QUICK).fit(*lazy)
        np.testing.assert_allclose(found.matrix_, fitted.matrix_, atol=1e-12)
        assert found.score(*lazy) == pytest.approx(fitted.score(X, Y))
    order = np.random.default_rng(0).permutation(N)
    ids = np.array([f"r{i}" for i in range(N)])
    straight = Aligner(**QUICK).fit(Representation(X, ids), Representation(Y, ids))
    joined = Aligner(**QUICK).fit(Representation(X, ids), Representation(Y[order], ids[order]))
    np.testing.assert_allclose(joined.matrix_, straight.matrix_, atol=1e-9)
    apart = Aligner(**QUICK).fit(X, Y[order])
    assert np.abs(apart.matrix_ - straight.matrix_).max() > 0.1


def test_what_does_not_fit_is_refused(pair, fitted):
    X, Y = pair
    with pytest.raises(ValueError, match=f"{D}"):
        fitted.transform(X[:, :3])
    with pytest.raises(DataError, match="3"):
        fitted.inverse_transform(Y[:, :3])
    with pytest.raises(PairingError, match=rf"{N}.*{N - 1}"):
        fitted.score(X, Y[:-1])
    with pytest.raises(ValueError, match=f"{N}"):
        Aligner(**QUICK).fit(X, Y[:-1])
    for rows in (np.where(X > 7, np.nan, X), Blocks(np.where(X > 7, np.nan, X))):
        with pytest.raises(ValueError, match=r"NaN|finite"):
            Aligner(**QUICK).fit(rows, Y)
    with pytest.raises(DataError, match="target"):
        Aligner(**QUICK).fit(X, np.ones_like(Y))


# Saved


@pytest.mark.parametrize(
    "asked", [{"group": "linear", "ridge": 0.1, "random_state": 3}, {"group": "auto", "rank": 2, "normalize": True}]
)
def test_parameters_come_back_from_the_file(pair, tmp_path, asked):
    X, Y = pair
    model = Aligner(**{**QUICK, **asked}).fit(X, Y)
    assert Aligner.load(model.save(tmp_path / "map.safetensors")).get_params() == model.get_params()
    drawn = Aligner(**QUICK, random_state=np.random.default_rng(0)).fit(X, Y)
    assert isinstance(Aligner.load(drawn.save(tmp_path / "map.safetensors")).random_state, int)


def test_a_saved_map_is_the_same_and_does_not_say_what_was_tried(pair, fitted, tmp_path):
    X, _ = pair
    path = fitted.save(tmp_path / "map.safetensors")
    again = Aligner.load(path)
    assert again.matrix_.tobytes() == fitted.matrix_.tobytes()
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    assert again.n_features_in_ == D
    assert again.get_params() == fitted.get_params()
    assert not hasattr(again, "tried_")
    arrays = np.load(fitted.save_npz(tmp_path / "map.npz"))
    np.testing.assert_array_equal(X @ arrays["matrix"] + arrays["offset"], X @ fitted.matrix_ + fitted.offset_)
    assert (fitted.save_sentence_transformers(tmp_path / "folder") / "modules.json").exists()
    unfitted = Aligner()
    for method, target in (("save", "a.safetensors"), ("save_npz", "a.npz"), ("save_sentence_transformers", "a")):
        with pytest.raises(NotFittedError):
            getattr(unfitted, method)(tmp_path / target)


@pytest.mark.parametrize("scale", [1e-5, 1e-7, 1e-10, 1e-15])
def test_the_units_of_a_column_cost_no_direction(scale):
    Y = views(noise=0.0)[0]
    X = Y * np.r_[scale, np.ones(D - 1)]
    model = Aligner(workers=1).fit(X, Y)
    assert model.score(X, Y) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(model.inverse_transform(Y) / X.std(axis=0), X / X.std(axis=0), atol=1e-5)
    constant = np.column_stack([np.ones(N), X[:, 1:]])
    assert Aligner(workers=1).fit(constant, Y).score(constant, Y) < 0.9  # a column that is not there is missed
