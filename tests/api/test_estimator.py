"""ICA, the estimator: it keeps every promise of a scikit-learn transformer, and those of `resolve`."""

from __future__ import annotations

import inspect
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import children
from errors import naming
from identifiable import (
    ICA,
    Blocks,
    DataError,
    DataWarning,
    Representation,
    Resolution,
    UsageError,
    ica,
    load_basis,
    resolve,
)
from identifiable.api import estimator as estimator_room

SEED = 7
N, D = 1_000, 3
MIX = np.array([[2.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, -1.0, 3.0]])


@pytest.fixture(scope="module")
def X() -> NDArray[np.float64]:
    return np.random.default_rng(SEED).laplace(size=(N, D)) @ MIX + [5, -2, 100]


@pytest.fixture(scope="module")
def fitted(X: NDArray[np.float64]) -> ICA:
    return ICA().fit(X)


# scikit-learn's own checks

# Whether this check runs is decided by an environment variable of scipy, before anything of ours is asked.
NEEDS_SCIPY_ARRAY_API = "check_array_api_input"


def outcomes(model: Any) -> dict[str, list[str]]:
    """Names of scikit-learn's checks by outcome."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DataWarning)  # the checks fit few rows, and columns that are constant
        results = check_estimator(model, on_skip=None, on_fail=None)
    found: dict[str, list[str]] = {"passed": [], "failed": [], "skipped": [], "xfail": []}
    for result in results:
        found[result["status"]].append(result["check_name"])
    return found


@pytest.mark.parametrize(
    "model", [ICA(), ICA(2), ICA(1, contrast="cube", order="variance", precision="double", stability=2, restarts=2)]
)
def test_every_check_of_scikit_learn_passes_without_exemption(model):
    found = outcomes(model)
    assert found["failed"] == []
    assert found["xfail"] == []
    assert set(found["skipped"]) <= {NEEDS_SCIPY_ARRAY_API}
    assert len(found["passed"]) > 40


def test_no_tag_excuses_the_estimator_from_a_check():
    tags = ICA().__sklearn_tags__()
    assert not tags.non_deterministic
    assert not tags.no_validation
    assert not tags._skip_test
    assert tags.requires_fit
    assert tags.input_tags.two_d_array
    assert not tags.input_tags.allow_nan
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]
    assert not hasattr(ICA, "_xfail_checks")


class ForgetsWidth(ICA):
    """Takes rows of any width."""

    def transform(self, X: Any) -> NDArray[Any]:
        return np.zeros((len(X), len(self.components_)))


@pytest.mark.parametrize("broken", [ForgetsWidth(), ICA(tol=2)])
def test_the_checks_notice_a_broken_estimator(broken):
    assert outcomes(broken)["failed"]


# What it finds


def test_it_is_resolve(X, fitted):
    basis = resolve(X, stability=0)
    assert fitted.components_.tobytes() == basis.to_components.matrix.T.tobytes()
    assert fitted.result_.components == basis.result.components
    other = resolve(X, stability=0, order="variance")
    assert fitted.components_.tobytes() != other.to_components.matrix.T.tobytes()


def test_the_attributes_are_what_they_say(X, fitted):
    assert fitted.components_.shape == fitted.mixing_.T.shape == (D, D)
    np.testing.assert_allclose(fitted.transform(X), (X - fitted.mean_) @ fitted.components_.T, atol=1e-9)
    np.testing.assert_allclose(fitted.mean_, X.mean(axis=0))
    np.testing.assert_allclose(fitted.components_ @ fitted.mixing_, np.eye(D), atol=1e-9)
    assert isinstance(fitted.result_, Resolution)
    assert fitted.converged_ is True
    assert fitted.n_iter_ == len(fitted.result_.steps) >= 1
    assert fitted.n_features_in_ == D
    with pytest.warns(DataWarning, match="stability"):  # nothing was tested
        assert fitted.identifiable_.tolist() == [c.identifiable for c in fitted.result_.components]


def test_gaussian_data_have_no_identifiable_component(X, fitted):
    assert ICA(stability=2).fit(X).identifiable_.all()
    gaussian = np.random.default_rng(SEED).standard_normal((N, D))
    assert not ICA(stability=2).fit(gaussian).identifiable_.any()


def test_without_a_number_the_effective_rank_is_kept(X):
    doubled = np.c_[X, X, np.ones(N)]
    with pytest.warns(DataWarning, match="rank_deficient"):
        model = ICA().fit(doubled)
    assert model.components_.shape == (D, 2 * D + 1)
    np.testing.assert_allclose(model.inverse_transform(model.transform(doubled)), doubled, atol=1e-6)


@pytest.mark.filterwarnings("ignore::identifiable.DataWarning")
def test_fewer_rows_than_features():
    rows = np.random.default_rng(SEED).laplace(size=(5, 9))
    model = ICA(stability=2).fit(rows)
    assert model.components_.shape == (4, 9)
    assert not model.identifiable_.any()


# Warnings


def warned(model: ICA, X: Any) -> list[str]:
    """The alert codes that a fit gives as Python warnings."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(X)
    assert all(issubclass(w.category, DataWarning) and issubclass(w.category, UserWarning) for w in found)
    assert all(w.filename == __file__ for w in found), "the warning points to the line that called fit"
    codes = [str(w.message).rpartition("alert ")[2].rstrip(")") for w in found]
    assert set(codes) <= {alert.code for alert in model.result_.alerts}
    return codes


