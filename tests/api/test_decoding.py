"""`identifiable.bilipschitz`: decoders of every kind at known points, and every way to ask wrongly."""

from __future__ import annotations

import io
import math
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import children
import identifiable
from errors import naming
from identifiable import bilipschitz, jacobians
from identifiable import bounds as theorems
from identifiable._checks import DataError, UsageError
from identifiable.groups import haar_rotation
from identifiable.jacobians import Products
from identifiable.results import Distortion, from_json, without_time
from identifiable.worlds import Waves


def points(n: int = 300, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (n, d))


def waves(constant: float = 1.5, d: int = 3, m: int = 8) -> Waves:
    return Waves.of(constant, d, m, rng=np.random.default_rng(1))


def diagonal(*values: float) -> Any:
    """jvp of z -> values * z."""
    return lambda z, v: v * np.asarray(values)


def figures(result: Distortion) -> str:
    return without_time(result).to_json()


# -- what it finds


@pytest.mark.parametrize("constant", [1.0, 1.2, 3.0])
def test_a_decoder_of_known_constant_has_it_at_every_point(constant: float) -> None:
    g, Z = waves(constant), points()
    found = bilipschitz(g, Z)
    np.testing.assert_allclose(found.constant, g.local_constant(Z), rtol=1e-8)
    assert found.largest == max(found.constant) <= constant + 1e-9
    assert found.largest > 1 + 0.9 * (constant - 1)
    assert (found.n, found.latents, found.outputs, found.method) == (300, 3, 8, "exact")
    assert (found.undefined, found.deficient, found.alerts) == (0, 0, ())


def test_every_form_of_one_decoder_gives_the_same_figures() -> None:
    g, Z = waves(), points()
    forms = [g, Products(g.jvp), Products(g.jvp, g.vjp), g.jvp, lambda z, v: g.jvp(z, v)]
    results = [bilipschitz(form, Z, name="g") for form in forms]
    assert len({figures(r) for r in results}) == 1
    assert figures(bilipschitz(waves(1.4), Z, name="g")) != figures(results[0])


def test_summaries_are_those_of_the_points() -> None:
    found = bilipschitz(waves(), points())
    for name in ("constant", "condition", "sigma_min", "sigma_max"):
        values, told = np.array(getattr(found, name)), found.summary[name]
        assert (told.min, told.max, told.mean) == (values.min(), values.max(), pytest.approx(values.mean()))
        for q, value in ((0.05, told.q05), (0.5, told.median), (0.95, told.q95)):
            assert value in values
            assert value == pytest.approx(np.quantile(values, q), rel=0.02)
    np.testing.assert_allclose(found.condition, np.divide(found.sigma_max, found.sigma_min))


def test_no_other_scale_gives_a_smaller_largest_constant() -> None:
    g, Z = waves(2.0), points()
    found = bilipschitz(g, Z)
    assert found.best_constant < found.largest
    for factor, same in ((1.0, True), (1.05, False), (0.95, False)):
        scale = found.best_scale * factor
        again = bilipschitz(lambda z, v, scale=scale: scale * g.jvp(z, v), Z)
        assert (again.largest == pytest.approx(found.best_constant)) is same
        assert again.best_constant == pytest.approx(found.best_constant)


def test_random_directions_miss_most_of_the_constant_of_many_latents_and_nothing_of_an_isometry() -> None:
    Z = points(40, 20)
    thin = np.ones(20)
    thin[0] = 0.05
    found = bilipschitz(diagonal(*thin), Z).random_directions
    assert found is not None
    assert found.share is not None
    assert 0.02 < found.share < 0.5
    assert found.directions == 10
    more = bilipschitz(diagonal(*thin), Z, directions=200).random_directions
    assert more is not None
    assert found.median < more.median <= 20
    isometry = bilipschitz(diagonal(*np.ones(20)), Z).random_directions
    assert isometry is not None
    assert isometry.share == pytest.approx(1)
    assert bilipschitz(diagonal(*thin), Z, directions=0).random_directions is None


