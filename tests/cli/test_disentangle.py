"""`identifiable disentangle` on the command line and in Python: what it prints, writes, returns and refuses."""

from __future__ import annotations

import io
import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from builders import card_of, make_after, make_disentanglement, make_metric
from commands import check_gates, one_line, run
from errors import naming
from identifiable import Blocks, Representation, disentangle
from identifiable._checks import DataError, PairingError, UsageError
from identifiable.api import load
from identifiable.cli import main, output
from identifiable.cli.conditions import Condition
from identifiable.cli.progress import Lines
from identifiable.disentanglement import METRICS, MODES, PROFILES, scoring
from identifiable.options import DisentangleOptions
from identifiable.report.pages.disentanglement import SAID
from identifiable.results import Disentanglement, without_time
from identifiable.run import Stage

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


CALL = ["disentangle", "codes.npy", "factors.csv"]
QUICK = [*CALL, "--metrics", "infomec,mig", "--quiet"]


def test_the_help_names_everything_and_its_example_runs_and_writes_its_page(folder, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["disentangle", "--help"])
    told = capsys.readouterr().out
    words = " ".join(told.split())
    assert all(name in re.split(r"[ ,;:(){}]+", words) for name in (*METRICS, *PROFILES, *MODES))
    assert re.search(r"\sZ FACTORS\n", told.partition("options:")[0])
    assert "Z FACTORS Z" not in words
    assert "random splits" in words
    (example,) = re.findall(r"example:\n  identifiable (.*)", told)
    code, out, _ = run(*shlex.split(example), capsys=capsys)
    assert code == 0
    shown = " ".join(out.split())
    assert all(words in shown for words in ("latents 4", "3 active", "2 discrete", "1 continuous", "1 of words"))
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
    asked = ["--resolve", "centred", *words[len(QUICK) + 1 : -2]]
    assert shlex.split(found.provenance.command) == ["identifiable", *QUICK[:-1], *asked]
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
        command=found.provenance.command,
    )
    assert without_time(found).to_json() == without_time(expected).to_json()
    assert [a.mode for a in found.after] == ["centred"]
    assert len(found.sweep) == 4
    assert run(*QUICK, "--json", "r.json", capsys=capsys)[0] == 0
    assert without_time(load("r.json")).to_json() != without_time(found).to_json()
    assert shlex.split(load("r.json").provenance.command) == ["identifiable", *QUICK[:-1]]


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
    assert alert.values == {"dropped": {"named": 10}, "remain": N - 10}
    assert [i.name for i in fewer.inputs] == ["named", "named (factors)"]


def test_headers_name_latents_and_whole_numbers_in_text_are_codes(folder):
    codes = np.load("codes.npy")[:, :2]
    Path("z.csv").write_text("pos,hue\n" + "".join(f"{a},{b}\n" for a, b in codes))
    found = disentangle("z.csv", "factors.csv", metrics=["mig"])
    assert (found.latents, found.latent_kind) == (("pos", "hue"), "continuous")
    whole = np.load("whole.npy")
    Path("z.csv").write_text("".join(f"{a},{b},{c}\n" for a, b, c in whole))
    found = disentangle("z.csv", "factors.csv", metrics=["mig"])
    assert (found.latents, found.latent_kind) == (("latent 0", "latent 1", "latent 2"), "discrete")
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
    asked = ["--kinds", "discrete,continuous,auto", "--continuous", "--metrics", "mig"]
    assert shlex.split(found.provenance.command)[-5:] == asked
    assert run(*words, "--discrete", "--factor-names", "a,b, c", capsys=capsys)[0] == 0
    assert [f.name for f in load("r.json").factors] == ["a", "b", "c"]


