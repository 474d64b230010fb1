"""`identifiable disentangle` on the command line and in Python: what it prints, writes, returns and refuses."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from identifiable import Blocks, Representation, disentangle
from identifiable._checks import DataError, PairingError, UsageError
from identifiable.api import load
from identifiable.cli import main
from identifiable.disentanglement import METRICS, MODES, PROFILES
from identifiable.results import Disentanglement, without_time

SEED = 20261116
N = 240
SHAPES = np.array(["ball", "cone", "cube"])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three factors, each in a latent of its own in another order, and a latent that hardly varies."""
    rng = np.random.default_rng(SEED)
    shape, x, hue = rng.integers(0, 3, N), rng.integers(0, 4, N), rng.uniform(0, 1, N)
    noise = 0.05 * rng.standard_normal((N, 4))
    np.save(tmp_path / "codes.npy", np.column_stack([x, hue * 4, shape, np.zeros(N)]) + noise * [1, 1, 1, 0.01])
    np.save(tmp_path / "whole.npy", np.column_stack([x, shape, rng.integers(0, 3, N)]))
    lines = [f"{SHAPES[s]},{h:.6f},{v}" for s, h, v in zip(shape, hue, x, strict=True)]
    (tmp_path / "factors.csv").write_text("shape,hue,x\n" + "\n".join(lines) + "\n")
    (tmp_path / "short.csv").write_text("shape,hue,x\n" + "\n".join(lines[:100]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words, capsys):
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def one_line(err):
    return len(err.splitlines()) == 1 and err.startswith("identifiable: ")


CALL = ["disentangle", "codes.npy", "factors.csv"]
QUICK = [*CALL, "--metrics", "infomec,mig", "--quiet"]


def test_the_help_names_everything_and_its_example_runs_and_writes_its_page(folder, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["disentangle", "--help"])
    told = capsys.readouterr().out
    words = " ".join(told.split())
    assert all(name in re.split(r"[ ,;()]+", words) for name in (*METRICS, *PROFILES, *MODES))
    (example,) = re.findall(r"example:\n  identifiable (.*)", told)
    code, out, _ = run(*shlex.split(example), capsys=capsys)
    assert code == 0
    assert "4 latents (continuous, 3 active), 3 factors (2 discrete and 1 continuous)" in out
    assert "paired_by_position" in out
    assert out.endswith("page: disentangled.html\n")
    assert Path("disentangled.html").stat().st_size > 10_000


def test_it_finds_which_latent_tells_of_which_factor(folder, capsys):
    assert run(*QUICK, "--json", "r.json", capsys=capsys)[:2] == (0, "")
    found = load("r.json")
    assert isinstance(found, Disentanglement)
    nmi = np.array(found.metrics["infomec"].matrix.values)
    assert [f.name for f in found.factors] == ["shape", "hue", "x"]
    assert nmi[:, :3].argmax(axis=1).tolist() == [2, 1, 0]
    assert found.metrics["infomec"].infom > 0.8
    shuffled = np.random.default_rng(0).permutation(N)
    np.save("codes.npy", np.load("codes.npy")[shuffled])
    assert run(*QUICK, "--json", "r.json", capsys=capsys)[0] == 0
    assert max(map(max, load("r.json").metrics["infomec"].matrix.values)) < 0.2


def test_command_line_and_python_give_the_same_result(folder, capsys):
    words = [*QUICK, "--resolve", "--noise-sweep", "--null", "2", "--bootstrap", "3", "--seed", "5", "--json", "r.json"]
    assert run(*words, "--workers", "2", capsys=capsys)[:2] == (0, "")
    found = load("r.json")
    assert found.provenance.command == (
        "identifiable disentangle codes.npy factors.csv --metrics infomec,mig --resolve centred --null 2 --bootstrap 3 "
        "--seed 5 --noise-sweep"
    )
    expected = disentangle(
        "codes.npy",
        Path("factors.csv"),
        metrics=["infomec", "mig"],
        resolve=["centred"],
        noise_sweep=True,
        null=2,
        bootstrap=3,
        seed=5,
        workers=1,
        provenance=found.provenance,
    )
    assert found.to_json() == expected.to_json()
    assert [a.mode for a in found.after] == ["centred"]
    assert len(found.sweep) == 4
    assert run(*QUICK, "--json", "r.json", capsys=capsys)[0] == 0
    assert without_time(load("r.json")).to_json() != without_time(found).to_json()
    assert load("r.json").provenance.command == "identifiable disentangle codes.npy factors.csv --metrics infomec,mig"


def test_json_on_stdout_is_json_and_report_redraws_the_page_byte_for_byte(folder, capsys):
    code, out, err = run(*QUICK, "--json", "-", capsys=capsys)
    assert (code, err) == (0, "")
    assert json.loads(out)["schema"] == "identifiable/disentangle/1"
    assert run(*QUICK, "--resolve", "centred,whitened", "--json", "r.json", "--report", "p.html", capsys=capsys)[0] == 0
    assert run("report", "r.json", "-o", "again.html", capsys=capsys)[:2] == (0, "again.html\n")
    assert Path("p.html").read_bytes() == Path("again.html").read_bytes()


def test_both_inputs_have_their_hashes_whatever_the_container(folder):
    from_files = disentangle("codes.npy", "factors.csv:hue,x", metrics=["mig"])
    codes, factors = np.load("codes.npy"), np.genfromtxt("factors.csv", delimiter=",", skip_header=1)[:, 1:]
    arrays = disentangle(codes, factors, metrics=["mig"], factor_names=["hue", "x"], kinds=["continuous", "discrete"])
    assert [(i.name, i.n, i.d) for i in from_files.inputs] == [("codes", N, 4), ("factors:hue,x", N, 2)]
    assert [(i.name, i.dtype) for i in arrays.inputs] == [("latents", "float64"), ("factors", "float64")]
    assert [i.sha256 for i in from_files.inputs] == [i.sha256 for i in arrays.inputs]
    assert from_files.metrics["mig"].scores == arrays.metrics["mig"].scores
    words = disentangle("codes.npy", "factors.csv", metrics=["mig"]).inputs[1]
    other = Path("factors.csv").read_text().replace("ball", "bell")
    Path("other.csv").write_text(other)
    assert words.sha256 != disentangle("codes.npy", "other.csv", metrics=["mig"]).inputs[1].sha256
    assert words.dtype == "text"


def test_arrays_lists_of_columns_representations_blocks_and_dask_give_the_same(folder):
    codes = np.load("codes.npy")
    shape = np.genfromtxt("factors.csv", delimiter=",", skip_header=1, usecols=0, dtype=str)
    x = np.genfromtxt("factors.csv", delimiter=",", skip_header=1, usecols=2, dtype=int)
    expected = disentangle("codes.npy", "factors.csv:shape,x", metrics=["mig"]).metrics["mig"].scores
    mixed = np.array(list(zip(shape.tolist(), x.tolist(), strict=True)), dtype=object)
    for given in ([shape, x], mixed):
        assert disentangle(codes, given, metrics=["mig"]).metrics["mig"].scores == expected
    expected = disentangle("codes.npy", "factors.csv:x", metrics=["mig"]).metrics["mig"].scores
    table = x[:, None]
    da = pytest.importorskip("dask.array")
    for latents, factors in (
        (codes, x),
        (Representation(codes, name="run"), Representation(table)),
        (Blocks(codes), Blocks(table)),
        (da.from_array(codes, chunks=50), da.from_array(table, chunks=50)),
    ):
        found = disentangle(latents, factors, metrics=["mig"])
        assert found.metrics["mig"].scores == expected
        assert [i.name for i in found.inputs] == [
            "run" if isinstance(latents, Representation) else "latents",
            "factors",
        ]


def test_rows_are_joined_by_ids_and_what_is_dropped_is_told(folder):
    codes, order = np.load("codes.npy"), np.random.default_rng(1).permutation(N)
    plain = disentangle("codes.npy", "factors.csv", metrics=["mig"])
    np.savez("named.npz", codes=codes[order], ids=order)
    header, *lines = Path("factors.csv").read_text().splitlines()
    rows = [f"id,{header}", *(f"{i},{line}" for i, line in enumerate(lines))]
    Path("named.csv").write_text("\n".join(rows) + "\n")
    joined = disentangle("named.npz", "named.csv", metrics=["mig"])
    assert joined.metrics["mig"].mig == pytest.approx(plain.metrics["mig"].mig, abs=1e-12)
    assert [a.code for a in plain.alerts] == ["paired_by_position"]
    assert joined.alerts == ()
    Path("named.csv").write_text("\n".join(rows[:-10]) + "\n")
    fewer = disentangle("named.npz", "named.csv", metrics=["mig"])
    assert fewer.n == N - 10
    (alert,) = fewer.alerts
    assert alert.code == "rows_dropped"
    assert f"named 10; {N - 10} remain" in alert.message
    assert [i.name for i in fewer.inputs] == ["named", "named (factors)"]


def test_ids_of_one_side_alone_pair_by_position_and_say_so(folder):
    header, *lines = Path("factors.csv").read_text().splitlines()
    named = "\n".join([f"id,{header}", *(f"{i},{line}" for i, line in enumerate(lines))])
    Path("named.csv").write_text(named + "\n")
    (alert,) = disentangle("codes.npy", "named.csv", metrics=["mig"]).alerts
    assert alert.code == "paired_by_position"
    assert "Only named has sample ids, so there is no join" in alert.message


def test_headers_name_latents_and_whole_numbers_in_text_are_codes(folder):
    codes = np.load("codes.npy")[:, :2]
    Path("z.csv").write_text("pos,hue\n" + "".join(f"{a},{b}\n" for a, b in codes))
    found = disentangle("z.csv", "factors.csv", metrics=["mig"])
    assert (found.latents, found.latent_kind) == (("pos", "hue"), "continuous")
    whole = np.load("whole.npy")
    Path("z.csv").write_text("".join(f"{a},{b},{c}\n" for a, b, c in whole))
    found = disentangle("z.csv", "factors.csv", metrics=["mig"])
    assert (found.latents, found.latent_kind) == (("latent 1", "latent 2", "latent 3"), "discrete")
    assert disentangle("z.csv", "factors.csv", metrics=["mig"], discrete=False).latent_kind == "continuous"
    assert disentangle(whole.astype(float), "factors.csv", metrics=["mig"]).latent_kind == "continuous"


def test_kinds_and_discreteness_are_asked_for_by_flags_and_recorded(folder, capsys):
    words = ["disentangle", "whole.npy", "factors.csv", "--metrics", "mig", "--quiet", "--json", "r.json"]
    assert run(*words, capsys=capsys)[0] == 0
    assert load("r.json").latent_kind == "discrete"
    assert run(*words, "--continuous", "--kinds", "discrete,continuous,auto", capsys=capsys)[0] == 0
    found = load("r.json")
    assert found.latent_kind == "continuous"
    assert [f.kind for f in found.factors] == ["discrete", "continuous", "discrete"]
    assert found.provenance.command.endswith("--metrics mig --kinds discrete,continuous,auto --continuous")
    assert run(*words, "--discrete", "--factor-names", "a,b, c", capsys=capsys)[0] == 0
    assert [f.name for f in load("r.json").factors] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("infom < 0.2", 0),
        ("infom > 0.5", 1),
        ("infom_low < 0.2", 0),
        ("infom_high > 0.5", 1),
        ("infom_p > 0.9", 0),
        ("infoe_p < 0.6", 1),
        ("mig.mig < 0.1", 0),
        ("mig.mig > 0.1", 1),
        ("mig.mig_low > 0.99", 0),
        ("infomec.infoe > 0.1", 1),
        ("after.infom < 2", 1),
        ("after.mig.mig > 2", 0),
        ("after.whitened.infoc > 2", 0),
    ],
)
def test_fail_if_decides_the_exit_code(folder, capsys, condition, code):
    words = [*QUICK, "--bootstrap", "3", "--null", "1", "--resolve", "centred,whitened", "--fail-if", condition]
    found, out, err = run(*words, capsys=capsys)
    assert (found, out) == (code, "")
    assert (f"failed: codes{', centred ICA' if 'after' in condition else ''}: {condition}" in err) is bool(code)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("infom <", "expected FIELD OPERATOR NUMBER, for example 'infom < 0.6'"),
        ("sap.sap < 1", "sap was not measured; choose from infomec, mig, or add it to --metrics"),
        ("infom_low < 1", "infom_low was not measured: needs intervals; pass --bootstrap"),
        ("infom_p < 1", "infom_p was not measured: needs shuffled factors; pass --null"),
        ("after.infom < 1", "after.infom was not measured: needs scores after ICA; pass --resolve"),
        ("a.b.c < 1", "a.b.c names no score; write infom, or METRIC.SCORE as in mig.mig"),
        ("infox < 1", "no score 'infox' of infomec; choose from infom, infoe, infoc"),
        ("mig.gap < 1", "no score 'gap' of mig; choose from mig"),
    ],
)
def test_a_condition_that_cannot_be_read_is_one_line_and_leaves_no_output(folder, capsys, condition, message):
    code, out, err = run(*QUICK, "--fail-if", condition, "--json", "r.json", capsys=capsys)
    assert (code, out, one_line(err)) == (2, "", True), err
    assert message in err
    assert not Path("r.json").exists()


