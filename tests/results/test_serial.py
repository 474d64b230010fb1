"""results: what is written comes back unchanged, what is not ours is refused, and a file is whole or untouched."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from children import child
from errors import naming
from identifiable import compare, load
from identifiable._checks import DataError, OutputError, UsageError
from identifiable.results import (
    Alert,
    Comparison,
    Errors,
    from_json,
    to_json,
    whole_file,
    without_time,
    write_text,
    write_texts,
)
from identifiable.results.writing import cut_name, whole_folder

SEED = 20240615


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """Three models, everything measured: two agree up to a rotation, one is unrelated and wider."""
    rng = np.random.default_rng(SEED)
    X = rng.laplace(size=(60, 2))
    return compare(
        X,
        X @ [[0.6, 0.8], [-0.8, 0.6]] + 0.01 * rng.standard_normal((60, 2)),
        rng.standard_normal((60, 3)),
        null_draws=3,
    )


@pytest.fixture
def data(comparison: Comparison) -> dict[str, Any]:
    """The JSON of the comparison, to be spoilt."""
    parsed: dict[str, Any] = json.loads(comparison.to_json())
    return parsed


# There and back


def test_a_full_comparison_comes_back_equal(comparison):
    back = from_json(comparison.to_json())
    assert back == comparison
    assert back.to_json() == comparison.to_json()
    assert back.consensus is not None
    assert len(back.matrices) == 4
    assert len(back.pairs) == 6
    assert back != replace(comparison, alerts=())


def test_the_text_is_json_with_the_schema_first_and_ends_with_a_newline(comparison):
    text = comparison.to_json()
    assert list(json.loads(text))[:2] == ["schema", "inputs"]
    assert json.loads(text)["schema"] == "identifiable/compare/1"
    assert text.endswith("}\n")
    assert "NaN" not in text
    assert "Infinity" not in text


def test_letters_of_any_script_come_back_and_are_written_as_they_are(comparison):
    strange = replace(comparison, alerts=(Alert("x", {}, 'Zürich 細胞 "quoted" \\ \n </script>'),))
    assert "Zürich 細胞" in strange.to_json()
    assert from_json(strange.to_json()) == strange


def test_numpy_numbers_are_written_as_numbers(comparison):
    strange = replace(comparison.pairs[0].scale, diameter=np.float32(0.5), rms=np.int64(2))
    assert json.loads(to_json(strange)) == {"diameter": 0.5, "rms": 2}


def test_absent_optional_fields_are_left_out_and_come_back_absent(comparison):
    bare = replace(comparison, matrices=(), consensus=None)
    written = json.loads(bare.to_json())
    assert "matrices" not in written
    assert "consensus" not in written
    assert "ci95" not in written["pairs"][0]["rungs"][0]["in_sample"]
    assert from_json(bare.to_json()) == bare
    assert "consensus" in json.loads(comparison.to_json())


def test_unknown_fields_of_a_later_version_are_passed_over(comparison, data):
    data["pairs"][0]["novelty"] = 1
    assert from_json(json.dumps(data)) == comparison


def test_a_rung_is_found_by_its_name(comparison):
    pair = comparison.pairs[0]
    assert pair.rung("rigid") is pair.rungs[1]
    assert comparison.verdict.group is None  # the weakest pair's, not the first one's
    assert comparison.rungs is pair.rungs
    with pytest.raises(UsageError, match=naming("'no such group'", "signed_permutation")):
        pair.rung("no such group")


def test_without_time_empties_the_time_and_nothing_else(comparison):
    bare = without_time(comparison)
    assert bare.provenance.time == ""
    assert comparison.provenance.time != ""
    assert replace(bare, provenance=comparison.provenance) == comparison


# Numbers that JSON does not have


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf")])
def test_a_number_that_is_not_finite_is_written_as_null_and_read_as_nan(comparison, value):
    spoilt = replace(
        comparison, pairs=(replace(comparison.pairs[0], scale=replace(comparison.pairs[0].scale, rms=value)),)
    )
    written = json.loads(spoilt.to_json())["pairs"][0]["scale"]
    back = from_json(spoilt.to_json())
    assert written["rms"] is None
    assert math.isnan(back.pairs[0].scale.rms)
    assert back.pairs[0].scale.diameter == comparison.pairs[0].scale.diameter
    assert back.to_json() == spoilt.to_json()


def test_nan_inside_lists_and_intervals_survives(comparison):
    errors = Errors(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, quantiles=(0.0, math.nan), ci95=(math.nan, 2.0))
    rung = replace(comparison.rungs[0], held_out=errors)
    spoilt = replace(comparison, pairs=(replace(comparison.pairs[0], rungs=(rung,)),))
    found = from_json(spoilt.to_json()).rungs[0].held_out
    assert math.isnan(found.quantiles[1])
    assert math.isnan(found.ci95[0])
    assert (found.quantiles[0], found.ci95[1]) == (0.0, 2.0)


# What is not ours


@pytest.mark.parametrize("text", ["", "not json", "{", '{"schema": "identifiable/compare/1"', "\x00\x01", "[1, 2"])
def test_text_that_is_not_json_is_refused_with_the_name(text):
    with pytest.raises(DataError, match=r"^r\.json: .*not JSON"):
        from_json(text, "r.json")


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"schema": "identifiable/compare/1", "settings": ['])
def test_ten_thousand_nested_lists_are_refused_not_a_crash(opening):
    closing = "]" if opening.endswith("[") else "}"
    deep = opening + "[" * 10_000 + "]" * 10_000 + closing + ("}" if "schema" in opening else "")
    with pytest.raises(DataError, match="JSON result"):
        from_json(deep)
    json.loads(
        opening + "[" * 10 + "1" * opening.endswith(":") + "]" * 10 + closing + ("}" if "schema" in opening else "")
    )


def test_a_schema_of_a_thousand_letters_is_shortened(data):
    data["schema"] = "x" * 1000
    with pytest.raises(DataError, match=r"got 'x+\.\.\.x+'\.$") as refused:
        from_json(json.dumps(data))
    assert len(str(refused.value)) < 900


@pytest.mark.parametrize("field", ["schema", "inputs", "provenance"])
def test_what_an_error_repeats_of_a_file_is_short(data, field):
    long = [{f"{k}{'y' * 30}": [{"z" * 40: ["x" * 40] * 9}] * 9 for k in range(9)}] * 9
    data[field] = {"a": long} if field == "inputs" else long
    with pytest.raises(DataError, match=rf"^r\.json: .*{field}") as refused:
        from_json(json.dumps(data), "r.json")
    assert len(str(refused.value)) < 900


@pytest.mark.parametrize("schema", [None, "", "identifiable/compare/2", "identifiable/other/1", 1, ["x"], {"a": 1}])
def test_another_schema_is_refused_and_the_known_one_named(data, schema):
    data["schema"] = schema
    with pytest.raises(DataError, match=naming("identifiable/compare/1", "got")):
        from_json(json.dumps(data))


@pytest.mark.parametrize("text", ["[]", "1", '"identifiable/compare/1"', "null", "{}", '["identifiable/compare/1"]'])
def test_json_that_is_no_result_is_refused(text):
    with pytest.raises(DataError, match=naming("identifiable/compare/1", "got None")):
        from_json(text)


def spoil(data: Any, path: str, value: Any) -> None:
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    for step in way:
        data = data[step]
    assert data[last] is not value
    data[last] = value


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("pairs", {"a": 1}, "a list"),
        ("pairs", None, "a list"),
        ("pairs.0", "rigid", "object for PairResult"),
        ("pairs.0.n", "60", "int"),
        ("pairs.0.n", 60.5, "int"),
        ("pairs.0.n", True, "int"),
        ("pairs.0.n", None, "int"),
        ("pairs.0.n", 2**70, "number of ordinary"),
        ("pairs.0.source", 3, "str"),
        ("pairs.0.scale.rms", "wide", "a number"),
        ("pairs.0.scale.rms", True, "a number"),
        ("pairs.0.scale.rms", [1.0], "a number"),
        ("pairs.0.scale.rms", 1e200, "number of ordinary"),
        ("pairs.0.rungs.0.held_out.ci95", [1.0], "2 values"),
        ("pairs.0.rungs.0.held_out.ci95", 1.0, "a list"),
        ("pairs.0.rungs.0.null", [], "an object"),
        ("pairs.0.rungs.0.null.shuffle", 0.5, "object for Null"),
        ("pairs.0.solver.refined", "no", "bool"),
        ("pairs.0.solver.refined", 1, "bool"),
        ("provenance.libraries", "numpy", "an object"),
        ("provenance.libraries.numpy", 2, "str"),
        ("consensus", [], "object for Consensus"),
        ("matrices.0.values.0", 0.0, "a list"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_and_named(data, path, value, expected):
    assert from_json(json.dumps(data)).pairs
    spoil(data, path, value)
    where = re.escape(re.sub(r"\.(\d+)", r"[\1]", path))
    with pytest.raises(DataError, match=rf"^r: .*identifiable/compare/1 \({where}: .*{expected}"):
        from_json(json.dumps(data), "r")


@pytest.mark.parametrize(
    "path", ["inputs", "pairs", "provenance", "pairs.0.scale", "pairs.0.verdict.epsilon", "inputs.0.d"]
)
def test_a_missing_field_is_refused_and_named(data, path):
    *way, last = (int(step) if step.isdigit() else step for step in path.split("."))
    holder = data
    for step in way:
        holder = holder[step]
    del holder[last]
    with pytest.raises(DataError, match=f"expected the field {last}"):
        from_json(json.dumps(data))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_no_json_are_refused(data, number):
    text = json.dumps(data).replace('"settings": {', f'"settings": {{"x": {number}, ', 1)
    with pytest.raises(DataError, match=number):
        from_json(text)


def test_a_number_of_too_many_digits_is_refused():
    with pytest.raises(DataError, match="JSON result"):
        from_json('{"schema": ' + "1" * 5000 + "}")


def test_an_integer_beyond_the_range_of_floats_is_refused(data):
    spoil(data, "pairs.0.scale.rms", 10**400)
    with pytest.raises(DataError, match=r"identifiable/compare/1 \(pairs\[0\]\.scale\.rms"):
        from_json(json.dumps(data))


@pytest.mark.parametrize("kind", ["absent", "directory", "binary"])
def test_a_file_that_cannot_be_read_is_refused_with_its_path(tmp_path, kind):
    path = tmp_path / "r.json"
    if kind == "directory":
        path.mkdir()
    if kind == "binary":
        path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=naming(path)):
        load(path)


# Writing, whole or not at all


def parts(folder: Path) -> list[str]:
    """What is in a folder, hidden files too."""
    return sorted(os.listdir(folder))


def test_text_is_written_whole_over_what_was_there(tmp_path):
    path = tmp_path / "r.json"
    assert write_text(path, "old") == path
    assert write_text(str(path), "néw\n") == path
    assert path.read_bytes() == "néw\n".encode()
    assert parts(tmp_path) == ["r.json"]


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt()])
def test_an_error_in_the_middle_leaves_the_old_file_and_nothing_else(tmp_path, error, existing):
    path = tmp_path / "r.json"
    if existing:
        path.write_text("old")

    def write_half() -> None:
        with whole_file(path) as temporary:
            temporary.write_text("ha")
            assert any(name.endswith(".part") for name in parts(tmp_path))
            raise error

    with pytest.raises(type(error)):
        write_half()
    assert parts(tmp_path) == (["r.json"] if existing else [])
    assert not existing or path.read_text() == "old"


@pytest.mark.parametrize("where", ["write", "replace"])
def test_a_full_disk_is_a_message_and_leaves_the_old_file(tmp_path, monkeypatch, where):
    path = tmp_path / "r.json"
    path.write_text("old")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(*{"write": (Path, "write_text", full), "replace": (os, "replace", full)}[where])
    with pytest.raises(OutputError, match=rf"r\.json: .*\({os.strerror(errno.ENOSPC)}\)"):
        write_text(path, "new")
    assert path.read_bytes() == b"old"
    assert parts(tmp_path) == ["r.json"]


def test_a_file_name_that_is_not_text_becomes_a_question_mark(tmp_path):
    path = write_text(tmp_path / "r.json", "name \udcff.npy")
    assert path.read_text() == "name ?.npy"
    assert parts(tmp_path) == ["r.json"]


def test_of_two_files_none_is_replaced_if_one_cannot_be_written(tmp_path):
    write_text(tmp_path / "a", "old")
    with pytest.raises(OutputError, match="nowhere"):
        write_texts({tmp_path / "a": "new", tmp_path / "nowhere" / "b": "new"})
    assert (tmp_path / "a").read_text() == "old"
    assert parts(tmp_path) == ["a"]
    write_texts({tmp_path / "a": "new", tmp_path / "b": "new"})
    assert [(tmp_path / name).read_text() for name in ("a", "b")] == ["new", "new"]


def test_a_path_that_is_a_directory_is_refused(tmp_path):
    (tmp_path / "r.json").mkdir()
    with pytest.raises(OutputError, match=r"r\.json: .*a directory\)"):
        write_text(tmp_path / "r.json", "x")
    assert parts(tmp_path) == ["r.json"]
    assert parts(tmp_path / "r.json") == []


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(OutputError, match=rf"r\.json: .*\({os.strerror(errno.ENOENT)}\)"):
        write_text(tmp_path / "nowhere" / "r.json", "x")
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=rf"r\.json: .*\({os.strerror(errno.ENOTDIR)}\)"):
        write_text(tmp_path / "file" / "r.json", "x")


@pytest.mark.skipif(os.name != "posix", reason="the longest name is the file system's")
def test_a_name_that_no_file_can_have_is_refused(tmp_path):
    with pytest.raises(OutputError, match=rf"\({os.strerror(errno.ENAMETOOLONG)}\)"):
        write_text(tmp_path / ("r" * 300), "x")
    assert parts(tmp_path) == []


def test_a_folder_without_permission_is_refused(tmp_path, monkeypatch):
    def denied(**_: Any) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "mkstemp", denied)
    with pytest.raises(OutputError, match=rf"r\.json: .*\({os.strerror(errno.EACCES)}\)"):
        write_text(tmp_path / "r.json", "x")


@pytest.fixture(params=[0o022, 0o027, 0o077, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    old = os.umask(request.param)
    yield request.param
    os.umask(old)


@pytest.mark.skipif(os.name != "posix", reason="permission bits are POSIX")
def test_a_result_has_the_permissions_of_an_ordinary_file(tmp_path, umask):
    written = write_text(tmp_path / "r.json", "x")
    (tmp_path / "ordinary").write_text("x")
    mode = stat.S_IMODE(written.stat().st_mode)
    assert mode == stat.S_IMODE((tmp_path / "ordinary").stat().st_mode) == 0o666 & ~umask
    after = os.umask(umask)
    assert after == umask  # the process keeps its own


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(path, "x")
        assert stat.S_ISFIFO(path.lstat().st_mode)
        assert os.read(reader, 10) == b"x"
    finally:
        os.close(reader)


def test_a_link_is_followed_and_stays(tmp_path):
    """As by a shell's redirection and by cp."""
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "r.json", tmp_path / "link.json"
    link.symlink_to(target)
    for text in ("first", "second"):  # at first it points to nothing
        write_text(link, text)
        assert link.is_symlink()
        assert target.read_text() == text
        assert not target.is_symlink()
    assert parts(tmp_path) == ["link.json", "there"]
    assert parts(tmp_path / "there") == ["r.json"]


