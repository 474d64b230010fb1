"""One rule at the door: what no call can read is refused by all of them, in one line; scikit-learn's errors come as ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import identifiable
from errors import naming
from identifiable import metrics
from identifiable._checks import LARGEST, SMALLEST, DataError, KindError, check_magnitude

rng = np.random.default_rng(20240702)
S = rng.laplace(size=(60, 3))
B = S @ rng.standard_normal((3, 3))
F = np.stack([S[:, 0], rng.integers(0, 3, 60)], axis=1)
WELLS = {
    "plate": ["p1", "p2", "p3"] * 20,
    "well": [f"A{i % 12 + 1:02d}" for i in range(60)],
    "treatment": ["DMSO", "x"] * 30,
}
FITTED = identifiable.resolve(S, stability=0, restarts=1)
FITTED_ICA = identifiable.ICA(restarts=1).fit(S)


def double(z: Any, v: Any) -> Any:
    return 2 * v


CALLS: dict[str, Callable[[Any], Any]] = {
    "compare": lambda X: identifiable.compare(B, X),
    "structural": lambda X: identifiable.structural(B, X),
    "resolve": lambda X: identifiable.resolve(X, stability=0, restarts=1),
    "resolve, joint": lambda X: identifiable.resolve(X, B, stability=0, restarts=1),
    "ICA": lambda X: identifiable.ICA(restarts=1).fit(X),
    "ICA, transform": lambda X: FITTED_ICA.transform(X),
    "ICA, inverse": lambda X: FITTED_ICA.inverse_transform(X),
    "to_components": lambda X: FITTED.to_components(X),
    "Moments": lambda X: identifiable.Moments.of(X),
    "transform": lambda X: identifiable.transform(FITTED, X),
    "align": lambda X: identifiable.align(B, X),
    "Aligner": lambda X: identifiable.Aligner().fit(X, B),
    "Aligner, target": lambda X: identifiable.Aligner().fit(B, X),
    "match": lambda X: identifiable.match(X, B, null_draws=2),
    "match_components": lambda X: identifiable.match_components(X, B),
    "heads": lambda X: identifiable.heads(X, B, null_draws=2),
    "heads, features": lambda X: identifiable.heads(np.eye(3), np.eye(3), features=(X, S), null_draws=2),
    "layers": lambda X: identifiable.layers({"a": X, "b": B}, {"a": B, "b": S}),
    "bilipschitz": lambda X: identifiable.bilipschitz(double, X),
    "mechanisms": lambda X: identifiable.mechanisms(X.reshape(4, 15, 3) if hasattr(X, "reshape") else X),
    "disentangle": lambda X: identifiable.disentangle(X, F, workers=1),
    "mig": lambda X: metrics.mig(X, F),
    "mig, factors": lambda X: metrics.mig(S, X),
    "udr": lambda X: metrics.udr([X, B]),
    "ica_step": lambda X: metrics.ica_step(X),
    "audit": lambda X: identifiable.deconfound.audit(X, metadata=WELLS, control="DMSO"),
}
UNREADABLE: dict[str, Any] = {
    "extended precision": S.astype(np.longdouble),
    "masked": np.ma.masked_greater(S, 1),
    "masked, nothing of it": np.ma.masked_array(S),
    "masked rows": list(np.ma.masked_greater(S, 1)),
    "masked numbers": [list(row) for row in np.ma.masked_greater(S, 1)],
    "infinite": np.where(np.eye(60)[:, :3] > 0, np.inf, S),
    "complex": S * 1j,
    "ragged": [[1.0, 2.0], [3.0]],
}
EXTREME = {"large": S * 1e150, "small": S * 1e-150, "beyond squares": S * 1e300, "subnormal": S * 1e-310}


NO_NUMBERS = {"dates": S.astype("M8[s]"), "text": S.astype(str), "text of objects": S.astype(str).astype(object)}
OF_SCIKIT_LEARN = ("ICA", "ICA, transform", "ICA, inverse", "Aligner", "Aligner, target")


@pytest.mark.parametrize("kind", NO_NUMBERS)
@pytest.mark.parametrize("name", ["compare", "transform", "to_components", "Moments", *OF_SCIKIT_LEARN])
def test_dates_and_text_are_no_numbers(name: str, kind: str) -> None:
    frame = pd.DataFrame(NO_NUMBERS[kind], columns=list("abc"))
    for given in (NO_NUMBERS[kind], frame) if name in OF_SCIKIT_LEARN else (NO_NUMBERS[kind],):
        with pytest.raises(DataError, match=r"\S") as caught:
            CALLS[name](given)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["dates", "text", "complex", "masked"])
def test_a_map_is_made_of_real_numbers(kind: str) -> None:
    with pytest.raises(DataError, match=r"^matrix: "):
        identifiable.AffineMap({**NO_NUMBERS, **UNREADABLE}[kind], np.zeros(3))


def test_numbers_among_python_objects_are_left_to_scikit_learn() -> None:
    fitted = identifiable.ICA(restarts=1).fit(S.astype(object))
    assert np.array_equal(fitted.components_, FITTED_ICA.components_)


def test_rows_of_another_width_are_refused_by_a_map() -> None:
    with pytest.raises(DataError, match=naming(3, 2)):
        FITTED.to_components(S[:, :2])
    with pytest.raises(DataError, match=naming(3)):
        identifiable.Moments.of(S, (1, 1))


def test_views_of_anndata_are_read_as_other_arrays_are() -> None:
    whole = pytest.importorskip("anndata").AnnData(S, obsm={"E": B})
    view = whole[:50]
    for source, values in (
        (view, S[:50]),
        (view.X, S[:50]),
        (view.obsm["E"], B[:50]),
        (identifiable.Blocks(view.X), S[:50]),
    ):
        found = identifiable.resolve(source, stability=0, restarts=1)
        assert np.array_equal(
            found.to_components.matrix, identifiable.resolve(values, stability=0, restarts=1).to_components.matrix
        )
    assert metrics.mcc(view, F[:50]).scores == metrics.mcc(S[:50], F[:50]).scores
    assert identifiable.ICA(restarts=1).fit(view).n_features_in_ == 3


@pytest.mark.parametrize("source", [pd.DataFrame(S), S.tolist(), None])
def test_blocks_of_what_is_no_array_are_refused(source: Any) -> None:
    with pytest.raises(DataError, match=type(source).__name__):
        identifiable.Blocks(source)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_cannot_be_read_is_refused_by_every_call_in_one_line(name: str, kind: str) -> None:
    if kind == "extended precision" and UNREADABLE[kind].dtype.itemsize == 8:
        pytest.skip("long doubles are doubles here")
    with np.errstate(all="ignore"), pytest.raises(DataError, match=r"\S") as caught:
        CALLS[name](UNREADABLE[kind])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 450


@pytest.mark.parametrize("kind", EXTREME)
@pytest.mark.parametrize(
    "name", ["compare", "structural", "align", "heads", "heads, features", "layers", "mechanisms", "mig, factors"]
)
def test_numbers_beyond_single_precision_are_refused_where_errors_are_kept_in_it(name: str, kind: str) -> None:
    with np.errstate(all="ignore"), pytest.raises(DataError, match=r"\S"):
        CALLS[name](EXTREME[kind])


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("name", ["align", "layers", "heads, features"])
def test_numbers_of_ordinary_size_are_not_refused(name: str, scale: float) -> None:
    assert CALLS[name](S * scale) is not None


def test_how_numbers_are_stored_does_not_matter() -> None:
    found = []
    for stored in (S, S.astype(">f8"), np.asfortranarray(S), np.repeat(S, 2, axis=1)[:, ::2], S[::-1].copy()[::-1]):
        stored.flags.writeable = False
        found.append(identifiable.align(B, stored, curve=False).map.matrix)
    for matrix in found[1:]:
        np.testing.assert_allclose(matrix, found[0], rtol=1e-9, atol=1e-12)


def test_moments_whose_sums_overflow_are_refused() -> None:
    for X in (S * 1e300, np.where(np.arange(S.size).reshape(S.shape) == 3, 1e300, S)):
        with pytest.raises(DataError, match="rows"):
            identifiable.Moments.of(X)
    assert np.isfinite(identifiable.Moments.of(S * 1e100).gram).all()


def test_the_limits_themselves_pass() -> None:
    for size in (0.0, SMALLEST, LARGEST):
        check_magnitude(size, "a")
    for size in (SMALLEST / 2, LARGEST * 2, np.inf, np.nan):
        with pytest.raises(DataError, match=r"^a: "):
            check_magnitude(size, "a")


def test_values_that_are_no_numbers_are_a_type_error_for_scikit_learn() -> None:
    with pytest.raises(KindError, match="number") as caught:
        identifiable.ICA().fit(np.array([[{}, 1], [2, 3]], dtype=object))
    assert isinstance(caught.value, TypeError)


def test_features_that_do_not_vary_are_refused_by_their_name() -> None:
    with pytest.raises(DataError, match="features of first"):
        CALLS["heads, features"](np.ones((60, 3)))


MASKED = np.ma.masked_equal(np.arange(60) % 6, 4)
QUICK: dict[str, Any] = {"nulls": (), "intervals": False, "axes": False, "neighbours": 0}
OF_ROWS: dict[str, Callable[[Any], Any]] = {
    "compare, group_by": lambda g: identifiable.compare(S, B, group_by=g, **QUICK),
    "compare, labels": lambda g: identifiable.compare(S, B, labels=g, **QUICK),
    "align, group_by": lambda g: identifiable.align(S, B, group_by=g, curve=False),
    "align, labels": lambda g: identifiable.align(S, B, labels=g, curve=False),
    "resolve, group_by": lambda g: identifiable.resolve(S, group_by=g, stability=2, restarts=1),
    "resolve, joint": lambda g: identifiable.resolve(S, B, group_by=g, stability=2, restarts=1),
    "ids": lambda g: identifiable.Representation(S, ids=g + 100 * np.arange(60)),
    "layers, ids": lambda g: identifiable.layers(
        {"a": S, "b": B, "ids": g + 100 * np.arange(60)},
        {"a": B, "ids": np.arange(60) % 6 + 100 * np.arange(60)},
        null_draws=1,
    ),
    "heads, labels": lambda g: identifiable.heads(S, B, labels=[g + 100 * np.arange(60)] * 2, null_draws=2),
    "screen": lambda g: identifiable.deconfound.screen(S, metadata={**WELLS, "other": g}, control="DMSO"),
}


@pytest.mark.parametrize("name", OF_ROWS)
def test_labels_under_a_mask_are_refused_by_every_call(name: str) -> None:
    with pytest.raises(DataError, match="masked arrays"):
        OF_ROWS[name](MASKED)
    OF_ROWS[name](MASKED.data)  # which are read


def test_a_value_that_pandas_knows_to_be_missing_is_refused_by_its_row() -> None:
    frame = pd.DataFrame(S).astype("Float64")
    assert metrics.mcc(frame, frame).scores == metrics.mcc(S, S).scores
    frame.iloc[5, 1] = pd.NA
    for given in ((S, frame), (frame, S)):
        with pytest.raises(DataError, match=r"row 5\b"):
            metrics.mcc(*given)
    words = pd.DataFrame({"a": pd.array(["x", "y", pd.NA] * 20, dtype="string")})
    with pytest.raises(DataError, match=naming(20, 2)):
        metrics.mcc(S, words)
