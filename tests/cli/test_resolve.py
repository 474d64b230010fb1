"""`resolve` and `transform` on the command line: what they print, write and return, and every way to use them wrongly."""

from __future__ import annotations

import errno
import inspect
import io
import json
import os
import re
import shlex
import shutil
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

import children
from commands import check_gates, files, one_line, refused, run, says
from identifiable.api import load, load_basis, resolve, save_basis
from identifiable.cli import main, progress
from identifiable.cli.output import check_outputs
from identifiable.results import JointResolution, without_time
from identifiable.run import Stage

QUICK = ["--restarts", "1", "--stability", "0"]
REFITTED = ["--restarts", "1", "--stability", "2"]  # without refits nothing is reproducible, and so nothing shared
FULL = "/dev/full"
needs_full_disk = pytest.mark.skipif(not os.path.exists(FULL), reason="needs /dev/full, a disk that is always full")


def mixed(seed: int, n: int = 1500, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Skewed sources, so that every sign is certain, and two mixings of them."""
    rng = np.random.default_rng([seed, 31])
    S = rng.gamma(1.0 + np.arange(d), size=(n, d))
    return S @ rng.standard_normal((d, d)), S @ rng.standard_normal((d, d)) + 0.01 * rng.standard_normal((n, d))


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Two mixings of the same sources, and a basis of the first."""
    tmp_path = tmp_path_factory.mktemp("source")
    X, Y = mixed(0)
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", Y)
    np.savez(tmp_path / "runs.npz", one=X, two=Y)
    names = [f"s{i:04d}" for i in range(len(X))]
    for file, table, order in (("a.csv", X, names), ("b.csv", Y[::-1], names[::-1])):
        lines = [
            "id,f0,f1,f2",
            *(f"{name},{','.join(map(repr, r))}" for name, r in zip(order, table.tolist(), strict=True)),
        ]
        (tmp_path / file).write_text("\n".join(lines) + "\n")
    (tmp_path / "ids.txt").write_text("\n".join(names) + "\n")
    save_basis(tmp_path / "basis.safetensors", resolve(str(tmp_path / "a.npy"), restarts=1, stability=0))
    return tmp_path


@pytest.fixture
def folder(source, tmp_path, monkeypatch):
    shutil.copytree(source, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def figures(path):
    return without_time(load(path)).to_json()


# -- one table


def test_resolve_prints_a_table_writes_a_basis_and_exits_0(folder, capsys):
    code, out, err = run("resolve", "a.npy", "-o", "basis.safetensors", "--report", "p.html", capsys=capsys)
    assert (code, err) == (0, "")
    assert "3 of 3" in out
    assert out.splitlines()[-2:] == ["basis: basis.safetensors", "page: p.html"]
    assert load_basis("basis.safetensors").to_components(np.load("a.npy")).std(axis=0) == pytest.approx(np.ones(3))
    assert Path("p.html").stat().st_size > 10_000


def test_command_line_and_python_give_the_same_result(folder, capsys):
    words = shlex.split("resolve a.npy --seed 7 --rank 2 -o x.safetensors --json r.json --workers 1")
    assert run(*words, capsys=capsys)[0] == 0
    expected = json.loads(without_time(resolve("a.npy", seed=7, rank=2).result).to_json())
    found = json.loads(figures("r.json"))
    assert shlex.split(found["provenance"].pop("command"))[1:] == [*words[:2], *words[4:6], *words[2:4], *words[6:8]]
    expected["provenance"].pop("command")
    assert found == expected
    assert load_basis("x.safetensors").result.to_json() == load("r.json").to_json()


@pytest.mark.parametrize(
    ("words", "setting", "value"),
    [
        (["--rank", "2"], "rank", 2),
        (["--restarts", "2"], "restarts", 2),
        (["--stability", "2"], "stability", 2),
        (["--contrast", "exp"], "contrast", "exp"),
        (["--order", "variance"], "order", "variance"),
        (["--tol", "1e-4"], "tol", 1e-4),
        (["--precision", "double"], "precision", "double"),
        (["--seed", "5"], "seed", 5),
    ],
)
def test_every_option_that_moves_a_number_arrives_and_is_recorded(folder, capsys, words, setting, value):
    rest = [
        word for flag, few in (("--restarts", "1"), ("--stability", "0")) if flag not in words for word in (flag, few)
    ]
    assert run("resolve", "a.npy", *words, *rest, "--json", "r.json", "--quiet", capsys=capsys) == (0, "", "")
    result = load("r.json")
    assert result.settings[setting] == value
    assert inspect.signature(resolve).parameters[setting].default != value
    recorded = shlex.split(result.provenance.command)
    assert type(value)(recorded[recorded.index(words[0]) + 1]) == value


def test_blocks_and_workers_change_nothing_in_the_json_or_the_basis(folder, capsys):
    texts, bases = [], []
    for extra in ([], ["--blocks", "100"], ["--workers", "1"], ["--blocks", "7", "--workers", "3"]):
        words = ["resolve", "a.npy", *REFITTED, *extra, "--quiet", "--json", "r.json", "-o", "x.safetensors"]
        assert run(*words, capsys=capsys)[0] == 0
        texts.append(figures("r.json"))
        bases.append(load_basis("x.safetensors").to_components.matrix.tobytes())
    assert (len(set(texts)), len(set(bases))) == (1, 1)
    run("resolve", "a.npy", *REFITTED, "--seed", "1", "--quiet", "--json", "r.json", capsys=capsys)
    assert figures("r.json") not in texts


def test_a_scheduler_that_does_not_answer_is_said(folder, capsys, monkeypatch):
    pytest.importorskip("distributed")
    import distributed

    def refuse(address, **options):
        raise OSError(f"Timed out trying to connect to {address}")

    monkeypatch.setattr(distributed, "Client", refuse)
    words = ["resolve", "a.npy", "--scheduler", "tcp://127.0.0.1:9", "-o", "x.safetensors"]
    code, out, err = run(*words, capsys=capsys)
    assert (code, out, one_line(err)) == (2, "", True)
    assert "tcp://127.0.0.1:9" in err
    assert "x.safetensors" not in files()


# -- several tables


def test_several_tables_are_resolved_jointly_each_with_its_basis(folder, capsys):
    words = ["resolve", "a.npy", "b.npy", *REFITTED, "-o", "basis-{name}.safetensors", "--json", "r.json"]
    code, out, _ = run(*words, capsys=capsys)
    assert code == 0
    assert says(out, "3 of 3")
    assert out.splitlines()[-2:] == [f"basis: basis-{name}.safetensors" for name in "ab"]
    joint = load("r.json")
    assert isinstance(joint, JointResolution)
    for name, model in zip("ab", joint.models, strict=True):
        basis = load_basis(f"basis-{name}.safetensors").result
        assert basis.components == model.components
        assert basis.provenance == joint.provenance  # a basis says which command made it
        assert shlex.split(basis.provenance.command) == ["identifiable", *words[:-2]]


def test_rows_of_several_tables_are_joined_by_id(folder, capsys):
    for words in (["a.csv", "b.csv"], ["a.csv", "b.csv", "--ids", "id"]):
        assert run("resolve", *words, *REFITTED, "--json", "r.json", "--quiet", capsys=capsys)[0] == 0
        result = load("r.json")
        assert len(result.shared) == 3
        assert "paired_by_position" not in {a.code for a in result.alerts}
    assert shlex.split(result.provenance.command)[:4] == ["identifiable", "resolve", "a.csv", "b.csv"]
    assert "--ids id" in result.provenance.command
    run("resolve", "a.npy", "b.npy", "--ids", "ids.txt", *QUICK, "--json", "r.json", "--quiet", capsys=capsys)
    assert "one_ids_file" in {a.code for a in load("r.json").alerts}
    run("resolve", "a.npy", "b.npy", *QUICK, "--json", "r.json", "--quiet", capsys=capsys)
    assert "paired_by_position" in {a.code for a in load("r.json").alerts}


def test_names_that_cannot_be_file_names_become_some_that_can(folder, capsys):
    for name in ("x", "y"):
        Path(name).mkdir()
        np.save(Path(name) / "run.npy", np.load("a.npy"))
    code, _, _ = run("resolve", "x/run.npy", "y/run.npy", *QUICK, "-o", "{name}.safetensors", capsys=capsys)
    assert (code, {"x-run.safetensors", "y-run.safetensors"} <= set(files())) == (0, True)
    code, _, _ = run("resolve", "runs.npz:one", *QUICK, "-o", "of-{name}.safetensors", capsys=capsys)
    assert (code, "of-one.safetensors" in files() or "of-runs-one.safetensors" in files()) == (0, True)
    np.savez("odd.npz", **{"l:1": np.load("a.npy"), "l 1": np.load("b.npy")})
    code, _, err = run("resolve", "odd.npz:l:1", "odd.npz:l 1", *QUICK, "-o", "{name}.safetensors", capsys=capsys)
    assert (code, one_line(err)) == (2, True)
    assert "l-1.safetensors" in err


def test_shared_above_says_from_which_correlation_on_and_is_recorded(folder, capsys):
    rng = np.random.default_rng(4)
    X = rng.gamma(1.0 + np.arange(3), size=(1500, 3))
    X /= X.std(axis=0)
    np.save("a.npy", X)
    np.save("b.npy", X + [0, 0, 0.6] * rng.gamma(1.0, size=(1500, 3)))  # the last partners correlate at about 0.86
    counts = {}
    for words in ([], ["--shared-above", "0.95"]):
        assert run("resolve", "a.npy", "b.npy", *REFITTED, *words, "--json", "r.json", capsys=capsys)[0] == 0
        result = load("r.json")
        counts[result.settings["shared_above"]] = result.shared_counts[0][1]
        assert ("--shared-above 0.95" in result.provenance.command) == bool(words)
    assert counts == {0.8: 3, 0.95: 2}
    assert resolve("a.npy", "b.npy", shared_above=0.95, stability=0).result.shared_counts[0][1] == 2


# -- rows that belong together


@pytest.fixture
def copies(folder):
    """100 Gaussian rows, in which nothing can be found again, forty times each with a little noise; seed 1."""
    rng = np.random.default_rng(1)
    X = np.repeat(rng.standard_normal((100, 6)), 40, axis=0) + 0.01 * rng.standard_normal((4000, 6))
    np.save("copies.npy", X)
    np.save("turned.npy", X @ np.linalg.qr(rng.standard_normal((6, 6)))[0])
    plates = [f"p{i // 40}" for i in range(4000)]
    Path("labels.csv").write_text("\n".join(["id,plate", *(f"s{i},{p}" for i, p in enumerate(plates))]) + "\n")
    return plates


def test_near_copies_look_reproducible_unless_their_group_is_named(copies, capsys):
    counts = []
    for words in ([], ["--group-by", "labels.csv:plate"]):
        assert run("resolve", "copies.npy", *words, "--json", "r.json", "--quiet", capsys=capsys)[0] == 0
        counts.append(len(load("r.json").identifiable))
    assert counts[0] > 0
    assert counts[1] == 0


def test_groups_from_a_file_are_those_from_python_and_are_recorded(copies, capsys):
    words = ["resolve", "copies.npy", "--group-by", "labels.csv:plate", "--stability", "2", "--json", "r.json"]
    assert run(*words, "--quiet", capsys=capsys)[0] == 0
    result = load("r.json")
    assert result.settings["group_by"] == "labels.csv:plate"
    assert shlex.split(result.provenance.command) == ["identifiable", *words[:6]]
    assert resolve("copies.npy", group_by=copies, stability=2).result.components == result.components
    assert resolve("copies.npy", stability=2).result.components != result.components


# -- the gate


def test_fail_if_decides_the_exit_code(folder, capsys):
    unrefitted = ("identifiable < 20", "ties > 0", "components.0.identifiable == false", "components.3.curvature > 0")
    check_gates(
        ["resolve", "a.npy", *QUICK, "-o", "x.safetensors"],
        holds="rank < 3; converged == False; unresolved > 0; whitening.dropped > 0; passes > 1e6",
        fails="converged == true; rank < 64; contrast < 1.5; components.0.negentropy > 0",
        capsys=capsys,
    )
    Path("x.safetensors").unlink()
    check_gates(  # without refits nothing is called identifiable: no measurement, no verdict
        ["resolve", "a.npy", *REFITTED],
        holds="identifiable < 3; components.0.identifiable == false",
        fails="identifiable < 20; components.0.sign_kept == true",
        capsys=capsys,
    )
    for condition in (*unrefitted, "components.0.sign_kept == false"):
        words = ["resolve", "a.npy", *QUICK, "-o", "x.safetensors", "--fail-if", condition]
        assert condition in refused(*words, code=2, capsys=capsys)
        assert "x.safetensors" not in files()  # what cannot be decided leaves nothing


@pytest.mark.parametrize("tables", [["absent.npy"], ["absent.npy", "b.npy"]])
def test_a_gate_that_needs_refits_is_refused_before_the_work(folder, capsys, tables):
    words = ["resolve", *tables, "--stability", "0", "--fail-if", "identifiable < 20"]
    code, out, err = run(*words, capsys=capsys)
    assert (code, out, one_line(err)) == (2, "", True)
    assert says(err, "identifiable < 20", "--stability 2")
    assert "absent" not in err
    assert run(*words[:-1], "rank < 1", capsys=capsys)[0] == 3  # the absent file is found by any other gate


@pytest.mark.parametrize("tables", [["a.npy"], ["a.npy", "b.npy"]])
def test_a_gate_whose_refits_had_too_few_rows_cannot_decide(folder, capsys, tables):
    for name in ("a.npy", "b.npy"):
        np.save(name, np.load(name)[:3])  # of two halves of three rows, one has a single row
    words = ["resolve", *tables, "--json", "r.json", "--quiet", "--fail-if"]
    code, out, err = run(*words, "identifiable < 20", capsys=capsys)
    assert (code, out, one_line(err)) == (2, "", True)
    assert says(err, "identifiable < 20", "a has", "rows")
    assert "r.json" not in files()
    assert run(*words, "rank < 1", capsys=capsys)[0] == 0


@pytest.mark.parametrize(
    ("condition", "code", "message"),
    [
        ("shared < 10", 1, "a, b: shared < 10 (shared = 3)"),
        ("shared < 3", 0, ""),
        ("n < 1000", 0, ""),
        ("rank < 3", 1, "failed: b: rank < 3 (rank = 2)"),
        ("models.1.rank < 3", 1, "models.1.rank"),
        ("models.0.rank < 3", 0, ""),
    ],
)
def test_fail_if_of_several_tables_is_about_the_whole_or_any_model(folder, capsys, condition, code, message):
    if "rank" in condition:
        np.save("b.npy", np.load("b.npy")[:, :2])
    found, _, err = run("resolve", "a.npy", "b.npy", *REFITTED, "--fail-if", condition, capsys=capsys)
    assert (found, err.count("failed:")) == (code, code)
    assert message in err


# -- wrong usage, bad data: one helpful line, the right code, nothing written


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["resolve", "a.npy", "--rank", "many"], ("--rank 'many'", "auto")),
        (["resolve", "a.npy", "--rank", "4"], ("rank 4", "1 to 3")),
        (["resolve", "a.npy", "--stability", "3"], ("--stability 3", "even number")),
        (["resolve", "a.npy", "--shared-above", "0.9"], ("shared_above", "got one")),
        (["resolve", "a.npy", "--group-by", "one.csv:plate"], ("least two groups",)),
        (["resolve", "a.npy", "b.npy", "--group-by", "one.csv:plate"], ("least two groups",)),
        (["resolve", "a.npy", "b.npy", "--ids", "x", "--ids", "y", "--ids", "z"], ("ids:", "2 tables", "got 3")),
        (["resolve", "a.npy", "-o", "basis.npy"], ("basis.npy", ".safetensors")),
        (["resolve", "a.npy", "-o", "-"], ("-: ", ".safetensors")),
        (["resolve", "a.npy", "b.npy", "-o", "x.safetensors"], ("2 tables", "2 bases", "{name}")),
        (["transform", "basis.safetensors", "a.npy"], ("-o",)),
        (["transform", "basis.safetensors", "-o", "z.npy"], ("required",)),
        (["transform", "basis.safetensors", "a.npy", "-o", "z.txt"], ("z.txt", ".npy or .npz")),
        (["transform", "basis.safetensors", "a.npy", "-o", "z.npy", "--ids", "ids.txt"], ("z.npy", "ids")),
        (
            ["transform", "basis.safetensors", "a.npy", "-o", "z.npy", "--only-identifiable"],
            ("a: 3 components", "not measured"),
        ),
    ],
)
def test_wrong_usage_is_one_line_exit_2_and_no_output(folder, capsys, words, parts):
    Path("one.csv").write_text("plate\n" + "p1\n" * 1500)
    before = files()
    assert says(refused(*words, code=2, capsys=capsys), *parts)
    assert files() == before


