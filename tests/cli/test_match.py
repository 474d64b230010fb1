"""`identifiable match`: what it prints, writes, gates and refuses."""

from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from commands import check_gates, refused, run
from identifiable.api import load

MATCH = ["match", "a.npy", "sae.safetensors:W_dec", "--null-draws", "3"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 16)).astype(np.float32)
    B = rng.standard_normal((40, 16)).astype(np.float32)
    B[:25] = A[:25] + 0.2 * B[:25]
    np.save("a.npy", A)
    save_file({"W_dec": B[::-1].copy(), "W_enc": B.T.copy(), "decoder.weight": B[::-1].T.copy()}, "sae.safetensors")
    return tmp_path


def test_the_sentence_comes_first_and_every_match_is_written(folder, capsys):
    code, out, err = run(*MATCH, "-o", "m.csv", "--json", "r.json", capsys=capsys)
    assert (code, err) == (0, "")
    assert "25 of 40" in out.splitlines()[1]
    rows = list(csv.DictReader(Path("m.csv").read_text().splitlines()))
    assert len(rows) == 40
    assert [row["feature_b"] for row in rows[:25]] == [str(39 - i) for i in range(25)]
    assert {row["above_threshold"] for row in rows[:25]} == {"True"}
    found = load("r.json")
    assert found.pairs[0].above == 25
    assert float(rows[0]["cosine"]) == pytest.approx(found.pairs[0].quantiles[-1], abs=0.2)


def test_json_has_the_matching_and_where_it_is_from(folder, capsys):
    assert run(*MATCH, "-o", "m.json", "--quiet", capsys=capsys)[0] == 0
    written = json.loads(Path("m.json").read_text())
    assert (written["schema"], len(written["matches"])) == ("identifiable/matches/1", 40)
    values = np.load("a.npy")
    digest = hashlib.sha256(b"<f4;40;16;" + values.tobytes()).hexdigest()
    assert [i["sha256"] == digest for i in written["inputs"]] == [True, False]
    assert written["provenance"]["command"] == "identifiable " + " ".join([*MATCH, "-o", "m.json"])
    assert written["matches"][0]["sign"] == 1


def test_the_page_names_the_file_that_was_written_and_both_dictionaries(folder, capsys):
    _, out, _ = run(*MATCH, "-o", "my matches.csv", "--report", "p.md", capsys=capsys)
    page = Path("p.md").read_text()
    for said in (out.partition("matches: ")[0], page):
        assert "'my matches.csv'" in said
        assert "-o matches.csv" not in said
        assert "a (A) and sae:W_dec (B): 40" in said
    assert "feature of sae:W_dec" in page
    assert "-o matches.csv" in run(*MATCH, capsys=capsys)[1]


def test_a_smaller_dictionary_says_how_many_could_have_a_partner(folder, capsys):
    np.save("few.npy", np.load("a.npy")[:3])
    words = ("match", "few.npy", "--null-draws", "2", "--quiet", "--json", "r.json")
    assert run(words[0], "a.npy", *words[1:], capsys=capsys)[0] == 0
    assert (load("r.json").text.values["above"], load("r.json").text.values["could"]) == (3, 3)
    assert "at most 3" in load("r.json").headline
    assert run(*words[:2], "a.npy", *words[2:], capsys=capsys)[0] == 0  # each of the three could have one
    assert "could" not in load("r.json").text.values


def test_features_in_columns(folder, capsys):
    turned = ["match", "a.npy", "sae.safetensors:decoder.weight", "--null-draws", "3", "--quiet"]
    assert "--features rows,columns" in refused(*turned, code=3, capsys=capsys)
    assert run(*turned, "--features", "rows,columns", "--json", "t.json", capsys=capsys)[0] == 0
    assert run(*MATCH, "--json", "r.json", capsys=capsys)[0] == 0
    assert load("t.json").pairs[0].scores == load("r.json").pairs[0].scores


def test_bases_that_resolve_wrote(folder, capsys):
    rng = np.random.default_rng(1)
    X = rng.gamma([0.5, 1.0, 2.0], size=(2000, 3)) @ rng.standard_normal((3, 3))
    for name, rows in (("x", X[:1000]), ("y", X[1000:])):
        np.save(f"{name}.npy", rows)
        words = ("--stability", "0", "--restarts", "1", "--quiet")
        assert run("resolve", f"{name}.npy", "-o", f"{name}.safetensors", *words, capsys=capsys)[0] == 0
    bases = ["match", "x.safetensors", "y.safetensors", "--null-draws", "2"]
    assert run(*bases, "--json", "r.json", capsys=capsys)[0] == 0
    found = load("r.json")
    assert ([d.basis for d in found.dictionaries], found.settings["signed"]) == ([True, True], False)
    assert found.pairs[0].above == 3
    (other,) = [alert for alert in found.alerts if alert.code == "bases_of_other_tables"]
    assert other.values == {"first": "x", "second": "y", "source": "x", "target": "y"}
    same = ["match", "x.safetensors", "x.safetensors", "--null-draws", "2", "--json", "same.json"]
    assert run(*same, capsys=capsys)[0] == 0
    assert "bases_of_other_tables" not in [alert.code for alert in load("same.json").alerts]
    assert run(*bases, "--signed", "--json", "s.json", capsys=capsys)[0] == 0
    assert load("s.json").settings["signed"]
    assert "from_components.matrix" in refused("match", "x.safetensors", "a.npy", code=2, capsys=capsys)
    damaged = bytearray(Path("x.safetensors").read_bytes())
    damaged[-3] ^= 1
    Path("x.safetensors").write_bytes(damaged)
    assert "x.safetensors" in refused(*bases, code=3, capsys=capsys)


def test_gates(folder, capsys):
    check_gates(
        [*MATCH, "--quiet"],
        holds="at_chance == true; score < 0.5; pw_mcc < 0.5; above < 25; pw_mcc.p > 0.3; pairs.solver == sparse",
        fails="at_chance == false; score > 0.5; pw_mcc > 0.5; above == 25; signed == true; share_above.chance < 0.1",
        undecided="share_above.isotropic > 1; cycles.share < 1",
        capsys=capsys,
    )


def test_a_failed_gate_names_the_pair_and_json_says_whether_it_is_chance(folder, capsys):
    np.save("other.npy", np.random.default_rng(2).standard_normal((40, 16)))
    words = ("--quiet", "--json", "r.json", "--fail-if", "at_chance == true")
    code, _, err = run(*MATCH[:3], "other.npy", *MATCH[3:], *words, capsys=capsys)
    assert code == 1
    assert "a and other: " in err
    assert err.count("at_chance == true") == 2
    pairs = json.loads(Path("r.json").read_text())["pairs"]
    assert [pair["at_chance"] for pair in pairs] == [False, True, True]
    assert [pair["score"] for pair in pairs] == [pair["scores"][0]["value"] for pair in pairs]


def test_one_dictionary_or_another_kind_of_output_is_refused(folder, capsys):
    assert "two" in refused("match", "a.npy", code=2, capsys=capsys)
    assert "m.txt" in refused(*MATCH, "-o", "m.txt", code=2, capsys=capsys)
    assert "a.npy" in refused("match", "a.npy", "a.npy", "-o", "a.npy", code=2, capsys=capsys)