def test_fail_if_decides_the_exit_code(folder, capsys):
    words = [*QUICK, "--bootstrap", "3", "--null", "1", "--resolve", "centred,whitened"]
    holds = "infom < 0.2; infom_low < 0.2; infom_p > 0.9; MIG < 0.1; mig_low > 0.99; after.whitened.infoc > 2"
    fails = "infom_high > 0.5; infoe_p < 0.6; mig.mig > 0.1; mig_p < 0.6; InfoM > 0.5; after.infom < 2"
    check_gates(words, holds=holds, fails=fails, capsys=capsys)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("sap.sap < 1", "--metrics"),
        ("infom_low < 1", "--bootstrap"),
        ("infom_p < 1", "--null"),
        ("after.infom < 1", "--resolve"),
        ("a.b.c < 1", "'a' in 'a.b.c'"),
        ("infox < 1", "infom, infoe"),
        ("mig.gap < 1", "no 'gap'"),
    ],
)
def test_a_condition_that_cannot_be_read_is_one_line_and_leaves_no_output(folder, capsys, condition, message):
    code, out, err = run(*QUICK, "--fail-if", condition, "--json", "r.json", capsys=capsys)
    assert (code, out, one_line(err)) == (2, "", True), err
    assert message in err
    assert not Path("r.json").exists()


def test_a_gate_on_shares_of_chance_cannot_decide_and_the_headline_says_so_first(folder, capsys):
    np.save("noise.npy", np.random.default_rng(SEED).standard_normal((N, 3)))
    words = ["disentangle", "noise.npy", "factors.csv", "--metrics", "infomec"]
    for condition in ("infom < 0.01", "infoc > 0.99", "metrics.infomec.scores.infom < 0.01"):
        code, out, err = run(*words, "--quiet", "--fail-if", condition, capsys=capsys)
        assert (code, out, one_line(err)) == (2, "", True), err
        assert "informative" in err
    assert run(*words, "--quiet", "--fail-if", "infoe > 0.9", capsys=capsys)[0] == 0
    shown = " ".join(run(*words, capsys=capsys)[1].split())
    assert "carries mainly" not in shown
    assert shown.index("largest NMI") < shown.index("InfoM 0.")
    assert disentangle("noise.npy", "factors.csv", metrics=["infomec"]).headline.startswith("No latent is informative")


def test_a_gate_on_a_score_that_is_0_by_definition_cannot_decide(folder, capsys):
    """With one factor that varies InfoM compares nothing, and with one latent InfoC does not."""
    factors = np.random.default_rng(SEED).integers(4, size=N)
    np.save("one.npy", np.column_stack([factors, np.ones(N, dtype=int)]))
    np.save("codes2.npy", np.random.default_rng(SEED).normal(np.column_stack([factors, factors[::-1]]), 0.1))
    np.save("codes1.npy", np.load("codes2.npy")[:, :1])
    np.save("two.npy", np.column_stack([factors, factors[::-1]]))
    for tables, score, other in (
        (("codes2.npy", "one.npy"), "infom", "infoc"),
        (("codes1.npy", "two.npy"), "infoc", "infom"),
    ):
        words = ["disentangle", *tables, "--metrics", "infomec", "--null", "19"]
        for condition in (f"{score} < 0.6", f"{score}_p > 0.05"):
            code, out, err = run(*words, "--quiet", "--fail-if", condition, capsys=capsys)
            assert (code, out, one_line(err), "cannot decide" in err) == (2, "", True, True), err
        assert run(*words, "--quiet", "--fail-if", f"{other} < 0", capsys=capsys)[0] == 0
        card = card_of(disentangle(*tables, metrics=["infomec"]))
        assert card.tone == "caution"
        assert not any(said in card.sentence for said in SAID[score])
    words = ["disentangle", "codes2.npy", "two.npy", "--metrics", "infomec", "--quiet", "--fail-if", "infom < 0.6"]
    assert run(*words, capsys=capsys)[0] == 0


def test_factors_with_words_in_place_of_latents_are_said_to_come_second(folder, capsys):
    np.save("z.npy", np.zeros((N, 2)))
    Path("words.csv").write_text("shape,size\n" + "circle,1\n" * N)
    code, out, err = run("disentangle", "words.csv", "z.npy", capsys=capsys)
    assert (code, out, one_line(err)) == (3, "", True), err
    assert all(part in err for part in ("words.csv", "circle", "second"))
    assert "--ids" not in err