def test_a_gate_on_a_score_without_a_value_cannot_decide_and_leaves_no_output(folder, capsys):
    words = ["disentangle", "codes.npy", "factors.csv:x", "--metrics", "modularity", "--quiet", "--json", "r.json"]
    code, _, err = run(*words, "--fail-if", "modularity.modularity < 0.5", capsys=capsys)
    assert (code, one_line(err), "the gate cannot decide" in err) == (2, True, True)
    assert not Path("r.json").exists()
    assert run(*words, capsys=capsys)[0] == 0
    assert '"modularity": null' in Path("r.json").read_text()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["disentangle", "codes.npy"], 2, "Z FACTORS"),
        ([*CALL, "--metrics", "infomc"], 2, "--metrics 'infomc': expected a list of infomec, dci"),
        (
            [*CALL, "--profile", "hsu"],
            2,
            "--profile hsu: expected one of hsu-standalone, hsu-training, tripod, factorqvae",
        ),
        ([*CALL, "--resolve", "rotated"], 2, "--resolve 'rotated': expected a list of centred, literal, whitened"),
        ([*CALL, "--kinds", "ordinal"], 2, "--kinds 'ordinal': expected a list of auto, discrete, continuous"),
        ([*CALL, "--kinds", "auto,auto"], 2, "kinds: expected one for each of 3 factors, got 2"),
        ([*CALL, "--kinds", "continuous"], 3, "shape: expected numbers for a continuous factor"),
        ([*CALL, "--factor-names", "a,b"], 2, "factor_names: expected one for each of 3 factors, got 2"),
        ([*CALL, "--discrete", "--continuous"], 2, "not allowed with argument"),
        ([*CALL, "--null", "-1"], 2, "null -1: expected a whole number of at least 0"),
        ([*CALL, "--workers", "0"], 2, "--workers 0: expected a whole number of at least 1"),
        ([*CALL, "--report", "page.pdf"], 2, "a page is written as .html"),
        ([*CALL, "--report", "no/page.html"], 3, "there is no folder no"),
        ([*CALL, "--json", "factors.csv"], 3, "it is one of the inputs"),
        (["disentangle", "none.npy", "factors.csv"], 3, "none.npy: no such file"),
        (
            ["disentangle", "codes.npy", "factor.csv"],
            3,
            "factor.csv: no such file; did you mean factors.csv or short.csv?",
        ),
        (["disentangle", "codes.npy", "short.csv"], 3, "must be equally many, got codes: 240, short: 100"),
        (["disentangle", "factors.csv", "codes.npy"], 3, "factors.csv: line 2, column 'shape': 'ball' is not a number"),
        (["disentangle", "holes.npy", "factors.csv"], 3, "holes.npy: expected finite latents, got 1 NaN"),
        (["disentangle", "codes.npy", "holes.csv"], 3, "holes.csv: line 3, column 'hue': the cell is empty"),
        (["disentangle", "codes.npy", "same.csv"], 3, "none of shape varies"),
        (
            ["disentangle", "whole.npy", "factors.csv", "--metrics", "mig", "--resolve"],
            2,
            "expected continuous latents",
        ),
        (
            [*CALL, "--ids", "a", "--ids", "b", "--ids", "c"],
            2,
            "ids: expected one for both tables or one for each, got 3",
        ),
        ([*CALL, "--ids", "name"], 3, "codes.npy: ids 'name' are neither a column or key in it"),
    ],
)
def test_wrong_usage_and_bad_data_are_one_line_and_nothing_is_written(folder, capsys, words, code, message):
    holes = np.load("codes.npy")
    holes[7, 1] = np.nan
    np.save("holes.npy", holes)
    Path("holes.csv").write_text("shape,hue\nball,1\ncube,\n")
    Path("same.csv").write_text("shape\n" + "ball\n" * N)
    before = {p.name: p.read_bytes() for p in Path().iterdir()}
    outputs = [] if "--json" in words or "--report" in words else ["--json", "r.json", "--report", "p.html"]
    found, out, err = run(*words, *outputs, capsys=capsys)
    assert (found, out, one_line(err)) == (code, "", True), err
    assert message in err
    assert {p.name: p.read_bytes() for p in Path().iterdir()} == before


def test_python_refuses_what_the_command_line_cannot_say():
    rng = np.random.default_rng(SEED)
    Z, S = rng.standard_normal((50, 2)), rng.integers(0, 2, (50, 2))
    with pytest.raises(PairingError, match="must be equally many, got latents: 50, factors: 49"):
        disentangle(Z, S[:49])
    with pytest.raises(DataError, match=r"expected an array \(rows, factors\), got shape \(50, 2, 1\)"):
        disentangle(Z, S[:, :, None])
    with pytest.raises(DataError, match="expected columns of one length, got lengths 49, 50"):
        disentangle(Z, [S[:, 0], S[:49, 1]])
    with pytest.raises(UsageError, match="metrics mg: expected some of infomec"):
        disentangle(Z, S, metrics=["mg"])
    with pytest.raises(DataError, match="latents: expected finite latents"):
        disentangle(np.full((50, 2), np.inf), S)


def test_as_many_factors_as_rows_are_columns_all_the_same():
    square = np.array([[0, 1, 0], [1, 0, 0], [1, 1, 1]])
    found = disentangle(np.arange(6.0).reshape(3, 2) ** 2, square, metrics=["mcc"])
    assert len(found.factors) == 3
    assert found.n == 3