def test_what_must_not_be_missed_is_a_warning_as_well_as_an_alert(X):
    doubled = np.c_[X, X]
    assert warned(ICA(), X) == []
    assert warned(ICA(), doubled) == ["rank_deficient"]
    assert warned(ICA(), X[: 10 * D]) == []
    assert warned(ICA(), X[: 10 * D - 1]) == ["few_rows"]
    assert warned(ICA(), doubled[:20]) == ["rank_deficient", "few_rows"]


def test_directions_dropped_as_asked_are_no_warning(X):
    model = ICA(2)
    assert warned(model, X) == []
    assert "rank_deficient" in [alert.code for alert in model.result_.alerts]


@pytest.mark.parametrize("k", [4, 7, 100])
def test_more_components_than_the_rank_warn_and_all_are_kept(X, k):
    wide = np.c_[X, X, np.ones(N)]
    model, plain = ICA(k), ICA()
    assert warned(model, wide) == ["n_components_above_rank", "rank_deficient"]
    assert warned(plain, wide) == ["rank_deficient"]
    assert model.components_.tobytes() == plain.components_.tobytes()
    assert model.n_components == k  # parameters stay as they were given
    message = model.result_.alerts[0].message
    assert str(k) in message
    assert str(D) in message


def test_more_components_than_columns_warn_although_no_rank_is_lost(X):
    assert warned(ICA(D + 1), X) == ["n_components_above_rank"]
    assert warned(ICA(D), X) == []


def test_only_the_estimator_warns(X):
    result = resolve(np.c_[X, X][:20], stability=0).result  # warnings are errors here
    assert {"rank_deficient", "few_rows"} <= {alert.code for alert in result.alerts}


# Arguments of FastICA


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("fun", "logcosh", "contrast"),
        ("fun", np.tanh, "contrast"),
        ("fun_args", {"alpha": 1.5}, "alpha"),
        ("max_iter", 1000, "tol"),
        ("whiten", "unit-variance", "unit variance"),
        ("whiten", False, "unit variance"),
        ("whiten_solver", "eigh", "covariance"),
        ("w_init", np.eye(3), "restarts"),
        ("algorithm", "deflation", "solver"),
    ],
)
def test_an_argument_of_fastica_says_what_to_use_instead(name, value, instead):
    with pytest.raises(TypeError, match=rf"\b{name} .*{instead}.*coming-from-fastica") as error:
        ICA(2, **{name: value})
    assert "\n" not in str(error.value)


def test_methods_answer_arguments_of_fastica_too():
    X = np.random.default_rng(3).laplace(size=(200, 2))
    model = ICA(restarts=1).fit(X)
    for call in (model.transform, model.inverse_transform):
        with pytest.raises(TypeError, match=rf"{call.__name__}.* copy .*coming-from-fastica"):
            call(X, copy=False)
        with pytest.raises(TypeError, match="other"):
            call(X, other=1)
        assert list(inspect.signature(call).parameters) == ["X"]
    with pytest.raises(ValueError, match=r"set_params.* fun .*contrast.*coming-from-fastica"):
        model.set_params(fun="exp")
    with pytest.raises(ValueError, match="other"):
        model.set_params(other=1)
    assert model.set_params(contrast="exp").contrast == "exp"


def test_every_argument_of_the_methods_of_fastica_is_taken_or_answered():
    for name in ("fit", "transform", "inverse_transform", "set_params"):
        theirs, ours = (inspect.signature(getattr(kind, name)).parameters for kind in (FastICA, ICA))
        assert set(theirs) <= set(ours) | set(estimator_room.FASTICA)


