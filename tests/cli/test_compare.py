"""The command line: what it prints, writes and returns, and every way to use it wrongly."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import children
from children import interrupted, needs_proc, reads
from commands import check_gates, one_line, refused, run, says
from identifiable.api import compare, load
from identifiable.io.opening import column_names
from identifiable.results import without_time
from laws import rows

QUICK = ["--neighbours", "5", "--null-draws", "3"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Two runs of one model, in every format."""
    tmp_path = tmp_path_factory.mktemp("source")
    X = rows(0, n=300, d=4)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    Y = X @ turn + 0.2 * np.random.default_rng(2).standard_normal(X.shape)
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", Y)
    np.savez(tmp_path / "runs.npz", one=X, two=Y)
    save_file({"layer.6": X, "layer.7": Y}, tmp_path / "model.safetensors")
    names = [f"s{i:03d}" for i in range(300)]
    for file, table in (("a.csv", X), ("b.csv", Y[::-1])):
        order = names if file == "a.csv" else names[::-1]
        lines = [",".join(["id", *(f"f{j}" for j in range(4))])]
        lines += [",".join([name, *map(repr, row)]) for name, row in zip(order, table.tolist(), strict=True)]
        (tmp_path / file).write_text("\n".join(lines) + "\n")
    plates = ["id,plate"] + [f"{name},p{i % 30}" for i, name in enumerate(names)]
    (tmp_path / "labels.csv").write_text("\n".join(plates[:1] + plates[:0:-1]) + "\n")
    return tmp_path