def test_the_supremum_covers_the_true_constant_and_needs_200_points() -> None:
    found = bilipschitz(waves(1.5), points(2000)).supremum
    assert found is not None
    assert found.ci95[0] <= 1.5 <= found.ci95[1]
    assert found.n_tail == 200
    assert bilipschitz(waves(1.5), points(199)).supremum is None


# -- where there is nothing to divide by


def test_a_lost_direction_is_infinite_said_and_bounds_nothing() -> None:
    found = bilipschitz(diagonal(1.0, 0.0, 2.0), points(5))
    assert (found.deficient, found.largest, found.best_constant) == (5, math.inf, math.inf)
    assert math.isnan(found.best_scale)
    assert set(found.condition) == set(found.constant) == {math.inf}
    assert set(found.log_volume) == {-math.inf}
    assert [a.code for a in found.alerts] == ["rank_deficient"]
    assert found.bounds == ()
    assert "infinite" in repr(found)
    whole = bilipschitz(diagonal(1.0, 0.5, 2.0), points(5))
    assert (whole.deficient, whole.largest, whole.alerts) == (0, 2.0, ())
    assert len(whole.bounds) == 4


def test_a_constant_decoder_is_no_crash() -> None:
    found = bilipschitz(lambda z, v: 0 * v, points(5))
    assert (found.deficient, found.largest) == (5, math.inf)
    assert set(found.condition) == {math.inf}


def test_points_without_a_derivative_are_counted_and_left_out() -> None:
    Z = points(10)
    Z[3, 0] = 0.0

    def root(z: np.ndarray, v: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return v * np.where(z == 0, np.inf, 1.0)

    found = bilipschitz(root, Z)
    assert (found.undefined, found.deficient, found.largest) == (1, 0, 1.0)
    assert math.isnan(found.constant[3])
    (alert,) = found.alerts
    assert (alert.code, alert.values) == ("no_derivative", {"points": 1, "of": 10, "first": 3})
    nowhere = bilipschitz(root, np.zeros((4, 2)))
    assert (nowhere.undefined, nowhere.summary, nowhere.bounds) == (4, {}, ())
    assert math.isnan(nowhere.largest)
    assert nowhere.random_directions is nowhere.supremum is None
    assert "no finite derivative" in repr(nowhere)


@pytest.mark.parametrize("values", [(1.0, 0.0, 2.0), (1.0, 0.5, 2.0)])
def test_infinite_figures_survive_json(values: tuple[float, ...]) -> None:
    found = bilipschitz(diagonal(*values), points(250))
    again = from_json(found.to_json())
    assert isinstance(again, Distortion)
    assert again.to_json() == found.to_json()
    assert (again.constant, again.condition, again.log_volume) == (found.constant, found.condition, found.log_volume)
    assert (again.summary, again.supremum, again.bounds) == (found.summary, found.supremum, found.bounds)
    assert again.best_constant == found.best_constant


@pytest.mark.parametrize("Z", [np.zeros((1, 2)), np.ones((7, 2))])
def test_one_point_many_times_has_a_constant_and_no_bound(Z: np.ndarray) -> None:
    found = bilipschitz(diagonal(2.0, 1.0), Z)
    assert (found.largest, found.bounds, found.diameter) == (2.0, (), 0.0)


# -- bounds


def test_bounds_are_theorem_1_at_the_largest_constant_before_and_after_the_best_scale() -> None:
    Z = points()
    found = bilipschitz(waves(1.3), Z)
    by_name = {b.statement: b for b in found.bounds}
    assert len(by_name) == 4
    assert all(b.worst_case and b.assumes and "convex" in b.assumes for b in found.bounds)
    for name, bound in by_name.items():
        constant = found.best_constant if "rescaled" in name else found.largest
        assert bound.constant == constant
        assert bound.relative == pytest.approx(bound.epsilon / found.diameter)
        if "universal" in name:
            assert bound.epsilon == theorems.theorem_1(constant, 3, found.diameter)
        else:
            ends = np.unravel_index(np.argmax(np.linalg.norm(Z[:, None] - Z[None], axis=2)), (300, 300))
            widths = theorems.heights(Z, (int(ends[0]), int(ends[1])))
            assert bound.epsilon == pytest.approx(theorems.theorem_1_by_shape(constant, widths, found.diameter))


def test_a_bound_says_something_only_of_decoders_that_keep_lengths_almost() -> None:
    Z = points()
    assert all(b.relative == pytest.approx(0, abs=1e-5) for b in bilipschitz(waves(1.0), Z).bounds)
    near = bilipschitz(waves(1.001), Z).bounds
    assert not any(b.vacuous for b in near if "shape" in b.statement)
    assert all(b.vacuous for b in bilipschitz(waves(2.0), Z).bounds)


def test_beyond_64_latents_only_the_bound_by_shape_is_left() -> None:
    few, many = (
        bilipschitz(diagonal(*np.ones(d)), points(90, d), directions=0).bounds for d in (64, theorems.LARGEST_D + 1)
    )
    assert (len(few), len(many)) == (4, 2)
    assert not any("universal" in b.statement for b in many)


# -- Lanczos


def test_many_latents_go_by_lanczos_with_errors_that_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jacobians, "EXACT_UP_TO", 4)
    g, Z = waves(1.5, 6, 9), points(30, 6)
    found = bilipschitz(g, Z)
    assert found.method == "lanczos"
    exact = bilipschitz(g.jvp, Z)  # without a vjp there is no other way
    assert (exact.method, exact.sigma_min_error) == ("exact", ())
    assert np.all(np.abs(np.subtract(found.sigma_min, exact.sigma_min)) <= np.array(found.sigma_min_error) + 1e-9)
    assert np.all(np.abs(np.subtract(found.sigma_max, exact.sigma_max)) <= np.array(found.sigma_max_error) + 1e-9)
    assert np.isnan(found.log_volume).all()
    assert from_json(found.to_json()).sigma_min_error == found.sigma_min_error