@pytest.mark.parametrize("given", [lambda X: X * 1j, lambda X: pd.DataFrame(X * 1j)])
def test_complex_numbers_are_refused_as_everywhere_without_showing_them(given):
    X = np.random.default_rng(3).laplace(size=(200, 2))
    with pytest.raises(DataError, match="complex128") as error:
        ICA(restarts=1).fit(given(X))
    assert "0." not in str(error.value)


def test_every_argument_of_fastica_is_taken_or_answered():
    theirs = set(FastICA().get_params())
    assert theirs - set(estimator_room.FASTICA) == theirs & set(ICA().get_params())
    assert not set(estimator_room.FASTICA) & set(ICA().get_params())


BAD = {
    "n_components": [0, -1, 2.5, True, "all"],
    "contrast": ["tanh", None],
    "order": ["size"],
    "restarts": [0, "many"],
    "stability": [-1, 0.5],
    "tol": [0, 1, -1e-3, float("nan")],
    "precision": ["half"],
    "random_state": ["a", -1, True, 1.5],
    "workers": [0, -1, 1.5],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_a_wrong_parameter_is_named_at_fit(X, name, value):
    model = ICA(**{name: value})
    with pytest.raises(UsageError, match=f"^{name} .*expected") as error:
        model.fit(X)
    assert "\n" not in str(error.value)
    assert not hasattr(model, "components_")


def test_data_without_variance_are_refused():
    with pytest.raises(DataError, match="constant"):
        ICA().fit(np.ones((20, 3)))
    with pytest.raises(ValueError, match="minimum of 2"):
        ICA().fit(np.ones((1, 3)))


def test_before_fit_there_is_nothing():
    for call in (lambda: ICA().transform([[1.0]]), lambda: ICA().inverse_transform([[1.0]]), lambda: ICA().save("b")):
        with pytest.raises(NotFittedError):
            call()
    assert not hasattr(ICA(), "components_")


def test_another_width_is_refused(X, fitted):
    with pytest.raises(ValueError, match=naming("X has 2", "ICA", "3 features")):
        fitted.transform(X[:, :2])
    lazy = [Blocks(X[:, :2]), Representation(X[:, :2]), pytest.importorskip("dask.array").from_array(X[:, :2])]
    for rows in lazy:
        with pytest.raises(DataError, match=naming("X has 2", "ICA", "3 features")):
            fitted.transform(rows)
    for rows in (X[:, :2], *lazy):
        with pytest.raises(DataError, match=naming("X has 2", "ICA", "3 components")):
            fitted.inverse_transform(rows)
    with pytest.raises(DataError, match=r"^run1 has 2 "):
        fitted.transform(Representation(X[:, :2], name="run1"))


# Randomness


def test_no_random_state_is_the_seed_0(X):
    first, second, zero = (ICA(random_state=s).fit(X).components_ for s in (None, None, 0))
    assert first.tobytes() == second.tobytes() == zero.tobytes()


def test_the_seed_is_recorded_and_used(X):
    assert ICA(random_state=5).fit(X).result_.provenance.seed == 5
    model = ICA(random_state=np.random.RandomState(3))
    drawn = np.random.RandomState(3).randint(2**31 - 1, size=2).tolist()
    assert [model.fit(X).result_.provenance.seed for _ in range(2)] == drawn
    model = ICA(random_state=np.random.default_rng(3))
    drawn = np.random.default_rng(3).integers(2**31 - 1, size=2).tolist()
    assert [model.fit(X).result_.provenance.seed for _ in range(2)] == drawn
    one, other = (ICA(random_state=s, tol=0.5, restarts=1).fit(X).components_ for s in (1, 2))
    assert one.tobytes() != other.tobytes()


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_a_clone_draws_what_the_original_would_have_drawn(X, kind):
    model = ICA(random_state=kind(3))
    copy = clone(model)
    assert copy.random_state is not model.random_state
    assert model.get_params()["random_state"] is model.random_state
    seeds = [m.fit(X).result_.provenance.seed for m in (model, copy, model)]
    assert seeds[0] == seeds[1] != seeds[2]


# Convergence


def test_no_convergence_is_a_field_and_a_warning(X, monkeypatch):
    assert ICA().fit(X).converged_  # and no warning, which would be an error here
    monkeypatch.setattr(estimator_room.ica, "resolve", unfinished_around(ica.resolve))
    with pytest.warns(ConvergenceWarning, match="converged_ is False"):
        model = ICA().fit(X)
    assert model.converged_ is False
    assert np.isfinite(model.transform(X)).all()


def unfinished_around(engine: Any) -> Any:
    def unfinished(*arguments: Any, **options: Any) -> Any:
        found = engine(*arguments, **options)
        return replace(found, result=replace(found.result, converged=False))

    return unfinished


# Containers


@pytest.mark.parametrize("container", ["path", "text path", "blocks", "representation", "dask", "list"])
def test_every_container_gives_the_same(X, fitted, tmp_path, container):
    np.save(tmp_path / "x.npy", X)
    source: Any = {
        "path": lambda: tmp_path / "x.npy",
        "text path": lambda: str(tmp_path / "x.npy"),
        "blocks": lambda: Blocks(X, rows=64),
        "representation": lambda: Representation(X, name="x"),
        "dask": lambda: pytest.importorskip("dask.array").from_array(X, chunks=(100, D)),
        "list": lambda: X.tolist(),
    }[container]()
    model = ICA()
    Z = model.fit_transform(source)
    assert model.components_.tobytes() == fitted.components_.tobytes()
    assert Z.tobytes() == fitted.transform(X).tobytes()
    assert model.n_features_in_ == D
    assert model.transform(source).tobytes() == Z.tobytes()
    np.testing.assert_allclose(model.inverse_transform(Blocks(Z)), X, atol=1e-9)


def test_a_frame_gives_the_same_up_to_the_rounding_of_its_layout(X, fitted):
    model = ICA().fit(pd.DataFrame(X, columns=list("abc")))  # stored by columns
    np.testing.assert_allclose(model.components_, fitted.components_, rtol=0, atol=1e-9)
    assert model.result_.inputs[0].sha256 == fitted.result_.inputs[0].sha256


LINEAR_ATTRIBUTES = ("components_", "mixing_", "whitening_", "mean_")


def test_single_precision_is_kept(X, tmp_path):
    single = X.astype(np.float32)
    np.save(tmp_path / "single.npy", single)
    np.save(tmp_path / "swapped.npy", single.astype(">f4"))
    for rows in (single, Blocks(single), tmp_path / "single.npy", tmp_path / "swapped.npy"):
        model = ICA().fit(rows)
        assert {getattr(model, name).dtype for name in LINEAR_ATTRIBUTES} == {np.dtype(np.float32)}
        assert model.transform(rows).dtype == np.float32
    assert model.inverse_transform(model.transform(single)).dtype == np.float32
    again = ICA.load(model.save(tmp_path / "b.safetensors"))
    assert again.components_.dtype == np.float32
    assert model.transform(X).dtype == np.float64, "the rows decide"
    for rows in (X, X.astype(np.int64)):
        model = ICA().fit(rows)
        assert {getattr(model, name).dtype for name in LINEAR_ATTRIBUTES} == {np.dtype(np.float64)}
        assert model.transform(rows).dtype == np.float64


def test_whitening_gives_principal_components_of_unit_variance(X, fitted):
    white = (X - fitted.mean_) @ fitted.whitening_.T
    np.testing.assert_allclose(white.T @ white / N, np.eye(D), atol=1e-9)
    assert np.abs(np.corrcoef(X, rowvar=False) - np.eye(D)).max() > 0.1
    rotation = fitted.components_ @ np.linalg.inv(fitted.whitening_)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(D), atol=1e-9)
    theirs = FastICA(whiten_solver="eigh", random_state=0).fit(X).whitening_
    np.testing.assert_allclose(fitted.whitening_, theirs * np.sqrt(N), atol=1e-9)