@pytest.fixture
def folder(source, tmp_path, monkeypatch):
    shutil.copytree(source, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_compare_prints_a_table_and_exits_0(folder, capsys):
    code, out, err = run("compare", "a.npy", "b.npy", *QUICK, capsys=capsys)
    assert (code, err) == (0, "")
    assert "rigid" in out
    assert "paired_by_position" in out


def test_command_line_and_python_give_the_same_result(folder, capsys):
    run("compare", "a.npy", "b.npy", *QUICK, "--seed", "7", "--json", "r.json", capsys=capsys)
    expected = compare("a.npy", "b.npy", neighbours=5, null_draws=3, seed=7)
    found, expected = (json.loads(without_time(r).to_json()) for r in (load("r.json"), expected))
    command = shlex.split(found["provenance"].pop("command"))
    assert command == ["identifiable", "compare", "a.npy", "b.npy", *QUICK, "--seed", "7"]
    expected["provenance"].pop("command")
    assert found == expected


@pytest.mark.parametrize(
    "words",
    [
        ("runs.npz:one", "runs.npz:two"),
        ("model.safetensors:layer.6", "model.safetensors:layer.7"),
        ("a.csv", "b.csv"),
        ("a.csv:f*", "b.csv:f*"),
    ],
)
def test_every_format_gives_the_figures_of_the_arrays(folder, capsys, words):
    arrays = compare("a.npy", "b.npy", intervals=False, nulls=())
    files = compare(*words, intervals=False, nulls=())
    for a, b in zip(arrays.rungs, files.rungs, strict=True):
        assert a.in_sample.mean == pytest.approx(b.in_sample.mean, rel=1e-9)
    if words[0].startswith("a.csv"):
        assert "paired_by_position" not in {a.code for a in files.alerts}
    else:
        assert files.inputs[0].sha256 == arrays.inputs[0].sha256


def test_blocks_and_workers_change_nothing_in_the_json(folder, capsys):
    texts = []
    for extra in ([], ["--blocks", "100"], ["--workers", "1"], ["--blocks", "7", "--workers", "3", "--quiet"]):
        run("compare", "a.npy", "b.npy", *QUICK, *extra, "--json", "r.json", capsys=capsys)
        texts.append(without_time(load("r.json")).to_json())
    assert len(set(texts)) == 1


def test_group_by_is_joined_by_id_and_recorded(folder, capsys):
    code, _, _ = run(
        "compare", "a.csv", "b.csv", "--group-by", "labels.csv:plate", *QUICK, "--json", "r.json", capsys=capsys
    )
    assert code == 0
    result = load("r.json")
    assert result.settings["group_by"] == "labels.csv:plate"
    names = np.array([f"p{i % 30}" for i in range(300)])
    expected = compare("a.csv", "b.csv", group_by=names, neighbours=5, null_draws=3)
    assert result.rungs[1].held_out == expected.rungs[1].held_out


def test_labels_may_be_a_column_of_the_first_table(folder, capsys):
    lines = Path("a.csv").read_text().splitlines()
    plates = ["plate", *(f"p{i % 30}" for i in range(300))]
    Path("a.csv").write_text("\n".join(map(",".join, zip(lines, plates, strict=True))) + "\n")
    words = ["compare", "a.csv:f*", "b.csv", *QUICK, "--json", "r.json", "--quiet"]
    for option, setting in (("--labels", "labels"), ("--group-by", "group_by")):
        assert run(*words, option, "plate", capsys=capsys)[0] == 0
        own = load("r.json")
        assert own.settings[setting] == "plate"
        assert run(*words, option, "labels.csv:plate", capsys=capsys)[0] == 0
        assert own.pairs == load("r.json").pairs
    err = refused(*words, "--labels", "plte", code=3, capsys=capsys)
    assert says(err, "'plte'", "FILE:COLUMN", "plate")


def test_one_sidecar_for_all_tables_says_that_it_pairs_by_position(folder, capsys):
    Path("ids.txt").write_text("\n".join(f"s{i}" for i in range(300)) + "\n")
    result = compare("a.npy", "b.npy", ids="ids.txt", intervals=False, nulls=())
    assert {a.code for a in result.alerts} >= {"one_ids_file"}


def test_a_sidecar_for_each_table_joins_rows_in_any_order(folder, capsys):
    order = np.random.default_rng(3).permutation(300)
    np.save("shuffled.npy", np.load("b.npy")[order])
    Path("ids.txt").write_text("\n".join(f"s{i}" for i in range(300)) + "\n")
    Path("shuffled.txt").write_text("\n".join(f"s{i}" for i in order) + "\n")
    quick = ["--no-intervals", "--nulls", "none", "--groups", "rigid", "--quiet", "--json", "r.json"]
    assert (
        run("compare", "a.npy", "shuffled.npy", "--ids", "ids.txt", "--ids", "shuffled.txt", *quick, capsys=capsys)[0]
        == 0
    )
    joined = load("r.json")
    plain = compare("a.npy", "b.npy", groups=["rigid"], intervals=False, nulls=())
    assert joined.rungs[0].in_sample.mean == pytest.approx(plain.rungs[0].in_sample.mean, rel=1e-9)
    assert not {"one_ids_file", "paired_by_position"} & {a.code for a in joined.alerts}
    assert joined.provenance.command.count("--ids") == 2
    assert joined.pairs[0].verdict.text == joined.headline
    code, _, err = run("compare", "a.npy", "b.npy", "b.npy", "--ids", "x", "--ids", "y", capsys=capsys)
    assert (code, says(err, "ids:", "3 tables", "got 2")) == (2, True)


def test_files_of_one_name_are_told_apart_by_their_folder(folder, capsys):
    for name in ("x", "y"):
        Path(name).mkdir()
        np.save(Path(name) / "run.npy", rows(0))
    assert [i.name for i in compare("x/run.npy", "y/run.npy", intervals=False, nulls=()).inputs] == ["x/run", "y/run"]
    assert [i.name for i in compare("runs.npz:one", "runs.npz:two", intervals=False, nulls=()).inputs] == ["one", "two"]


# -- the gate


def test_fail_if_decides_the_exit_code(folder, capsys):
    check_gates(
        ["compare", "a.npy", "b.npy", *QUICK],
        holds=(
            "rigid.held_out.q95 > 0.2; similarity.cka < 0.9; similarity.null.shuffle.p > 0.9; scale.rms == 0; "
            "shared.strong < 1; pairs.0.rungs.held_out.q95 > 1e3; settings.folds != 5"
        ),
        fails=(
            "rigid.held_out.q95 > 0.001; similarity.held_out.mean < 9; n < 1000; rigid.held_out.ci95.1 >= 0; "
            "spectra.effective_rank < 1e3"
        ),
        undecided="similarity.svcca.16 < 2; rigid.null.rotation.p < 1",
        capsys=capsys,
    )


def test_fail_if_reads_words_and_null_as_none(folder, capsys):
    np.save("c.npy", rows(9, n=300, d=4))
    check_gates(
        ["compare", "a.npy", "b.npy", *QUICK, "--epsilon", "0.01"],
        holds=(
            "verdict.degree == none; verdict.degree != NEARLY; verdict.group == none; form.group != similarity; "
            "form.scale_state == other; rigid.group == linear; settings.protocol != default"
        ),
        fails=(
            "verdict.degree == nearly; verdict.degree != none; verdict.group == rigid; verdict.group != 'linear'; "
            "verdict.below_epsilon == none; form.group == similarity; inputs.name == a"
        ),
        undecided="settings.folds == paper",
        capsys=capsys,
    )
    _, _, err = run("compare", "a.npy", "b.npy", "--fail-if", "verdict.degree == same", capsys=capsys)
    assert (err.count("none"), err.count("nearly")) == (1, 1)
    code, _, err = run(
        "compare", "a.npy", "b.npy", "c.npy", *QUICK, "--fail-if", "verdict.degree == none", capsys=capsys
    )
    assert (code, err.count("failed:"), "a -> b" in err) == (1, 4, False)  # any ordered pair, not the weakest only


def test_one_of_several_conditions_is_enough_to_fail_and_outputs_are_still_written(folder, capsys):
    code, _, err = run(
        "compare", "a.npy", "b.npy", *QUICK, "--json", "r.json", "--report", "p.html",
        "--fail-if", "rigid.held_out.mean > 9", "--fail-if", "rigid.held_out.mean < 9", capsys=capsys,
    )  # fmt: skip
    assert code == 1
    assert err.count("failed:") == 2  # both directions
    assert Path("r.json").exists()
    assert Path("p.html").exists()


# -- bad input: one helpful line, the right code, nothing half-written


def write_bad_files():
    X = rows(0, n=300, d=4)
    bad = X.copy()
    bad[[5, 9], 0] = np.nan, np.inf
    np.save("nan.npy", bad)
    np.save("short.npy", X[1:])
    np.save("cube.npy", X.reshape(300, 2, 2))
    np.save("norows.npy", np.empty((0, 4)))
    np.save("same.npy", np.full((300, 4), 0.3))
    np.save("object.npy", np.array([[{}] * 4] * 300, dtype=object), allow_pickle=True)
    Path("cut.npy").write_bytes(Path("a.npy").read_bytes()[:500])
    Path("noise.npy").write_bytes(bytes(range(256)))
    Path("cut.safetensors").write_bytes(Path("model.safetensors").read_bytes()[:300])
    Path("twice.csv").write_text("id,f0\n" + "s1,1\n" * 300)
    Path("words.csv").write_text("f0,f1\n" + "1,hello\n" * 300)
    Path("model.bin").write_bytes(b"x")


BAD = {
    "nan.npy": ("2 NaN", "in 2 rows", "5, 9"),
    "short.npy": ("short: 299", "b: 300"),
    "cube.npy": ("3-D", "(300, 2, 2)"),
    "norows.npy": ("no rows",),
    "same.npy": ("every row",),
    "object.npy": ("Python objects",),
    "cut.npy": ("cut.npy",),
    "noise.npy": ("noise.npy",),
    "cut.safetensors": ("cut.safetensors",),
    "twice.csv": ("more than once", "s1"),
    "words.csv": ("hello",),
    "model.bin": (".npy",),
    "runs.npz": ("one",),
    "model.safetensors:layer.8": ("layer.8",),
    "a.csv": ("sample ids",),
}


def test_ids_none_pairs_by_position(folder, capsys):
    assert "--ids none" in refused("compare", "a.csv", "b.npy", code=3, capsys=capsys)

    def r2(*words):
        assert run("compare", *words, *QUICK, "--quiet", "--json", "r.json", capsys=capsys)[0] == 0
        return load("r.json").pairs[0].rung("linear").r2.value

    assert r2("a.csv", "b.npy", "--ids", "none") == pytest.approx(r2("a.npy", "b.npy"))
    assert r2("a.csv", "b.csv") > 0.9
    assert r2("a.csv", "b.csv", "--ids", "none") < 0.1  # b.csv has its rows in another order


@pytest.mark.parametrize("name", BAD)
def test_bad_data_is_one_line_exit_3_and_no_output(folder, capsys, name):
    write_bad_files()
    Path("old.json").write_text("kept")
    code, out, err = run("compare", name, "b.npy", *QUICK, "--json", "old.json", "--report", "page.html", capsys=capsys)
    assert code == 3
    assert out == ""
    assert one_line(err)
    assert says(err, *BAD[name])
    assert Path("old.json").read_text() == "kept"
    assert not list(Path().glob("*.html"))
    assert not list(Path().glob(".*"))


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["compare", "a.npy"], ("two", "1")),
        (["compare", "a.npy", "b.npy", "--groups", "affine"], ("--groups 'affine'", "signed_permutation, rigid")),
        (["compare", "a.npy", "b.npy", "--groups", "none"], ("--groups:",)),
        (["compare", "a.npy", "b.npy", "--folds", "one"], ("--folds 'one'",)),
        (["compare", "a.npy", "b.npy", "--group", "rigid"], ("--group rigid", "identifiable compare --help")),
        (["deconfound", "audit", "a.npy", "--such", "1"], ("--such 1", "deconfound audit --help")),
        (["compare", "a.csv", "b.csv", "--group-by", "labels.csv:plate", "--folds", "31"], ("30 groups", "31 folds")),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(folder, capsys, words, parts):
    code, out, err = run(*words, capsys=capsys)
    assert (code, out) == (2, "")
    assert one_line(err)
    assert says(err, *parts)