def test_lanczos_that_has_not_settled_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    turn = haar_rotation(40, rng) * np.geomspace(1, 30, 40)
    decoder = Products(lambda z, v: v @ turn.T, lambda z, u: u @ turn)
    monkeypatch.setattr(jacobians, "EXACT_UP_TO", 4)
    assert bilipschitz(decoder, points(3, 40)).alerts == ()
    monkeypatch.setattr(jacobians, "LANCZOS_STEPS", 8)
    assert [a.code for a in bilipschitz(decoder, points(3, 40)).alerts] == ["not_settled"]


# -- points and settings


def test_points_come_as_arrays_lists_representations_and_paths(tmp_path: Path) -> None:
    Z, g = points(20), waves()
    np.save(tmp_path / "z.npy", Z)
    lines = ["id,a,b,c", *(f"s{i},{','.join(map(repr, row))}" for i, row in enumerate(Z.tolist()))]
    (tmp_path / "z.csv").write_text("\n".join(lines) + "\n")
    forms: list[Any] = [Z, Z.tolist(), identifiable.Representation(Z), tmp_path / "z.npy", str(tmp_path / "z.npy")]
    results = [bilipschitz(g, form) for form in forms] + [bilipschitz(g, tmp_path / "z.csv", ids="id")]
    assert {r.constant for r in results} == {results[0].constant}
    assert results[3].inputs[0].name == "z"
    assert {r.inputs[0].sha256 for r in results[:5]} == {results[0].inputs[0].sha256}
    assert bilipschitz(diagonal(2.0, 1.0), np.array([[1, 2], [3, 4]])).largest == 2.0  # whole numbers are latents too


def test_points_that_are_no_table_or_not_finite_are_refused() -> None:
    Z = points(9)
    Z[4, 1] = np.nan
    with pytest.raises(DataError, match=naming("got 1", "1 row", ": 4)")):
        bilipschitz(waves(), Z)
    with pytest.raises(DataError, match="2-D"):
        bilipschitz(waves(), np.zeros(3))
    with pytest.raises(DataError, match=r"no-such\.npy"):
        bilipschitz(waves(), "no-such.npy")