def test_float_codes_and_whole_numbers_are_noticed_in_every_door(folder, capsys):
    """`discrete` is asked for only where the user does."""
    x = np.random.default_rng(SEED).integers(0, 4, (N, 2))
    np.save("floats.npy", x / 3)
    np.save("levels.npy", np.round(1000 * np.random.default_rng(0).uniform(size=(N, 2))).astype(np.int16))
    np.savetxt("levels.csv", np.load("levels.npy"), fmt="%d", delimiter=",", header="a,b", comments="")
    for table, expected in (("floats.npy", "few_values"), ("levels.npy", "taken_as_continuous")):
        assert expected in run("disentangle", table, "factors.csv", "--metrics", "mig", capsys=capsys)[1]
    found = [disentangle(table, x, metrics=["mig"]) for table in ("levels.npy", "levels.csv", "floats.npy")]
    assert [f.latent_kind for f in found] == ["continuous"] * 3
    codes = [{a.code for a in f.alerts} - {"paired_by_position"} for f in found]
    assert codes == [{"taken_as_continuous"}] * 2 + [{"few_values"}]
    assert "few_values" not in {a.code for a in disentangle("floats.npy", x, metrics=["mig"], discrete=False).alerts}


def gate(condition, result, **asked):
    measured = {"metrics": ("infomec", "dci", "mig", "mcc_spearman"), "resolve": ("centred", "whitened")}
    options = DisentangleOptions(**{**measured, "bootstrap": 100, "null": 100, **asked})
    return list(Condition.parse(condition, Disentanglement, "'infom < 0.6'", options).failures(result))


def test_a_gate_on_ica_that_did_not_converge_decides_only_if_its_mode_is_named():
    unsettled = make_disentanglement(after=(make_after(converged=False), make_after("whitened")))
    with pytest.raises(UsageError, match=r"centred ICA .*after.centred"):
        gate("after.infom < 0.6", unsettled)
    assert gate("after.centred.infom > 0.9", unsettled) != []
    assert gate("after.whitened.infom < 0.6", unsettled) == []
    assert gate("after.infom < 0.6", make_disentanglement()) == []


def test_a_metric_of_one_score_stands_for_it_and_one_of_several_says_which_there_are():
    result = make_disentanglement()
    result = replace(result, metrics={**result.metrics, "mcc_spearman": make_metric({"mcc": 0.8}, draws=True)})
    for name, value in (("mcc_spearman", "0.8"), ("mcc_spearman_low", "0.78")):
        (line,) = gate(f"{name} > 0.7", result)
        assert re.search(naming("codes: ", f"{name} > 0.7", f"{name} = {value})"), line)
    assert gate("MCC_Spearman_p > 0.5", result) == []
    with pytest.raises(UsageError, match=r"disentanglement, completeness"):
        gate("dci > 0.5", result)
    with pytest.raises(UsageError, match=r"mcc_spearman"):
        gate("mcc_spearman > 0.7", make_disentanglement())  # left out of the result