def test_labels_that_do_not_match_the_rows_are_refused(folder, capsys):
    Path("few.csv").write_text("id,plate\ns000,p1\n")
    code, _, err = run("compare", "a.csv", "b.csv", "--group-by", "few.csv:plate", capsys=capsys)
    assert code == 3
    assert says(err, "299 of 300", "s001")
    code, _, err = run("compare", "a.npy", "b.npy", "--group-by", "few.csv:plate", capsys=capsys)
    assert code == 3
    assert says(err, "300 rows", "got 1")


# -- report and demo


def test_report_writes_to_stdout_and_as_markdown(folder, capsys):
    run("compare", "a.npy", "b.npy", *QUICK, "--json", "r.json", "--report", "p.html", capsys=capsys)
    assert run("report", "r.json", "-o", "-", capsys=capsys)[1] == Path("p.html").read_text()
    assert run("report", "r.json", "-o", "page.md", capsys=capsys)[0] == 0
    assert Path("page.md").read_text().startswith("#")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not JSON"),
        ("[1, 2]", "got None"),
        ('{"schema": "identifiable/resolve/9"}', "got 'identifiable/resolve/9'"),
        ('{"schema": "identifiable/compare/1"}', "identifiable/compare/1"),
        ('{"schema": "identifiable/compare/1", "inputs": 5}', "identifiable/compare/1"),
        ("1e308 for a figure", "1e+308"),
    ],
)
def test_a_file_that_is_no_result_is_refused(folder, capsys, content, message):
    if content.startswith("1e308"):
        data = json.loads(compare("a.npy", "b.npy", intervals=False, nulls=()).to_json())
        data["pairs"][0]["scale"]["rms"] = 1e308
        content = json.dumps(data)
    Path("r.json").write_text(content)
    code, _, err = run("report", "r.json", "-o", "p.html", capsys=capsys)
    assert code == 3
    assert one_line(err)
    assert message in err
    assert not Path("p.html").exists()


