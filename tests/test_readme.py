"""What the README and the pages of docs/ show is run, so that it stays true.

A page of docs/ is run from top to bottom, in a folder that has the tables of `folder`: blocks of `python`, sessions
(`pycon`) and commands (`sh`), with one namespace for the page. A block that cannot run here has
``<!-- not run: why -->`` on the line above it; one that needs a file of real data has ``<!-- needs: file -->`` and runs
where the file is.
"""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import FastICA

from identifiable import ICA
from identifiable.api.estimator import WARNED
from identifiable.cli import main
from laws import rows

ROOT = Path(__file__).parents[1]
DATA = Path("/work/shared/data")  # real tables, which are not part of the project
README = (ROOT / "README.md").read_text()
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"(?P<above>[^\n]*)\n```(?P<language>\w*)\n(?P<text>.*?)\n```", flags=re.DOTALL)
RUN, NOT_RUN = ("python", "pycon", "sh"), ("", "json", "text", "toml", "bibtex")


def fenced(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    X = rows(0, n=200, d=3)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    for name, table in (("run1", X), ("run2", X @ turn), ("release", X), ("candidate", X @ turn)):
        np.save(tmp_path / f"{name}.npy", table)
    for name in ("release_ids.txt", "candidate_ids.txt"):
        (tmp_path / name).write_text("\n".join(f"s{i}" for i in range(200)) + "\n")
    for path in DATA.glob("*.parquet"):
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_python_example_runs_and_writes_its_page(folder, capsys):
    example, *_ = fenced("python")
    exec(compile(example, "README.md", "exec"), {})
    assert "rigid" in capsys.readouterr().out
    assert (folder / "run1-vs-run2.html").stat().st_size > 10_000


def run_session(session: str, names: dict[str, Any], page: str) -> None:
    """Run an interactive session in `names`, which it may add to, and compare what it prints."""
    test = doctest.DocTestParser().get_doctest(session + "\n", names, page, page, 0)
    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, clear_globs=False)
    assert found.attempted
    assert not found.failed
    names.update(test.globs)


def run_commands(commands: str) -> None:
    for line in commands.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words:
            assert words[0] == "identifiable", f"not one of our commands, mark the block as not run: {line}"
            assert main(words[1:]) == 0, line


def run_page(page: str, text: str) -> None:
    names: dict[str, Any] = {}
    for block in BLOCK.finditer(text):
        above, language, example = block.group("above", "language", "text")
        assert language in RUN + NOT_RUN, f"{page}: a block of {language} is neither run nor known to be no example"
        if above.startswith("<!-- not run: "):
            continue
        if (needed := re.match("<!-- needs: (.*) -->", above)) and not Path(needed[1]).exists():
            continue
        if language == "python":
            exec(compile(example, page, "exec"), names)
        elif language == "pycon":
            run_session(example, names, page)
        elif language == "sh":
            run_commands(example)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run_as_printed(page, folder):
    run_page(page.name, page.read_text())


PAGE = """
The first block makes what the second one uses.

```python
kept = 1
```

```pycon
>>> kept += 1
>>> kept
2
```

<!-- not run: it takes a day -->
```sh
sleep 86400
```

```sh
identifiable resolve run1.npy -o kept.safetensors \\
    --stability 0 --quiet  # the basis
```

```
no example
```
"""


def test_a_page_is_one_run(folder):
    run_page("page", PAGE)
    assert (folder / "kept.safetensors").exists()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("kept = 1", "made = 1"),
        ("\n2\n", "\n3\n"),
        ("<!-- not run: it takes a day -->", ""),
        ("run1.npy", "absent.npy"),
        ("```python", "```py"),
    ],
)
def test_a_page_that_is_not_true_fails(right, wrong, folder, capsys):
    assert PAGE.count(right) == 1
    with pytest.raises((AssertionError, NameError)):
        run_page("page", PAGE.replace(right, wrong))


@pytest.mark.parametrize("number", range(len(fenced("pycon"))))
def test_what_a_session_shows_is_what_it_prints(number):
    run_session(fenced("pycon")[number], {}, "README.md")


def test_the_tables_for_people_who_come_from_fastica_are_complete():
    text = (ROOT / "docs" / "coming-from-fastica.md").read_text()
    left = [row.split("|")[1] for row in text.splitlines() if row.startswith("|")]
    frame = pd.DataFrame(rows(0, d=2), columns=["a", "b"])
    theirs, ours = FastICA(tol=0.1, random_state=0).fit(frame), ICA().fit(frame)
    attributes = {name for name in vars(theirs) if name.endswith("_") and not name.startswith("_")}
    assert all(hasattr(ours, name) for name in attributes)
    named = {name for cell in left for name in re.findall(r"`(\w+)`", cell)} - {"FastICA"}
    assert named == set(theirs.get_params()) | attributes | set(WARNED)
    assert not [name for name in ours.get_params() if f"`{name}`" not in text]


def test_the_gate_passes_on_models_that_agree_and_fails_on_models_that_do_not(folder, capsys):
    (gate,) = [block for block in fenced("sh") if "--fail-if" in block]
    words = shlex.split(gate.replace("\\\n", " "))
    assert words.pop(0) == "identifiable"
    assert main(words) == 0
    np.save("candidate.npy", rows(9, n=200, d=3))
    assert main(words) == 1
    assert (folder / "drift.html").exists()