def write_bad_files():
    X = np.load("a.npy")
    X[[5, 9], 0] = np.nan, np.inf
    np.save("nan.npy", X)
    np.save("same.npy", np.full((100, 3), 0.3))
    np.save("row.npy", np.ones((1, 3)))
    np.save("flat.npy", X[:, 0])
    np.save("wide.npy", np.ones((10, 4)))
    np.save("short.npy", np.load("b.npy")[1:])
    Path("few.csv").write_text("id,plate\ns0000,p1\ns0001,p2\n")
    np.save("huge.npy", np.full((10, 3), 1e308))
    Path("cut.npy").write_bytes(Path("a.npy").read_bytes()[:500])
    content = Path("basis.safetensors").read_bytes()
    Path("cut.safetensors").write_bytes(content[:-8])
    Path("edited.safetensors").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["resolve", "nan.npy"], "2 NaN"),
        (["resolve", "same.npy"], "constant"),
        (["resolve", "row.npy"], "two rows"),
        (["resolve", "runs.npz"], "one"),
        (["resolve", "a.npy", "--ids", "nowhere"], "nowhere"),
        (["resolve", "a.npy", "short.npy"], "equally many"),
        (["resolve", "a.npy", "--group-by", "few.csv:plate"], "1500 rows of a, got 2"),
        (["resolve", "a.csv", "--group-by", "few.csv:plate"], "1498 of 1500"),
        (["resolve", "a.npy", "b.npy", "--group-by", "few.csv:plate"], "1500 rows of a, got 2"),
        (["resolve", "a.npy", "a.csv"], "ids"),
        (["transform", "absent.safetensors", "a.npy"], "absent.safetensors"),
        (["transform", "a.npy", "a.npy"], "expected a basis"),
        (["transform", "cut.safetensors", "a.npy"], "cut.safetensors"),
        (["transform", "edited.safetensors", "a.npy"], "edited.safetensors"),
        (["transform", "basis.safetensors", "wide.npy"], "expected 3 columns"),
        (["transform", "basis.safetensors", "nan.npy"], "NaN or infinite"),
        (["transform", "basis.safetensors", "huge.npy", "--dtype", "float32"], "overflow"),
        (["transform", "basis.safetensors", "a.npy", "--ids", "nowhere"], "nowhere"),
    ],
)
def test_bad_data_is_one_line_exit_3_and_old_outputs_are_kept(folder, capsys, words, message):
    write_bad_files()
    outputs = ["old-{name}.safetensors"] if words[0] == "resolve" else ["old.npz"]
    old = [outputs[0].replace("{name}", Path(table).stem) for table in words[1:2]]
    for name in old:
        Path(name).write_text("kept")
    before = files()
    rest = [*QUICK, "--json", "r.json", "--report", "p.html"] if words[0] == "resolve" else []
    code, out, err = run(*words, "-o", outputs[0], *rest, capsys=capsys)
    assert (code, out, one_line(err)) == (3, "", True)
    assert message in err
    assert files() == before
    assert [Path(name).read_text() for name in old] == ["kept"]