def test_memory_changes_no_figure_and_the_seed_only_what_is_drawn() -> None:
    g, Z = waves(), points()
    base = bilipschitz(g, Z)
    for memory in (1, 5_000):
        again = bilipschitz(g, Z, memory=memory)
        np.testing.assert_allclose(again.constant, base.constant, rtol=1e-12)
        assert again.random_directions is not None
        assert base.random_directions is not None
        assert again.random_directions.median == pytest.approx(base.random_directions.median, rel=1e-12)
    assert figures(bilipschitz(g, Z)) == figures(base)
    other = bilipschitz(g, Z, seed=1)
    assert other.constant == base.constant
    assert other.random_directions != base.random_directions
    assert (other.provenance.seed, other.settings["seed"]) == (1, 1)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"directions": -1}, "^directions -1: "),
        ({"directions": 2.5}, r"^directions 2\.5: "),
        ({"seed": -1}, "^seed -1: "),
        ({"memory": 0}, "^memory 0: "),
        ({"shape": (2, 2)}, "^shape 2x2: .* 3"),
        ({"shape": (-1, -3)}, "shape -1x-3"),
        ({"shape": (3, 1)}, "for torch decoders"),
    ],
)
def test_wrong_settings_are_refused(option: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        bilipschitz(waves(), points(), **option)


def test_progress_reaches_every_row_in_both_stages() -> None:
    told: list[tuple[Any, int, int]] = []
    bilipschitz(waves(), points(50), memory=2_000, progress=lambda *step: told.append(step))
    for stage in ("decoder Jacobians", "random directions"):
        rows = [done for name, done, total in told if str(name) == stage and total == 50]
        assert rows == sorted(rows)
        assert (rows[0] < 50, rows[-1]) == (True, 50)


# -- what is no decoder


def test_what_could_be_either_or_neither_is_refused_with_a_hint() -> None:
    cases: list[tuple[Any, str]] = [
        (Waves, "got a class"),
        (lambda: waves(), "without arguments"),
        (lambda z, v, w: v, r"function of \(z, v, w\)"),
        (lambda *arrays: arrays[0], r"function of \(\*arrays\)"),
        (3.5, "got float"),
        (max, "which arguments|could be either"),
    ]
    for decoder, message in cases:
        with pytest.raises(UsageError, match=message):
            bilipschitz(decoder, points())
    bilipschitz(lambda z, v, w=0: v, points())  # what has a default is not counted


def test_a_path_that_is_no_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"model:decoder: .*\.pt2"):
        bilipschitz("model:decoder", points())
    with pytest.raises(DataError, match=r"none\.pt2: "):
        bilipschitz(tmp_path / "none.pt2", points())


def test_an_error_in_the_decoder_is_told_with_its_name_and_kept() -> None:
    def broken(z: np.ndarray, v: np.ndarray) -> np.ndarray:
        raise KeyError("weights\nare missing")

    with pytest.raises(DataError, match=naming("broken: ", "1 points", "3 latents", "(KeyError: ")) as caught:
        bilipschitz(broken, points())
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(DataError, match=naming("jvp: ", "1 rows")):
        bilipschitz(lambda z, v: v.sum(), points())


def test_without_a_torch_decoder_torch_is_not_loaded() -> None:
    program = (
        "import sys, numpy as np, identifiable\n"
        "identifiable.bilipschitz(lambda z, v: v, np.eye(3)).table()\n"
        "print('torch' in sys.modules)"
    )
    done = children.run([sys.executable, "-c", program])
    assert done.stdout == "False\n"


# -- torch


