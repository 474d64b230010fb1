"""`identifiable deconfound` on the command line and in Python: what it prints, writes, returns and refuses."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace

import numpy as np
import pytest

import children
from identifiable import deconfound, transform
from identifiable._checks import DataError, OutputError, PairingError, UsageError
from identifiable.api import load, load_basis, screening
from identifiable.cli import main
from identifiable.options import AttributeOptions
from identifiable.results import Attribution, Audit, Cleaning, ScreenEvaluation
from identifiable.worlds import cells

pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")
anndata = pytest.importorskip("anndata")
pandas = pytest.importorskip("pandas")

SEED = 3  # the cleaned table is not as good as the input, so it is written with --force only
QUICK = ["--classifiers", "ridge", "--rotations", "1", "--null-guides", "1", "--bootstrap", "50", "--max-targets", "2"]
FEW = ["--stability", "2", "--permutations", "20"]
UNTESTED = [
    "--stability",
    "0",
    "--permutations",
    "20",
]  # refits find no component of so small a world again, and none would go
TIMES = ("times", "provenance")


@pytest.fixture(scope="module")
def world():
    return cells("tiny", seed=SEED)


@pytest.fixture(scope="module")
def source(tmp_path_factory, world):
    """The same wells as a table of their own, as an AnnData file, and as embeddings with metadata beside."""
    folder = tmp_path_factory.mktemp("screen")
    features = {f"feature_{j}": world.X[:, j] for j in range(world.X.shape[1])}
    columns = {name: column.tolist() for name, column in world.metadata.items()}
    pq.write_table(pa.table({**columns, **features}), folder / "wells.parquet")
    np.save(folder / "X.npy", world.X)
    lines = [",".join(world.metadata), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    (folder / "metadata.csv").write_text("\n".join(lines).replace("nan", "") + "\n")
    adata = anndata.AnnData(world.X, obs=pandas.DataFrame(columns, index=columns["well_id"]))
    adata.write_h5ad(folder / "wells.h5ad")
    return folder


def remembered(function, *options):
    """The function, called once for equal values of these options: all tests here attribute and clean the same wells."""
    known = {}

    def call(*data):
        asked = next(value for value in data if isinstance(value, AttributeOptions))
        key = tuple(getattr(asked, name) for name in options)
        if key not in known:
            known[key] = function(*data)
        return known[key]

    return call


@pytest.fixture(scope="module", autouse=True)
def fitted_once():
    with pytest.MonkeyPatch.context() as patch:
        for name, *options in (
            ("screen_basis", "rank", "stability"),
            ("clean_components", "rank", "stability", "relations"),
        ):
            patch.setattr(screening, name, remembered(getattr(screening, name), *options))
        yield


@pytest.fixture
def folder(source, tmp_path, monkeypatch):
    for path in source.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words, capsys):
    code = main(["deconfound", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def refused(*words, capsys, code=3):
    got, out, err = run(*words, capsys=capsys)
    assert (got, out) == (code, "")
    assert len(err.splitlines()) == 1
    assert err.startswith("identifiable: ")
    return err


def figures(path):
    """A saved result without what differs between equal runs."""
    return {key: value for key, value in json.loads(path.read_text()).items() if key not in TIMES}


def test_an_audit_is_the_same_from_every_format_and_draws_its_page_again(folder, capsys):
    words = ["--preset", "rxrx3-core", "--permutations", "5", "--min-wells", "4", "--quiet"]
    assert run("audit", "wells.parquet", *words, "--json", "a.json", "--report", "a.html", capsys=capsys)[0] == 0
    assert run("audit", "wells.h5ad", *words, "--json", "b.json", capsys=capsys)[0] == 0
    assert run("audit", "X.npy", "--metadata", "metadata.csv", *words, "--json", "c.json", capsys=capsys)[0] == 0
    first, second, third = (figures(folder / f"{name}.json") for name in "abc")
    for key in ("verdict", "blind", "dependences", "features", "folds"):
        assert first[key] == second[key] == third[key]
    assert isinstance(load("a.json"), Audit)
    assert run("report", "a.json", "-o", "again.html", capsys=capsys)[0] == 0
    assert (folder / "again.html").read_bytes() == (folder / "a.html").read_bytes()


def test_an_evaluation_writes_scores_goes_on_from_what_was_kept_and_is_gated(folder, capsys):
    words = ["evaluate", "wells.parquet", *QUICK, "--rank", "6", "--min-wells", "4", "--folds", "3", "--quiet"]
    words += ["--checkpoint", "kept"]
    assert run(*words, "--json", "a.json", "--scores", "scores.csv", capsys=capsys)[0] == 0
    kept = sorted(path.name for path in (folder / "kept").iterdir())
    for path in sorted((folder / "kept").iterdir())[1::2]:  # as after a kill: half of the parts are there
        if path.suffix == ".npz":
            path.unlink()
    assert run(*words, "--json", "b.json", capsys=capsys)[0] == 0
    assert sorted(path.name for path in (folder / "kept").iterdir()) == kept
    assert figures(folder / "a.json") == figures(folder / "b.json")
    found = load("b.json")
    assert isinstance(found, ScreenEvaluation)
    assert any(time.kept for time in found.times)
    lines = (folder / "scores.csv").read_text().splitlines()
    assert len(lines) == 1 + len(found.scores)
    assert "auroc" in lines[0]
    code, _, err = run(*words, "--fail-if", "ica > 2", "--fail-if", "ica_minus_pca < 2", capsys=capsys)
    assert (code, "ica_minus_pca < 2" in err, "ica > 2" in err) == (1, True, False)
    assert "tvn" in refused(*words, "--fail-if", "tvn < 1", capsys=capsys, code=2)


def test_cleaning_writes_tables_for_others_and_a_basis_for_new_plates(folder, world, capsys):
    words = [
        "clean",
        "wells.h5ad",
        "--preset",
        "rxrx3-core",
        *UNTESTED,
        "--json",
        "c.json",
        "--save-basis",
        "c.safetensors",
    ]
    words.append("--force")
    code, out, _ = run(*words, "-o", "cleaned.h5ad", capsys=capsys)
    assert code == 0
    assert "table: cleaned.h5ad" in out
    found = load("c.json")
    assert isinstance(found, Cleaning)
    assert found.outputs == ("cleaned.h5ad", "c.safetensors")
    written = anndata.read_h5ad("cleaned.h5ad")
    assert np.array_equal(written.X, world.X)
    assert found.removed
    cleaned = np.asarray(written.layers["corrected"])
    assert cleaned.shape == world.X.shape
    assert not np.allclose(cleaned, world.X, atol=1e-2)
    assert "layers['corrected']" in out.splitlines()[-1]
    assert not [key for key in written.obsm if key.startswith("X_ica")]
    with pytest.warns(UserWarning, match="columns_not_checked"):
        new_plates = transform(load_basis("c.safetensors"), world.X[:50])  # no batch, no plate, no control is given
    assert np.allclose(new_plates, cleaned[:50], atol=1e-4)
    assert list(written.obs_names[:3]) == world.metadata["well_id"][:3].tolist()
    assert written.uns["identifiable"]["verdict"] == found.verdict
    assert "recall" not in {m.metric for m in found.metrics}  # without relations
    with pytest.raises(UsageError, match="inverse"):
        transform("c.safetensors", world.X[:50], inverse=True)
    assert "c.safetensors" in refused(
        "attribute", "wells.h5ad", "--basis", "c.safetensors", "--quiet", capsys=capsys, code=2
    )


def test_components_are_written_on_request(folder, world, capsys):
    words = ["clean", "wells.h5ad", "--preset", "rxrx3-core", *UNTESTED, "--json", "c.json", "--components", "--force"]
    assert run(*words, "-o", "cleaned.h5ad", capsys=capsys)[0] == 0
    found, written = load("c.json"), anndata.read_h5ad("cleaned.h5ad")
    assert "corrected" not in written.layers
    kept = [weight > 0 for weight in found.weights]
    assert written.obsm["X_ica_clean"].shape[1] == sum(kept)
    for key in ("X_pca_white", "X_ica", "X_rand"):
        assert np.allclose(np.cov(written.obsm[key].T, bias=True), np.eye(len(kept)), atol=2e-3)
    assert np.allclose(written.obsm["X_ica_clean"], written.obsm["X_ica"][:, kept], atol=1e-5)
    assert run(*words, "-o", "cleaned.csv", capsys=capsys)[0] == 0
    names = (folder / "cleaned.csv").read_text().splitlines()[0].split(",")
    assert sum(name.startswith("component_") for name in names) == sum(kept)


def judged(monkeypatch, verdict, weights=None):
    """The cleaning of the tests' screen with another verdict, and other weights."""
    true = screening.clean_components

    def changed(*data):
        result = true(*data)
        kept = result.weights if weights is None else (weights,) * len(result.weights)
        removed = tuple(k for k, weight in enumerate(kept) if weight < 1)
        return replace(result, verdict=verdict, weights=kept, removed=removed)

    monkeypatch.setattr(screening, "clean_components", changed)