def test_demo_writes_a_page_and_ends_with_its_path(folder, capsys):
    code, out, _ = run("demo", capsys=capsys)
    assert code == 0
    page = Path(out.splitlines()[-1].removeprefix("page: "))
    assert page == folder / "identifiable-demo.html"
    assert 10_000 < page.stat().st_size < 3_000_000


# -- as a process


def test_a_closed_pipe_is_not_an_error_and_does_not_lose_the_gate(folder):
    gate = "--fail-if 'rigid.held_out.q95 > 0'"
    line = f"{sys.executable} -m identifiable compare a.npy b.npy --no-intervals --nulls none {gate} | true; exit ${{PIPESTATUS[0]}}"
    done = children.run(["bash", "-c", line])
    assert done.returncode == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("stdout", ["ascii", "closed"])
def test_a_plain_or_closed_stdout_is_not_an_error(folder, stdout):
    words = f"{sys.executable} -m identifiable compare a.npy b.npy --no-intervals --nulls none --json r.json"
    line = f"PYTHONIOENCODING=ascii {words}" if stdout == "ascii" else f"{words} >&-"
    done = children.run(["bash", "-c", line])
    assert (done.returncode, done.stderr) == (0, "")
    assert load("r.json").inputs[0].name == "a"


def test_a_closed_stderr_is_not_an_error(folder, monkeypatch, capsys):
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", None)
        code, out, _ = run("compare", "a.npy", "b.npy", *QUICK, capsys=capsys)
        assert (code, "rigid" in out) == (0, True)
        patched.setattr(sys, "stderr", None)
        assert run("compare", "a.npy", "nowhere.npy", capsys=capsys)[0] == 3