def test_torch_modules_functions_and_programs_are_decoders(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 9)).double().eval()
    program = torch.export.export(net, (torch.zeros(4, 3).double(),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    torch.export.save(program, tmp_path / "net.pt2")
    Z = points(30)
    truth = np.linalg.svd(
        torch.func.vmap(torch.func.jacrev(net))(torch.as_tensor(Z)).detach().numpy(), compute_uv=False
    )
    names = {}
    for decoder in (net, lambda z: net(z), tmp_path / "net.pt2", str(tmp_path / "net.pt2")):
        found = bilipschitz(decoder, Z)
        np.testing.assert_allclose(found.sigma_max, truth[:, 0], rtol=1e-8)
        np.testing.assert_allclose(found.sigma_min, truth[:, -1], rtol=1e-8)
        assert "torch" in found.provenance.libraries
        names[found.decoder] = found.settings["decoder_sha256"]
    assert list(names) == ["Sequential", "<lambda>", "net.pt2"]
    assert [digest is None for digest in names.values()] == [True, True, False]
    assert "torch" not in bilipschitz(waves(), Z).provenance.libraries


def test_a_torch_decoder_of_spatial_latents_needs_their_shape() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Conv2d(2, 3, 3, padding=1).double()
    Z = points(5, 2 * 3 * 3)
    found = bilipschitz(net, Z, shape=(2, 3, 3))
    assert (found.latents, found.outputs, found.settings["shape"]) == (18, 27, [2, 3, 3])
    with pytest.raises(DataError, match=r"Conv2d: .*--shape \(shape=\)"):
        bilipschitz(net, Z)


def test_a_module_in_training_mode_and_a_program_of_fixed_rows_are_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout())
    with pytest.raises(UsageError, match=r"decoder\.eval\(\)"):
        bilipschitz(net, points())
    bilipschitz(net.eval(), points(4))
    torch.export.save(torch.export.export(net, (torch.zeros(4, 3),)), tmp_path / "four.pt2")
    with pytest.raises(DataError, match=r"four\.pt2: .* dynamic_shapes"):
        bilipschitz(tmp_path / "four.pt2", points())


def test_a_program_with_pickled_code_in_it_is_refused_and_the_code_not_run(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    rows = ({0: torch.export.Dim("batch")},)
    torch.export.save(
        torch.export.export(torch.nn.Linear(3, 4), (torch.zeros(4, 3),), dynamic_shapes=rows), tmp_path / "fine.pt2"
    )
    pickled = io.BytesIO()
    torch.save(Touch(str(tmp_path / "ran")), pickled)
    with zipfile.ZipFile(tmp_path / "fine.pt2") as fine, zipfile.ZipFile(tmp_path / "evil.pt2", "w") as evil:
        for item in fine.infolist():
            evil.writestr(item.filename, pickled.getvalue() if "sample_inputs" in item.filename else fine.read(item))
    before = dict(os.environ)
    with pytest.raises(DataError, match=naming("evil.pt2: ", "program")):
        bilipschitz(tmp_path / "evil.pt2", points(4))
    assert not (tmp_path / "ran").exists()
    assert bilipschitz(tmp_path / "fine.pt2", points(4)).outputs == 4
    assert dict(os.environ) == before
    torch.load(io.BytesIO(pickled.getvalue()), weights_only=False)  # the code is there, and would have run
    assert (tmp_path / "ran").exists()


class Touch:
    """Makes a file when unpickled."""

    def __init__(self, path: str):
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.path),)


def test_single_precision_that_leaves_sigma_min_uncertain_is_said() -> None:
    torch = pytest.importorskip("torch")
    for size, codes in ((5e-6, ["rounding"]), (0.1, [])):
        net = torch.nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            net.weight.copy_(torch.diag(torch.tensor([1.0, size])))
        found = bilipschitz(net, points(4, 2))
        assert ([a.code for a in found.alerts], found.settings["precision"]) == (codes, "float32")
        assert bilipschitz(net.double(), points(4, 2)).alerts == ()


def test_a_decoder_cut_off_from_its_derivative_is_an_alert() -> None:
    torch = pytest.importorskip("torch")
    net = torch.nn.Linear(2, 3).double()
    points = np.random.default_rng(0).standard_normal((20, 2))
    cut, whole = bilipschitz(lambda z: net(z).detach(), points), bilipschitz(lambda z: net(z), points)
    assert "zero_derivative" in {a.code for a in cut.alerts}
    assert "zero_derivative" not in {a.code for a in whole.alerts}
    assert np.isfinite(whole.largest)