def test_a_folder_without_permission_is_refused_whoever_asks(folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(OSError, match=r"^x\.safetensors: .*permission denied"):
        check_outputs(["x.safetensors"], [])


@pytest.mark.parametrize(
    ("words", "target"),
    [
        (["resolve", "model.safetensors:x:1", "-o"], "model.safetensors"),
        (["resolve", "a.npy", "--ids", "ids.txt", "--json"], "ids.txt"),
        (["resolve", "model.safetensors", "a.npy", "-o"], "{name}.safetensors"),
        (["transform", "basis.safetensors", "a.npy", "-o"], "a.npy"),
        (["transform", "basis.safetensors", "a.npy", "-o"], "./basis.safetensors"),
        (["transform", "basis.safetensors", "a.npy", "--ids", "who.npz:w", "-o"], "who.npz"),
    ],
)
def test_an_input_is_never_written_over(folder, capsys, words, target):
    from safetensors.numpy import save_file

    save_file({"x:1": np.load("a.npy")}, "model.safetensors")
    np.savez("who.npz", w=np.arange(1500))
    before = {name: Path(name).read_bytes() for name in files()}
    code, _, err = run(*words, target, capsys=capsys)
    assert (code, one_line(err)) == (3, True)
    assert says(err, target.replace("{name}", "model"), "the inputs")
    assert {name: Path(name).read_bytes() for name in files()} == before


# -- all outputs or none


@needs_full_disk
@pytest.mark.parametrize("full", ["-o", "--json", "--report"])
def test_one_output_on_a_full_disk_keeps_the_others_back(folder, capsys, full):
    names = {"-o": "full.safetensors", "--json": "full.json", "--report": "full.html"}
    Path(names[full]).symlink_to(FULL)
    before = files()
    words = [
        word for flag in names for word in (flag, names[flag] if flag == full else names[flag].replace("full", "x"))
    ]
    code, out, err = run("resolve", "a.npy", *QUICK, "--quiet", *words, capsys=capsys)
    assert (code, out, one_line(err)) == (3, "", True)
    assert says(err, names[full], os.strerror(errno.ENOSPC))
    assert files() == before
    assert stat.S_ISCHR(os.stat(FULL).st_mode)  # a device is written to, never replaced


@needs_full_disk
def test_a_full_stdout_leaves_no_file(folder):
    before = files()
    with open(FULL, "w") as full:
        done = children.run(
            [sys.executable, "-m", "identifiable", "resolve", "a.npy", *QUICK, "--json", "-", "-o", "x.safetensors"],
            stdout=full,
        )
    assert (done.returncode, one_line(done.stderr)) == (3, True)
    assert files() == before


@pytest.mark.parametrize("failing", ["x.safetensors", "r.json", "p.html"])
def test_an_error_while_files_take_their_names_is_one_line_and_leaves_no_temporary_file(
    folder, capsys, monkeypatch, failing
):
    replace = os.replace

    def refuse(source, target):
        if Path(target).name == failing:
            raise OSError(5, "Input/output error")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    words = ["-o", "x.safetensors", "--json", "r.json", "--report", "p.html"]
    code, _, err = run("resolve", "a.npy", *QUICK, "--quiet", *words, capsys=capsys)
    assert (code, one_line(err)) == (3, True)
    assert says(err, failing, "Input/output error")
    assert not [name for name in files() if name.endswith(".part")]
    assert failing not in files()


# -- transform


@pytest.fixture
def basis(folder):
    return "basis.safetensors"


def test_transform_and_inverse_give_the_data_back(basis, capsys):
    assert run("transform", basis, "a.npy", "-o", "z.npy", capsys=capsys)[0] == 0
    Z, X = np.load("z.npy"), np.load("a.npy")
    assert np.cov(Z.T, bias=True) == pytest.approx(np.eye(3), abs=1e-6)
    code, out, err = run("transform", basis, "z.npy", "--inverse", "-o", "x.npy", capsys=capsys)
    assert (code, out.split(": "), err) == (0, ["1500 x 3", "x.npy\n"], "")
    assert np.load("x.npy") == pytest.approx(X, abs=1e-9)
    assert np.abs(Z - X).max() > 0.1


def test_only_identifiable_writes_their_columns_in_order_and_says_how_many(folder, capsys):
    rng = np.random.default_rng(5)
    X = np.c_[rng.standard_normal((3000, 2)), rng.gamma(1.0, size=(3000, 2))] @ rng.standard_normal((4, 4))
    np.save("half.npy", X)
    assert run("resolve", "half.npy", "--stability", "2", "-o", "half.safetensors", capsys=capsys)[0] == 0
    kept = [c.index for c in load_basis("half.safetensors").result.identifiable]
    assert len(kept) == 2
    for name, words in (("all.npy", []), ("some.npy", ["--only-identifiable"])):
        code, out, _ = run("transform", "half.safetensors", "half.npy", "-o", name, *words, capsys=capsys)
        assert code == 0
    assert says(out, "3000 x 2", "2 of 4", "some.npy")
    assert np.load("some.npy").tobytes() == np.ascontiguousarray(np.load("all.npy")[:, kept]).tobytes()


def test_transform_writes_ids_beside_the_values(basis, capsys):
    assert run("transform", basis, "a.npy", "--ids", "ids.txt", "-o", "z.npz", capsys=capsys)[0] == 0
    assert np.load("z.npz")["ids"][:2].tolist() == ["s0000", "s0001"]
    assert run("transform", basis, "a.npy", "-o", "z.npz", capsys=capsys)[0] == 0
    assert np.load("z.npz").files == ["values"]
    assert run("transform", basis, "a.csv", "-o", "z.npz", capsys=capsys)[0] == 0
    assert len(np.load("z.npz")["ids"]) == 1500


# -- the progress bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


def watched(words, monkeypatch):
    """Run a command on a terminal, with a bar that draws at every call; return the lines it drew."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(progress, "EVERY", 0.0)
    monkeypatch.setattr(progress, "SHORT", 0.0)
    monkeypatch.setenv("COLUMNS", "80")
    assert main(words) == 0
    return drawn(stream)


def drawn(stream):
    return stream.getvalue().split("\r\x1b[2K")[1:]


def clocked(monkeypatch, *seconds):
    """A bar on a terminal, made at second 0 and then called at `seconds`."""
    clock = iter([0.0, *seconds])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock) + 100)
    monkeypatch.setenv("COLUMNS", "200")
    return progress.Bar(Terminal())


def test_the_bar_names_model_refit_pass_and_elapsed_time_while_resolving(folder, monkeypatch):
    words = ["resolve", "a.npy", "b.npy", "--restarts", "1", "--stability", "2", "--workers", "1"]
    lines = watched(words, monkeypatch)
    counting = [re.fullmatch(r"[|/\\-] (.+), pass (\d+), elapsed \d+ s", line) for line in lines]
    works = list(dict.fromkeys(found[1] for found in counting if found))
    of_each = ["{}: resolving", "{}: refit 1 of 2", "{}: refit 2 of 2"]
    assert [w for w in works if w != "moments" and "other half" not in w] == [
        text.format(name) for name in "ab" for text in of_each
    ]
    for work in of_each:
        numbers = [int(found[2]) for found in counting if found and found[1] == work.format("b")]
        assert numbers == sorted(numbers)
        assert numbers[-1] > 3
    assert max(map(len, lines)) < 80
    assert lines[-1] == ""  # a clean line is left behind


def test_the_bar_shows_rows_and_time_left_while_transforming(basis, monkeypatch):
    np.save("many.npy", np.tile(np.load("a.npy"), (10, 1)))
    lines = watched(["transform", basis, "many.npy", "-o", "z.npy", "--blocks", "100"], monkeypatch)
    assert lines[0].startswith("many: transforming   [")
    assert " s left  " in lines[0]
    assert lines[-2].endswith("15,000/15,000")
    assert lines[-1] == ""
    assert np.load("z.npy").shape == (15_000, 3)


def test_the_bar_is_silent_when_quiet(folder, monkeypatch):
    assert watched(["resolve", "a.npy", *QUICK, "--quiet"], monkeypatch) == []


def test_a_bar_shows_rows_of_one_long_pass_and_counts_many(monkeypatch):
    bar = clocked(monkeypatch, 0.0, 10.0, 20.0, 30.0, 36.0, 40.0)
    name = "a-name-that-is-much-too-long"
    bar(Stage("reading"), 0, 1000)
    bar(Stage("reading"), 500, 1000)
    bar(Stage("resolving", name, 1), 500, 1000)
    bar(Stage("refit 2 of 6", name, 3), 100, 1000)
    bar(Stage("refit 2 of 6", name, 3), 430, 1000)
    bar(Stage("refit 2 of 6", name, 4), 1000, 1000)
    assert drawn(bar.stream) == [
        "reading              [########........] 10 s left  500/1,000",
        "/ a-name-that…ch-too-long: resolving, pass 1, elapsed 20 s",
        "- a-name-that…ch-too-long: refit 2 of 6, pass 3, elapsed 30 s",
        "\\ a-name-that…ch-too-long: refit 2 of 6, pass 3 (43%), elapsed 36 s",
        "| a-name-that…ch-too-long: refit 2 of 6, pass 4, elapsed 40 s",
    ]


def test_a_bar_tells_the_time_left_of_passes_that_converge(monkeypatch):
    bar = clocked(monkeypatch, 0.0, 7.0, 8.0)
    bar(Stage("resolving", "a", 1), 0, 1000)
    bar(Stage("resolving", "a", 4, about=11), 500, 1000)
    bar(Stage("resolving", "a", 5, about=4), 0, 1000)  # the end is near, but not known
    assert [line.split(", ", 1)[1] for line in drawn(bar.stream)[1:]] == [
        "pass 4 of about 11, 15 s left",
        "pass 5, elapsed 8 s",
    ]


def test_a_bar_does_not_jump_to_short_passes_or_back_to_a_stage_that_is_over(monkeypatch):
    bar = clocked(monkeypatch, 1.0, 2.0, 2.2, 3.0, 4.0, 4.3, 5.0)
    bar(Stage("resolving", "a", 9), 1, 10)
    bar(Stage("moments"), 1, 10)
    bar(Stage("moments"), 9, 10)
    bar(Stage("refit 1 of 2", "a", 1), 1, 10)
    bar(Stage("resolving", "a", 9), 1, 10)  # a sample for the pictures
    bar(Stage("resolving", "a", 9), 4, 10)
    bar(Stage("resolving", "a", 9), 5, 10)
    assert drawn(bar.stream) == [
        "/ a: resolving, pass 9, elapsed 1 s",
        "- a: refit 1 of 2, pass 1, elapsed 3 s",
        "a: resolving         [########........] 1 s left  5/10",
    ]


def test_a_bar_counts_passes_of_a_stage_that_comes_again_and_again(monkeypatch):
    bar = clocked(monkeypatch, 0.0, 0.2, 0.4, 0.8)
    for done in (5, 1, 9, 2):
        bar(Stage("reading"), done, 10)
    assert drawn(bar.stream) == ["/ reading, pass 3, elapsed 1 s"]


def test_a_checkpoint_says_what_was_reused_and_that_it_can_go(folder, capsys):
    words = ("resolve", "a.npy", "--checkpoint", "kept", "--stability", "0")
    said = [run(*words, capsys=capsys)[2] for _ in range(2)]
    assert ["reused" in err for err in said] == [False, True]
    assert all("kept: " in err and "deleted" in err for err in said)
    assert run(*words, "--quiet", capsys=capsys)[1:] == ("", "")