def test_a_folder_that_is_gone_is_one_line(folder, monkeypatch, capsys):
    (folder / "gone").mkdir()
    monkeypatch.chdir(folder / "gone")
    (folder / "gone").rmdir()
    code, _, err = run("compare", str(folder / "a.npy"), str(folder / "b.npy"), *QUICK, capsys=capsys)
    assert (code, one_line(err)) == (3, True)


@pytest.mark.parametrize("rows_out", ["rows.csv", "rows.parquet"])
def test_names_that_are_not_utf_8_are_spelled_out(folder, rows_out, capsys):
    if rows_out.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    name = os.fsdecode(b"\xff\xfe.npy")
    shutil.copy("a.npy", name)
    code, out, _ = run("compare", name, "b.npy", *QUICK, "--json", "r.json", "--rows-out", rows_out, capsys=capsys)
    assert code == 0
    assert r"\udcff\udcfe" in out
    assert [each.name for each in load("r.json").inputs] == [r"\udcff\udcfe", "b"]
    assert any(r"\udcff\udcfe" in column for column in column_names(rows_out))


@needs_proc
def test_interrupt_leaves_the_old_output_whole(folder):
    np.save("big.npy", np.random.default_rng(0).standard_normal((200_000, 64)))
    Path("r.json").write_text("kept")
    code, err = interrupted(["compare", "big.npy", "big.npy", "--json", "r.json"], reads("big.npy"))
    assert code == 130
    assert "Traceback" not in err
    assert "no result" in err
    assert Path("r.json").read_text() == "kept"
    assert sorted(p.name for p in Path().glob(".*")) == []


@pytest.mark.parametrize(("path", "example"), [("map.txt", "map.safetensors"), ("map", "map.safetensors")])
def test_a_name_with_another_ending_is_refused_with_one_that_is_taken(path, example, tmp_path, capsys):
    code, out, said = run("align", "a.npy", "b.npy", "-o", str(tmp_path / path), capsys=capsys)
    assert (code, out, one_line(said)) == (2, "", True)
    assert said.count(str(tmp_path)) == 2
    assert example in said
    assert not (tmp_path / path).exists()