def test_a_link_in_a_circle_is_refused(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OutputError, match=naming(tmp_path / "a")):
        write_text(tmp_path / "a", "text")
    assert parts(tmp_path) == ["a", "b"]


def test_a_file_is_on_the_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    done = []
    replace, sync = os.replace, os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (done.append(os.fstat(handle).st_ino), sync(handle)))
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("renamed"), replace(a, b)))
    path = write_text(tmp_path / "r.json", "text")
    assert done == [path.stat().st_ino, "renamed"]


KILLED = """
import os, signal, sys
from pathlib import Path
from identifiable.results.writing import whole_file, whole_folder
with whole_file(sys.argv[1]) as file, whole_folder(sys.argv[2]) as folder:
    file.write_text("half")
    (folder / "chunk").write_text("half")
    print("begun", flush=True)
    if sys.argv[3] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_what_a_killed_run_left_goes_with_the_next_and_what_a_living_one_writes_stays(tmp_path):
    def begun(how):
        command = [sys.executable, "-c", KILLED, str(tmp_path / "r.json"), str(tmp_path / "z.zarr"), how]
        return child(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def left():
        return {name for name in parts(tmp_path) if name.endswith(".part")}

    with begun("live") as living:
        assert living.stdout.readline() == "begun\n"
        held = left()
        assert len(held) == 2
        with begun("die") as dying:
            dying.wait(timeout=60)
        (tmp_path / ".r.json.0badc0de-1-x.part").write_text("of another machine")
        assert len(left()) == 5
        write_text(tmp_path / "r.json", "whole")
        with whole_folder(tmp_path / "z.zarr"):
            pass
        assert left() == held | {".r.json.0badc0de-1-x.part"}


def test_an_error_about_an_unfinished_file_names_the_file(tmp_path):
    path = tmp_path / "r.h5ad"
    for error in (DataError, OSError):
        with pytest.raises((DataError, OutputError), match=naming(path)) as caught, whole_file(path) as temporary:
            raise error(f"{temporary}: no room (name = '{temporary}')")
        assert ".part" not in str(caught.value)


def modes(path: Path) -> tuple[int, int, int]:
    return path.stat().st_mode & 0o777, path.stat().st_uid, path.stat().st_gid


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_what_is_replaced_keeps_its_mode_and_what_is_new_has_the_usual_one(tmp_path, mode):
    path, folder = tmp_path / "r.json", tmp_path / "z.zarr"
    path.touch()
    folder.mkdir()
    path.chmod(mode)
    folder.chmod(0o700)
    (tmp_path / "link.json").symlink_to(path)
    owned = modes(path)
    for name in ("r.json", "link.json"):
        assert modes(write_text(tmp_path / name, "text")) == owned
    with whole_folder(folder) as temporary:
        (temporary / "chunk").touch()
    assert modes(folder)[0] == 0o700
    (tmp_path / "usual").touch()
    assert modes(write_text(tmp_path / "new.json", "text"))[0] == modes(tmp_path / "usual")[0]


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can give files away")
def test_owner_and_group_of_what_is_replaced_stay_where_that_is_permitted(tmp_path, monkeypatch):
    path = write_text(tmp_path / "r.json", "old")
    os.chown(path, 12, 34)
    path.chmod(0o664)
    assert modes(write_text(path, "new")) == (0o664, 12, 34)

    def refuse(*_: Any) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "chown", refuse)
    write_text(path, "newer")
    assert (path.read_text(), modes(path)) == ("newer", (0o604, os.getuid(), os.getgid()))  # its group was another one


def test_a_file_that_may_not_be_written_is_not_replaced(tmp_path, monkeypatch):
    path = write_text(tmp_path / "r.json", "old")
    monkeypatch.setattr(os, "access", lambda place, how: Path(place) != path)
    with pytest.raises(OutputError, match=naming(path)):
        write_text(path, "new")
    assert (path.read_text(), parts(tmp_path)) == ("old", ["r.json"])
    write_text(tmp_path / "other.json", "new")


@pytest.mark.parametrize("name", ["n" * 255, "\N{GREEK SMALL LETTER ALPHA}" * 127 + "n"])
def test_a_name_of_255_bytes_can_be_written(tmp_path, name):
    assert len(os.fsencode(name)) == 255
    with whole_file(tmp_path / name) as temporary:
        temporary.write_text("text")
        assert len(os.fsencode(temporary.name)) < 120
    assert parts(tmp_path) == [name]


def test_long_names_that_begin_alike_are_told_apart():
    first, second = (cut_name("n" * 100 + end, 60) for end in "ab")
    assert first != second
    assert len(first) == len(second) == 60
    assert cut_name("short", 60) == "short"