def test_a_gate_on_a_score_without_a_value_cannot_decide_and_leaves_no_output(folder, capsys):
    words = ["disentangle", "codes.npy", "factors.csv:x", "--metrics", "modularity", "--quiet", "--json", "r.json"]
    code, _, err = run(*words, "--fail-if", "modularity.modularity < 0.5", capsys=capsys)
    assert (code, one_line(err), "gate cannot decide" in err) == (2, True, True)
    assert not Path("r.json").exists()
    assert run(*words, capsys=capsys)[0] == 0
    assert '"modularity": null' in Path("r.json").read_text()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["disentangle", "codes.npy"], 2, "required: FACTORS"),
        ([*CALL, "--metrics", "infomc"], 2, "--metrics 'infomc': expected infomec,"),
        ([*CALL, "--kinds", "ordinal"], 2, "--kinds 'ordinal': expected auto,"),
        ([*CALL, "--kinds", "auto,auto"], 2, "of 3 factors, got 2"),
        ([*CALL, "--kinds", "continuous"], 3, "shape: expected numbers"),
        ([*CALL, "--kinds", "all"], 2, "--kinds 'all': "),
        ([*CALL, "--metrics", "none"], 2, "metrics none: "),
        ([*CALL, "--factor-names", "a,b"], 2, "of 3 factors, got 2"),
        ([*CALL, "--discrete", "--continuous"], 2, "--discrete"),
        (["disentangle", "codes.npy", "factor.csv"], 3, "factors.csv or short.csv"),
        (["disentangle", "codes.npy", "short.csv"], 3, "codes: 240, short: 100"),
        (["disentangle", "factors.csv", "codes.npy"], 3, "factors.csv: line 2, column 'shape': 'ball'"),
        (["disentangle", "holes.npy", "factors.csv"], 3, "holes.npy: row 7 (from 0): NaN"),
        (["disentangle", "holes.csv", "factors.csv"], 3, "holes.csv: line 3, column 'hue'"),
        (["disentangle", "codes.npy", "labels.csv"], 3, "labels.csv: line 3, column 'shape': 'NA'"),
        ([*CALL, "--metrics", "mig,UDR"], 2, "--metrics 'UDR': it compares"),
        ([*CALL, "--metrics", "sis"], 2, "identifiable.metrics.sis("),
        (["disentangle", "codes.npy", "gaps.csv"], 3, "gaps.csv: line 3, column 'hue'"),
        (["disentangle", "codes.npy", "same.csv"], 3, "shape varies"),
        (
            ["disentangle", "whole.npy", "factors.csv", "--metrics", "mig", "--resolve"],
            2,
            "expected continuous latents",
        ),
        ([*CALL, "--ids", "a", "--ids", "b", "--ids", "c"], 2, "got 3"),
        ([*CALL, "--ids", "name"], 3, "--ids once per"),
    ],
)
def test_wrong_usage_and_bad_data_are_one_line_and_nothing_is_written(folder, capsys, words, code, message):
    holes = np.load("codes.npy")
    holes[7, 1] = np.nan
    np.save("holes.npy", holes)
    Path("gaps.csv").write_text("shape,hue\nball,1\ncube,\n")
    Path("holes.csv").write_text("x,hue\n0.5,1\n0.7,\n")
    Path("labels.csv").write_text("shape\nball\nNA\nNone\n")
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
    with pytest.raises(PairingError, match=naming("latents: 50", "factors: 49")):
        disentangle(Z, S[:49])
    with pytest.raises(DataError, match=naming("got", (50, 2, 1))):
        disentangle(Z, S[:, :, None])
    with pytest.raises(DataError, match=naming("got", 49, 50)):
        disentangle(Z, [S[:, 0], S[:49, 1]])
    with pytest.raises(UsageError, match=naming("metrics 'mg': ", "infomec")):
        disentangle(Z, S, metrics=["mg"])
    with pytest.raises(UsageError, match=r"^metrics 'UDR': .*identifiable\.metrics\.udr\("):
        disentangle(Z, S, metrics="UDR")
    with pytest.raises(UsageError, match=r"^metrics: .* 3"):
        disentangle(Z, S, metrics=3)
    with pytest.raises(UsageError, match=r"^kinds 'ordinal': "):
        disentangle(Z, S, kinds=["discrete", "ordinal"])
    with pytest.raises(DataError, match="latents: expected finite"):
        disentangle(np.full((50, 2), np.inf), S)


# -- rows with missing values


def with_gaps(rows, *, shape="NA"):
    """The factors with a gap in these rows, in turn of a word and of a number."""
    header, *lines = Path("factors.csv").read_text().splitlines()
    for k, row in enumerate(rows):
        _, hue, x = lines[row].split(",")
        lines[row] = f"{shape},{hue},{x}" if k % 2 == 0 else f"ball,,{x}"
    return [header, *lines]