@pytest.mark.parametrize("verdict", ["harms", "keep-as-is"])
def test_a_table_that_is_worse_than_the_input_is_written_only_with_force(folder, world, capsys, monkeypatch, verdict):
    judged(monkeypatch, verdict)
    outputs = ["-o", "worse.parquet", "--save-basis", "worse.safetensors"]
    words = ["clean", "wells.parquet", "--preset", "rxrx3-core", *UNTESTED, "--quiet", *outputs]
    code, _, err = run(*words, "--report", "page.html", "--json", "c.json", capsys=capsys)
    assert code == 1
    assert all(part in err for part in ("worse.parquet", "worse.safetensors", verdict, "--force"))
    assert (folder / "page.html").exists()
    assert load("c.json").outputs == ()
    assert not [path for path in folder.iterdir() if path.name.startswith("worse")]
    found = deconfound.clean("wells.parquet", preset="rxrx3-core", stability=0, permutations=20)
    with pytest.raises(OutputError, match=rf"worse\.csv: .*{verdict}"):
        deconfound.save_cleaned("worse.csv", found)
    assert run(*words, "--force", capsys=capsys)[0] == 0
    assert {path.name for path in folder.iterdir() if path.name.startswith("worse")} == {
        "worse.parquet",
        "worse.safetensors",
    }


