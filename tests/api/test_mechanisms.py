"""`mechanisms` from Python and from the shell: decoders and Jacobians in, factors and a basis out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import identifiable
from identifiable._checks import DataError, UsageError
from identifiable.cli import main
from identifiable.report.page import Block, Grid
from identifiable.report.pages.mechanisms import page
from identifiable.results import Mechanisms, from_json
from identifiable.worlds import MovingSprites, SlotWorld


def maps_drawn(found: Mechanisms) -> tuple[Block, ...]:
    return next(section.blocks for section in page(found).sections if section.key == "maps")


class Mixed:
    """A slot world whose latents were mixed by a matrix."""

    def __init__(self, world: SlotWorld, A: np.ndarray):
        self.world, self.A = world, A

    def jvp(self, z: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self.world.jvp(z @ self.A.T, v @ self.A.T)


@pytest.fixture(scope="module")
def mixed() -> tuple[Mixed, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    world = SlotWorld.of(2, dim=2, outputs=12, dependence=0.7, rng=rng)
    A = rng.standard_normal((4, 4))
    slots = world.draw(120, rng=rng)
    return Mixed(world, A), slots, slots @ np.linalg.inv(A).T


def test_a_decoder_of_dependent_slots_is_split_where_ica_is_not(mixed: tuple[Mixed, np.ndarray, np.ndarray]) -> None:
    decoder, slots, Z = mixed
    found = identifiable.mechanisms(decoder, Z, blocks=(2, 2), picture=(4, 6))
    assert (found.n_factors, found.certain, found.linear, found.agree) == (2, True, True, 1.0)
    assert found.factors[0].outputs == tuple(range(12))
    assert max(factor.ica_angle or 0.0 for factor in found.factors) > 10
    assert found.scores is not None
    assert found.given is not None
    assert found.scores.contrast < 1e-9 < 0.3 < found.given.contrast
    assert found.scores.second_order == pytest.approx(0, abs=1e-9)
    coordinates = found.basis(Z)
    residual = coordinates[:, :2] - slots[:, :2] @ np.linalg.lstsq(slots[:, :2], coordinates[:, :2], rcond=None)[0]
    assert np.abs(residual).max() < 1e-8
    again = from_json(found.to_json(), "result")
    assert again.to_json() == found.to_json()
    assert again.table() == found.table()


def test_jacobians_give_what_their_decoder_gives(mixed: tuple[Mixed, np.ndarray, np.ndarray]) -> None:
    decoder, slots, Z = mixed
    by_decoder = identifiable.mechanisms(decoder, Z)
    J = decoder.world.jacobian(slots) @ decoder.A
    by_array = identifiable.mechanisms(J, Z)
    assert [f.outputs for f in by_array.factors] == [f.outputs for f in by_decoder.factors]
    assert np.allclose(by_array.leak, by_decoder.leak, atol=1e-9)
    assert identifiable.mechanisms(J).factors[0].ica_angle is None


def test_sprites_move_and_their_maps_have_the_shape_of_the_picture() -> None:
    world = MovingSprites(2, resolution=12)
    rng = np.random.default_rng(1)
    J = world.jacobian(world.draw(30, separated=True, rng=rng)) @ rng.standard_normal((4, 4))
    found = identifiable.mechanisms(J, picture=(12, 12))
    assert (found.n_factors, found.moving, found.form) == (2, True, "rows")
    assert found.factors[0].outputs == ()
    assert {len(values) for factor in found.factors for values in factor.maps} == {144}


def test_null_directions_stay_in_the_basis() -> None:
    rng = np.random.default_rng(2)
    J = np.zeros((5, 20, 4))
    J[:, :12, :2], J[:, 12:, 2] = rng.standard_normal((5, 12, 2)), 1
    found = identifiable.mechanisms(J @ rng.standard_normal((4, 4)))
    assert found.n_factors == 2
    assert len(found.null_space) == 1
    assert [alert.code for alert in found.alerts] == ["directions_without_effect"]
    assert np.linalg.matrix_rank(found.basis.matrix) == 4


def two_blocks(points: int) -> np.ndarray:
    """Jacobians of 40 outputs, half of which each of two pairs of mixed latents moves."""
    rng = np.random.default_rng(3)
    J = np.zeros((points, 40, 4))
    J[:, :20, :2], J[:, 20:, 2:] = rng.standard_normal((2, points, 20, 2))
    return np.asarray(J @ rng.standard_normal((4, 4)))


def test_a_single_point_is_said_and_two_are_not() -> None:
    one, two = (identifiable.mechanisms(two_blocks(points)) for points in (1, 2))
    assert [alert.code for alert in one.alerts] == ["one_point_of_jacobian"]
    assert two.alerts == ()


def test_a_sample_of_the_rows_is_said_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    J = two_blocks(6)
    assert (identifiable.mechanisms(J).complete, identifiable.mechanisms(J).alerts) == (True, ())
    monkeypatch.setattr("identifiable.mechanistic.sampling.WORK", 1.0)
    monkeypatch.setattr("identifiable.mechanistic.sampling.LEAST_ROWS", 100)
    found = identifiable.mechanisms(J)
    ((code, values),) = ((alert.code, alert.values) for alert in found.alerts)
    assert (code, values["of"], found.complete) == ("jacobian_rows_sampled", 240, False)
    assert 60 < values["rows"] < 140
    monkeypatch.setattr("identifiable.mechanistic.sampling.LEAST_ROWS", 240)
    assert identifiable.mechanisms(J).alerts == ()


def test_the_shell_writes_a_basis_that_transform_applies(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mixed: tuple[Mixed, np.ndarray, np.ndarray],
    capsys: pytest.CaptureFixture[str],
) -> None:
    decoder, slots, Z = mixed
    monkeypatch.chdir(tmp_path)
    np.save("z.npy", Z)
    np.save("J.npy", decoder.world.jacobian(slots) @ decoder.A)
    assert main(["mechanisms", "z.npy", "--jacobians", "J.npy"]) == 0
    assert "-o factors.safetensors" in capsys.readouterr().out
    words = ["-o", "b.safetensors", "--json", "m.json", "--report", "p.md"]
    assert main(["mechanisms", "z.npy", "--jacobians", "J.npy", *words]) == 0
    for said in (capsys.readouterr().out, Path("p.md").read_text()):
        assert "identifiable transform b.safetensors " in said
        assert "-o factors.safetensors" not in said
    assert main(["transform", "b.safetensors", "z.npy", "-o", "s.npy", "--quiet"]) == 0
    found = identifiable.mechanisms("J.npy", "z.npy")
    assert np.allclose(np.load("s.npy"), found.basis(Z))
    assert main(["transform", "b.safetensors", "s.npy", "--inverse", "-o", "back.npy", "--quiet"]) == 0
    assert np.allclose(np.load("back.npy"), Z)
    assert main(["transform", "b.safetensors", "s.npy", "--only-identifiable", "-o", "no.npy", "--quiet"]) == 2
    assert json.loads(Path("m.json").read_text())["n_factors"] == 2
    assert main(["mechanisms", "--jacobians", "J.npy", "--quiet", "--fail-if", "n_factors < 3"]) == 1


@pytest.mark.parametrize(
    ("shape", "said"),
    [((4, 3), r"\(4, 3\)"), ((4,), r"\(4,\)"), ((2, 0, 3), r"\(2, 0, 3\)"), ((1, 2, 2, 2), r"2, 2, 2")],
)
def test_jacobians_of_a_wrong_shape_are_refused(shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(DataError, match=said):
        identifiable.mechanisms(np.ones(shape))


def test_nested_lists_are_jacobians_and_masked_arrays_are_not() -> None:
    J = np.random.default_rng(4).standard_normal((3, 10, 2))
    assert identifiable.mechanisms(J.tolist()).leak == identifiable.mechanisms(J).leak
    with pytest.raises(DataError, match="list"):
        identifiable.mechanisms([[[1.0, 2.0]], [[1.0]]])
    with pytest.raises(DataError, match=rf"filled.*{np.sum(J > 1)} values"):
        identifiable.mechanisms(np.ma.masked_array(J, mask=J > 1))
    with pytest.raises(DataError, match="asarray"):
        identifiable.mechanisms(np.ma.masked_array(J))
    with pytest.raises(DataError, match="points"):
        identifiable.mechanisms(J, np.full((3, 2), np.nan))


def test_outputs_that_are_no_picture_are_one_line_for_each_factor() -> None:
    J = np.zeros((4, 40, 2))
    J[:, :25, 0], J[:, 25:, 1] = np.random.default_rng(5).uniform(1, 2, (2, 4, 1))
    found = identifiable.mechanisms(J)
    grids = [block for block in maps_drawn(found) if isinstance(block, Grid)]
    assert [(grid.rows, len(grid.columns)) for grid in grids] == [(("0", "1"), 40)] * 3
    assert grids[0].values == tuple(factor.maps[0] for factor in found.factors)
    assert not grids[0].signed
    assert [len(block.rows) for block in maps_drawn(replace(found, picture=(5, 8))) if isinstance(block, Grid)] == [
        5
    ] * 6


def test_wrong_calls_are_refused(tmp_path: Path, mixed: tuple[Mixed, np.ndarray, np.ndarray]) -> None:
    decoder, _, Z = mixed
    J = np.random.default_rng(3).standard_normal((3, 8, 2))
    with pytest.raises(UsageError, match="points"):
        identifiable.mechanisms(decoder)
    with pytest.raises(DataError, match="120"):
        identifiable.mechanisms(J, Z)
    with pytest.raises(UsageError, match="8"):
        identifiable.mechanisms(J, picture=(3, 3))
    with pytest.raises(UsageError, match="add up to 2"):
        identifiable.mechanisms(J, blocks=(2, 2))
    with pytest.raises(DataError, match=r"gone\.npy"):
        identifiable.mechanisms(tmp_path / "gone.npy")
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(DataError, match=r"text\.npy"):
        identifiable.mechanisms(tmp_path / "text.npy")
    with pytest.raises(DataError, match="text"):
        identifiable.mechanisms(np.full((2, 3, 2), "a"))


@pytest.mark.parametrize(
    "arguments", [[], ["z.npy"], ["--decoder", "m:d"], ["z.npy", "--decoder", "m:d", "--jacobians", "J.npy"]]
)
def test_the_shell_says_what_is_missing(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mechanisms", *arguments]) == 2
    assert "--decoder" in capsys.readouterr().err


def test_jacobians_in_another_order_of_axes_or_swapped_with_the_points_say_so(tmp_path) -> None:
    rng = np.random.default_rng(0)
    J, z = rng.standard_normal((8, 20, 3)), rng.standard_normal((8, 3))
    with pytest.raises(DataError, match=r"\(8, outputs, 3\).*\(8, 3, 20\); transpose"):
        identifiable.mechanisms(J.transpose(0, 2, 1), z)
    with pytest.raises(DataError, match=r"\(6, outputs, 3\)") as other:
        identifiable.mechanisms(J, z[:6])
    assert "transpose" not in str(other.value)
    np.save(tmp_path / "J.npy", J)
    np.save(tmp_path / "z.npy", z)
    for decoder, points in ((z, J), (tmp_path / "z.npy", tmp_path / "J.npy")):
        with pytest.raises(DataError, match=r"\(8, 3\).*swap"):
            identifiable.mechanisms(decoder, points)
    assert identifiable.mechanisms(tmp_path / "J.npy", tmp_path / "z.npy").n == 8
    with pytest.raises(DataError, match=r"\(1, 8, 20, 3\)") as four:
        identifiable.mechanisms(J[None])
    assert "swap" not in str(four.value)


def test_the_next_command_names_the_file_of_the_points(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    J = np.zeros((6, 24, 3))
    J[:, :16, :2], J[:, 16:, 2] = rng.standard_normal((6, 16, 2)), 1
    np.save("J.npy", J @ rng.standard_normal((3, 3)))
    np.save("my points.npy", rng.standard_normal((6, 3)))
    assert main(["mechanisms", "my points.npy", "--jacobians", "J.npy", "-o", "f.safetensors"]) == 0
    assert "transform f.safetensors 'my points.npy' -o" in capsys.readouterr().out
    assert main(["mechanisms", "--jacobians", "J.npy", "-o", "g.safetensors"]) == 0
    assert "transform g.safetensors latents.npy -o" in capsys.readouterr().out