def test_rows_with_missing_values_are_dropped_on_both_sides_only_if_asked(folder, capsys):
    codes = np.load("codes.npy")
    np.save("holes.npy", np.where(np.arange(N)[:, None] == 7, np.nan, codes))
    Path("gaps.csv").write_text("\n".join(with_gaps([3, 9, 200])) + "\n")
    header, *lines = Path("factors.csv").read_text().splitlines()
    kept = [i for i in range(N) if i not in (3, 7, 9, 200)]
    Path("kept.csv").write_text("\n".join([header, *(lines[i] for i in kept)]) + "\n")
    expected = disentangle(codes[kept], "kept.csv", metrics=["infomec", "mig"])
    words = ["disentangle", "holes.npy", "gaps.csv", "--metrics", "infomec,mig", "--quiet", "--json", "r.json"]
    assert run(*words, capsys=capsys)[0] == 3
    assert run(*words, "--drop-missing", capsys=capsys)[:2] == (0, "")
    found = load("r.json")
    assert found.n == N - 4
    for key in ("infomec", "mig"):
        assert dict(found.metrics[key].scores) == pytest.approx(dict(expected.metrics[key].scores), abs=1e-9)
    (dropped,) = (a for a in found.alerts if a.code == "rows_dropped")
    assert dropped.values == {"gaps": {"holes": 1, "gaps": 3}, "remain": 236, "rows": 240}
    assert found.provenance.command.endswith("--drop-missing --metrics infomec,mig")
    assert found.settings["drop_missing"] is True
    whole = disentangle(codes, "factors.csv", metrics=["mig"], drop_missing=True)
    assert whole.n == N
    assert "rows_dropped" not in [a.code for a in whole.alerts]


def test_missing_rows_are_dropped_by_id_too_and_in_text_of_latents(folder):
    codes, order = np.load("codes.npy"), np.random.default_rng(1).permutation(N)
    cells = [[f"{value:.17g}" for value in codes[i]] for i in order]
    cells[0][2] = "N/A"
    Path("z.csv").write_text(
        "id,a,b,c,d\n" + "".join(f"{i},{','.join(row)}\n" for i, row in zip(order, cells, strict=True))
    )
    header, *lines = with_gaps([int(order[5])])
    Path("f.csv").write_text(f"id,{header}\n" + "".join(f"{i},{line}\n" for i, line in enumerate(lines)))
    found = disentangle("z.csv", "f.csv", metrics=["mig"], drop_missing=True)
    kept = np.setdiff1d(np.arange(N), order[[0, 5]])
    plain = disentangle("codes.npy", "factors.csv", metrics=["mig"])
    assert found.n == N - 2 == plain.n - 2
    (alert,) = found.alerts
    assert alert.values == {"gaps": {"z": 1, "f": 1}, "remain": 238, "rows": 240}
    shape = np.genfromtxt("factors.csv", delimiter=",", skip_header=1, usecols=0, dtype=str)
    rest = np.genfromtxt("factors.csv", delimiter=",", skip_header=1)[:, 1:]
    expected = disentangle(codes[kept], [shape[kept], rest[kept, 0], rest[kept, 1].astype(int)], metrics=["mig"])
    assert found.metrics["mig"].mig == pytest.approx(expected.metrics["mig"].mig, abs=1e-9)
    with pytest.raises(DataError, match=naming("z.csv: line 2", "'c'", "'N/A'", 1, 240)):
        disentangle("z.csv", "factors.csv", metrics=["mig"])


@pytest.mark.parametrize("gap", [None, float("nan"), "NaN"])
def test_missing_values_in_memory_are_no_class_of_their_own(gap):
    rng = np.random.default_rng(SEED)
    Z, words = rng.standard_normal((60, 2)), np.array([["red"], ["blue"]] * 30, dtype=object)
    words[4, 0] = gap
    with pytest.raises(DataError, match=naming("factors: row 4", "column 1", 1, 60)):
        disentangle(Z, words, metrics=["mig"])
    found = disentangle(Z, words, metrics=["mig"], drop_missing=True)
    assert (found.n, found.factors[0].classes) == (59, 2)
    words[:, 0] = gap
    with pytest.raises(DataError, match="the 60 rows"):
        disentangle(Z, words, metrics=["mig"], drop_missing=True)
    with pytest.raises(DataError, match="in 60 rows"):
        disentangle(Z * np.inf, np.arange(60) % 3, metrics=["mig"], drop_missing=True)