def test_a_table_without_any_of_its_components_is_written_and_weights_of_one_give_the_input(
    folder, world, capsys, monkeypatch
):
    words = ["clean", "wells.parquet", "--preset", "rxrx3-core", *UNTESTED, "--quiet", "-o", "out.csv"]
    names = [f"feature_{j}" for j in range(world.X.shape[1])]
    judged(monkeypatch, "no-gain", weights=0.0)
    assert run(*words, capsys=capsys)[0] == 0
    emptied = pandas.read_csv("out.csv")[names].to_numpy()
    assert emptied.std(axis=0) == pytest.approx(np.zeros(len(names)), abs=1e-3)
    assert "out.csv" in refused(*words, "--components", capsys=capsys)
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    judged(monkeypatch, "keep-as-is", weights=1.0)  # nothing was removed: the input itself
    assert run(*words, capsys=capsys)[0] == 0
    assert pandas.read_csv("out.csv")[names].to_numpy() == pytest.approx(world.X, abs=1e-6)


def test_attribution_keeps_its_basis_and_takes_one_that_was_fitted_elsewhere(folder, capsys):
    words = ["attribute", "wells.parquet", "--preset", "rxrx3-core", *FEW, "--rank", "6", "--quiet"]
    assert run(*words, "-o", "b.safetensors", "--json", "a.json", capsys=capsys)[0] == 0
    assert run(*words, "--basis", "b.safetensors", "--json", "b.json", capsys=capsys)[0] == 0
    first, second = load("a.json"), load("b.json")
    assert isinstance(first, Attribution)
    assert first.components == second.components
    np.save("narrow.npy", np.zeros((4, 3)))
    wide = ["attribute", "X.npy", "--metadata", "metadata.csv", "--features", "feature_0", *FEW]
    assert "X.npy" in refused(*wide, "--basis", "b.safetensors", capsys=capsys, code=2)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--plate", "plaet"], "plaet"),
        (["--control", "nothing_like_it"], "nothing_like_it"),
        (["--preset", "rxrx4"], "rxrx4"),
    ],
)
def test_a_role_that_is_not_there_is_named(folder, capsys, words, message):
    code, out, err = run("audit", "wells.parquet", *words, capsys=capsys)
    assert code in (2, 3)
    assert message in err
    assert not out


@pytest.mark.parametrize(
    ("part", "flag", "value"),
    [
        *(("attribute", "--fdr", value) for value in ("0", "1", "2", "nan")),
        ("attribute", "--permutations", "19"),
        ("audit", "--permutations", "0"),
        ("audit", "--min-wells", "1"),
        ("evaluate", "--concentration", "100"),
    ],
)
def test_a_value_out_of_range_is_refused_before_the_table_is_opened(capsys, part, flag, value):
    assert f"{flag} {value}" in refused(part, "nowhere.parquet", flag, value, capsys=capsys, code=2)