# AnnData


@pytest.fixture
def cells(X: NDArray[np.float64]) -> Any:
    anndata = pytest.importorskip("anndata")
    names = {"obs": pd.DataFrame(index=[f"cell {i}" for i in range(N)]), "var": pd.DataFrame(index=["u", "v", "w"])}
    return anndata.AnnData(X.astype(np.float32), **names)


def test_anndata_is_its_x_with_names(X, cells):
    model = ICA()
    Z = model.fit_transform(cells)
    assert isinstance(Z, np.ndarray)
    assert Z.tobytes() == ICA().fit_transform(X.astype(np.float32)).tobytes()
    assert model.feature_names_in_.tolist() == ["u", "v", "w"]
    assert model.n_features_in_ == D
    np.testing.assert_allclose(model.inverse_transform(Z), X, rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(cells[:, ["v", "u", "w"]])
    with pytest.raises(ValueError, match="feature names"):
        model.transform(cells[:, :2])


def test_frames_from_anndata_are_indexed_by_its_obs_names(cells):
    out = ICA(2).set_output(transform="pandas").fit_transform(cells)
    assert out.index.equals(cells.obs_names)
    cells.obsm["X_ica"] = out
    assert list(cells.obsm["X_ica"].columns) == ["ica0", "ica1"]


def test_anndata_without_a_dense_x_says_what_to_pass(X, cells):
    sparse = cells.copy()
    sparse.X = csr_matrix(sparse.X)
    empty = cells.copy()
    empty.X = None
    for unread, kind in ((sparse, "csr_matrix"), (empty, "NoneType")):
        unread.obsm["X_pca"] = X[:, :2]
        with pytest.raises(DataError, match=f"{kind}.*X_pca.*h5ad"):
            ICA().fit(unread)
    assert ICA().fit(empty.obsm["X_pca"]).n_features_in_ == 2


# With the rest of scikit-learn


def test_in_a_pipeline(X):
    target = (X - [5, -2, 100]) @ np.linalg.inv(MIX)[:, 0]
    pipeline = make_pipeline(StandardScaler(), ICA(), LinearRegression()).fit(X, target)
    assert pipeline.score(X, target) > 0.999
    weights = np.abs(pipeline[-1].coef_)
    assert np.sort(weights)[-2] < 0.2 * weights.max()  # one component is the source, so one weight is enough
    assert pipeline[:-1].inverse_transform(pipeline[:-1].transform(X)) == pytest.approx(X)


def test_frames_in_and_out(X, tmp_path):
    frame = pd.DataFrame(X, columns=["u", "v", "w"], index=[f"cell {i}" for i in range(N)])
    model = ICA().set_output(transform="pandas")
    out = model.fit_transform(frame)
    assert list(out.columns) == ["ica0", "ica1", "ica2"]
    assert out.index.equals(frame.index)
    assert model.feature_names_in_.tolist() == ["u", "v", "w"]
    np.testing.assert_allclose(model.inverse_transform(out), X, atol=1e-9)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[["v", "u", "w"]])
    np.save(tmp_path / "x.npy", X)
    assert list(model.fit_transform(tmp_path / "x.npy").columns) == ["ica0", "ica1", "ica2"]