def test_dataframes_bring_their_names_and_are_joined_on_their_index():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(SEED)
    S = rng.integers(0, 3, (80, 2))
    frame = pd.DataFrame(S + 0.1 * rng.standard_normal((80, 2)), columns=["u", "v"])
    factors = pd.DataFrame({"shape": SHAPES[S[:, 0]], "size": S[:, 1]})
    plain = disentangle(frame, factors, metrics=["mig"])
    assert (plain.latents, [f.name for f in plain.factors]) == (("u", "v"), ["shape", "size"])
    assert [f.words for f in plain.factors] == [True, False]
    assert [a.code for a in plain.alerts] == ["paired_by_position"]
    joined = disentangle(frame, factors.sample(frac=1, random_state=0), metrics=["mig"])
    assert joined.metrics["mig"].mig == pytest.approx(plain.metrics["mig"].mig, abs=1e-12)
    assert joined.alerts == ()
    assert (
        disentangle(frame, factors.iloc[::-1].to_numpy(), metrics=["mig"]).metrics["mig"].mig
        < 0.5 * plain.metrics["mig"].mig
    )


# -- progress and alerts


def test_progress_lines_come_at_each_stage_and_each_tenth_after_some_time():
    stream = io.StringIO()
    lines = Lines(stream, patience=0.0)
    lines(Stage("dci"), 1, 8)
    for done in range(101):
        lines(Stage("halves"), done, 100)
    first, second = stream.getvalue().splitlines()[:2]
    assert re.search(naming("dci: ", 1, 8, "0 s"), first)
    assert re.search(naming("halves: ", 0, 100, "0 s"), second)
    assert [line.split()[1] for line in stream.getvalue().splitlines()[1:]] == [str(k) for k in range(0, 101, 10)]
    patient = Lines(io.StringIO())
    patient(Stage("dci"), 1, 8)
    assert patient.stream.getvalue() == ""


def test_a_log_has_a_line_every_half_minute_of_one_stage(monkeypatch):
    clock = iter([0.0, 20.0, 40.0, 51.0, 60.0, 90.0])
    monkeypatch.setattr("identifiable.cli.progress.time.monotonic", lambda: next(clock))
    lines = Lines(io.StringIO())
    for number in range(1, 6):
        lines(Stage("resolving", "a", number), 0, 10)
    assert re.findall(r"(\d+) s", lines.stream.getvalue()) == ["20", "51", "90"]


def test_long_work_leaves_lines_in_a_log_but_not_if_quiet(folder, capsys, monkeypatch):
    words = [*CALL, "--metrics", "mig,irs", "--null", "2", "--workers", "1"]
    assert run(*words, capsys=capsys)[2] == ""  # it took no time
    monkeypatch.setattr(output, "Lines", partial(Lines, patience=0.0))
    _, out, err = run(*words, capsys=capsys)
    assert [(line.partition(": ")[0], *re.findall(r"\d+", line)[:2]) for line in err.splitlines()] == [
        ("mig", "0", "2"),
        ("irs", "1", "2"),
        ("metrics", "2", "2"),
        ("shuffled factors", "1", "2"),
        ("shuffled factors", "2", "2"),
    ]
    assert "done" not in out
    assert run(*words, "--quiet", capsys=capsys)[1:] == ("", "")


def test_alerts_of_ica_are_in_the_words_of_this_command(monkeypatch):
    monkeypatch.setattr(scoring, "ica_step", partial(scoring.ica_step, max_iter=1))
    Z = np.random.default_rng(SEED).standard_normal((300, 4))
    found = disentangle(Z, np.arange(300) % 3, metrics=["mig"], resolve=["literal", "whitened"])
    told = {a.code: a for a in found.alerts}
    assert told["gaussian_components"].values == {"gaussian": 4, "components": 4, "after_ica": "whitened"}
    assert "--resolve whitened" in told["not_converged"].message
    assert [a for step in found.after for a in step.alerts] == [a for a in found.alerts if "after_ica" in a.values]
    said = " ".join(a.message for a in found.alerts)
    assert not re.search(r"max_iter|mode=|\ba: ", said)