def test_metadata_that_do_not_join_are_named(folder, capsys):
    (folder / "other.csv").write_text("well_id,plate,treatment\nx1,1,a\nx2,1,b\n")
    pq.write_table(
        pa.table({"well_id": ["y1", "y2"], "feature_0": [0.5, 1.0], "feature_1": [0.1, 0.2]}), folder / "emb.parquet"
    )
    err = refused("audit", "emb.parquet", "--metadata", "other.csv", "--ids", "well_id", capsys=capsys)
    assert "y1" in err


def test_features_that_are_not_finite_are_named_by_row_and_column(folder, world, capsys):
    values = world.X.copy()
    values[7, 3] = np.nan
    np.save("gap.npy", values)
    err = refused("audit", "gap.npy", "--metadata", "metadata.csv", capsys=capsys)
    assert "7" in err
    assert "gap.npy" in err


def test_gaps_unnamed_wells_and_missing_controls_are_handled_as_asked_and_counted(folder, world, capsys):
    values, names = world.X.copy(), world.metadata["treatment"].astype("U40")
    controls = np.char.endswith(names, "control")
    values[np.flatnonzero(controls)[0], 3] = np.nan
    names[np.flatnonzero(~controls)[:5]] = ""
    columns = {**{name: column.tolist() for name, column in world.metadata.items()}, "treatment": names.tolist()}
    features = {f"feature_{j}": values[:, j] for j in range(values.shape[1])}
    pq.write_table(pa.table({**columns, **features}), "holed.parquet")
    words = ["audit", "holed.parquet", "--preset", "rxrx3-core", "--permutations", "5", "--min-wells", "4"]
    err = refused(*words, capsys=capsys)
    assert all(part in err for part in ("feature_3", "--drop-nan", "--impute"))
    n, d = values.shape
    for option, rows, width, code in (
        ("--drop-nan columns", n - 5, d - 1, "columns_dropped"),
        ("--drop-nan rows", n - 6, d, "wells_dropped"),
        ("--impute median", n - 5, d, "values_imputed"),
    ):
        assert run(*words, *option.split(), "--quiet", "--json", "a.json", capsys=capsys)[0] == 0
        found = load("a.json")
        assert (found.design.n, found.design.d) == (rows, width)
        told = {alert.code: alert.values for alert in found.alerts}
        assert told["unnamed_dropped"]["rows"] == 5
        assert {code, "unnamed_dropped"} <= set(told)
        assert option in found.provenance.command
    bare = [*words, "--impute", "median", "--unnamed", "drop", "--control", "none", "--json", "b.json"]
    code, _, err = run(*bare, capsys=capsys)
    assert (code, load("b.json").design.controls) == (0, 0)
    assert "SMILES" in err  # a column without a role
    quick = ["evaluate", "holed.parquet", "--impute", "median", "--control", "none", "--quick", "--min-wells", "4"]
    assert run(*quick, "--bootstrap", "20", "--max-targets", "2", "--quiet", "--json", "c.json", capsys=capsys)[0] == 0
    assert load("c.json").settings["against"] == "others"


def test_one_plate_is_not_enough(world):
    one = world.metadata["plate"] == world.metadata["plate"][0]
    one &= world.metadata["experiment_name"] == world.metadata["experiment_name"][0]
    columns = {name: column[one] for name, column in world.metadata.items()}
    with pytest.raises(DataError, match="plate"):
        deconfound.evaluate(world.X[one], metadata=columns, preset="rxrx3-core", classifiers=("ridge",))


def test_an_array_needs_metadata_of_its_length(world):
    with pytest.raises(UsageError, match="metadata"):
        deconfound.audit(world.X)
    with pytest.raises(PairingError, match="rows"):
        deconfound.audit(world.X, metadata={name: column[:-1] for name, column in world.metadata.items()})


def test_new_plates_are_matched_by_the_names_of_their_columns(folder, world, capsys):
    words = ["clean", "wells.parquet", "--preset", "rxrx3-core", *UNTESTED, "--quiet", "--force", "-o", "c.parquet"]
    assert run(*words, "--save-basis", "c.safetensors", capsys=capsys)[0] == 0
    features = [f"feature_{j}" for j in range(world.X.shape[1])]
    turned = {name: world.X[:, j] for j, name in reversed(list(enumerate(features)))}
    pq.write_table(pa.table({"well_id": world.metadata["well_id"].tolist(), **turned}), "turned.parquet")
    assert main(["transform", "c.safetensors", "turned.parquet", "-o", "new.parquet", "--quiet"]) == 0
    cleaned, again = pq.read_table("c.parquet"), pq.read_table("new.parquet")
    assert [name for name in cleaned.column_names if name.startswith("feature_")] == features
    assert [name for name in again.column_names if name.startswith("feature_")] == features
    assert all(cleaned[name].equals(again[name]) for name in features)
    del turned["feature_3"]
    pq.write_table(pa.table(turned), "short.parquet")
    assert main(["transform", "c.safetensors", "short.parquet", "-o", "never.parquet"]) == 3
    assert "feature_3" in capsys.readouterr().err
    assert not (folder / "never.parquet").exists()