# Files


@pytest.mark.parametrize("dtype", ["float16", ">f4", "float32"])
def test_rows_of_at_most_single_precision_give_single_precision(X, dtype):
    for rows in (X.astype(dtype), pd.DataFrame(X.astype(dtype), columns=list("abc"))):
        model = ICA(restarts=1).fit(rows)
        assert {a.dtype.name for a in (model.components_, model.mean_, model.transform(rows))} == {"float32"}
    assert ICA(restarts=1).fit(X.astype(int)).components_.dtype == np.float64


def test_a_number_of_components_above_the_rank_comes_back_from_the_file(X, tmp_path):
    with pytest.warns(DataWarning, match="n_components_above_rank"):
        model = ICA(9, restarts=1).fit(X)
    assert ICA.load(model.save(tmp_path / "b.safetensors")).n_components == 9


def test_a_saved_estimator_comes_back(X, tmp_path):
    model = ICA(2, contrast="exp", order="variance", tol=1e-5, precision="double", random_state=4).fit(X)
    path = model.save(tmp_path / "basis.safetensors")
    again = ICA.load(path)
    assert again.transform(X).tobytes() == model.transform(X).tobytes()
    assert again.inverse_transform(X[:, :2]).tobytes() == model.inverse_transform(X[:, :2]).tobytes()
    for name in ("n_components", "contrast", "order", "stability", "tol", "precision", "random_state"):
        assert again.get_params()[name] == model.get_params()[name], name
    assert again.result_ == model.result_
    assert again.n_features_in_ == D
    with pytest.raises(ValueError, match="expecting 3"):
        again.transform(X[:, :2])


def test_the_file_is_a_basis_and_a_basis_is_an_estimator(X, fitted, tmp_path):
    path = fitted.save(tmp_path / "b.safetensors")
    assert load_basis(path).to_components.matrix.tobytes() == fitted.basis_.to_components.matrix.tobytes()
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(DataError, match="sha256"):
        ICA.load(path)


# Loading the package


def loaded_with(name: str) -> bool:
    """Whether scikit-learn is loaded once `identifiable.<name>` was touched, in a fresh interpreter."""
    program = f"import sys, identifiable; identifiable.{name}; print('sklearn' in sys.modules)"
    done = children.run([sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip() == "True"


def test_only_the_estimator_loads_scikit_learn():
    assert loaded_with("ICA")
    assert not loaded_with("resolve")