@pytest.mark.parametrize(("word", "meant"), [("controls", "control"), ("perturbatoin", "perturbation")])
def test_an_option_that_does_not_exist_is_named(world, word, meant):
    for call in (deconfound.audit, deconfound.screen):
        with pytest.raises(TypeError, match=rf"'{word}'.* {meant}\b"):
            call(world.X, metadata=world.metadata, **{word: "x"})


def test_known_relations_are_looked_for_in_every_space_and_tables_are_exported_for_pycytominer(folder, world, capsys):
    pairs = world.relations
    (folder / "pairs.csv").write_text("\n".join(["a,b,source", *(f"{a},{b},pathway" for a, b in pairs)]) + "\n")
    words = ["clean", "wells.parquet", "--preset", "rxrx3-core", *UNTESTED, "--quiet"]
    outputs = ["--json", "c.json", "-o", "cleaned.parquet", "--export", "pycytominer", "--force"]
    assert run(*words, "--relations", "pairs.csv", *outputs, capsys=capsys)[0] == 0
    names = pq.read_schema("cleaned.parquet").names
    assert "Metadata_treatment" in names
    assert all(name.startswith(("Metadata_", "feature_")) for name in names)
    found = load("c.json")
    recall = {m.space: m for m in found.metrics if m.metric == "recall"}
    assert {"base", "ica"} <= set(recall)
    assert f"{len(pairs):,} known pairs" in recall["base"].note
    assert "targets" in recall["base"].note
    assert 0 <= recall["base"].value <= 1
    assert found.settings["relations"] == len(pairs)
    assert "--relations pairs.csv" in found.provenance.command


def test_relations_of_other_things_are_refused(folder, capsys):
    words = ["clean", "wells.parquet", "--preset", "rxrx3-core", *UNTESTED, "--quiet"]
    (folder / "one.csv").write_text("gene\nMTOR\n")
    for wrong in ("one.csv", "X.npy", "nowhere.csv"):
        assert wrong in refused(*words, "--relations", wrong, capsys=capsys)


def test_relations_are_read_as_the_labels_of_a_screen_are_and_before_anything_is_fitted(folder, world, monkeypatch):
    (folder / "numbers.csv").write_text("a,b\n1,2.0\n,3\n4,\n1e1,5\n")
    known = screening._relations
    assert known("numbers.csv") == (("1", "2"), ("10", "5"))
    assert known([(1, "b"), ("c", "d")]) == (("1", "b"), ("c", "d"))
    assert known(pair for pair in [("a", "b")]) == (("a", "b"),)
    assert known(pandas.DataFrame({"g1": ["a"], "g2": ["b"], "source": ["x"]})) == (("a", "b"),)
    monkeypatch.setattr(screening, "attribute", None)
    for wrong in (["ab", "cd"], [("a", "b", "c")], [1, 2]):
        with pytest.raises(UsageError, match=r"^relations: .*pairs"):
            deconfound.clean(world.X, metadata=world.metadata, relations=wrong)
    (folder / "empty.csv").write_text("a,b\n,\n")
    with pytest.raises(DataError, match=r"empty\.csv: .*none"):
        deconfound.clean(world.X, metadata=world.metadata, relations="empty.csv")


def test_without_a_place_for_messages_the_result_still_stands_alone(folder):
    """Roles are no part of the result: with stderr closed they go nowhere."""
    words = f"{shlex.quote(sys.executable)} -m identifiable deconfound audit wells.parquet --min-wells 4 --permutations 5 --json - 2>&-"
    done = children.run(["bash", "-c", words])
    assert not done.stdout.startswith("wells")


def test_roles_and_counts_are_shown_before_any_fit(folder, capsys):
    """Also where a fit then fails: the roles are what is most often wrong."""
    code, _, err = run("evaluate", "wells.parquet", "--targets", "nothing_like_it", capsys=capsys)
    assert code == 2
    assert "plates in" in err.splitlines()[0]
    assert any(line.startswith("perturbation  treatment") for line in err.splitlines())
    _, _, quiet = run("evaluate", "wells.parquet", "--targets", "nothing_like_it", "--quiet", capsys=capsys)
    assert len(quiet.splitlines()) == 1
