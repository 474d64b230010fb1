"""The picture of docs/architecture.md, enforced; and proof that the enforcement can fail."""

from __future__ import annotations

import ast
import fnmatch
import importlib
import json
import re
import sys
import tomllib
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import resolve_name
from pathlib import Path

import pytest

import children
from identifiable.report.messages import wordings

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "identifiable"
FRONT = "__init__"  # the public API counts as a room: whoever says `import identifiable` enters it

LAYERS = (  # top first, as in docs/architecture.md; rooms of one line do not import each other
    ("__main__",),
    ("cli",),
    ("experiments",),
    (FRONT,),
    ("deconfound", "pp"),
    ("api", "metrics"),
    ("io", "nn", "report"),
    (
        "identifiability",
        "alignment",
        "disentanglement",
        "deconfounding",
        "mechanistic",
        "unembedding",
        "dictionaries",
        "worlds",
    ),
    ("ica", "jacobians", "bounds", "similarity", "neighbours", "diameter"),
    ("groups", "intake"),
    ("blocks", "moments", "representation"),
    ("run",),
    ("results",),
    ("_compiling", "_extras", "options", "rows"),
    ("_checks", "_importing", "_stopping"),
)
HEIGHT = {room: -depth for depth, rooms in enumerate(LAYERS) for room in rooms}
UPWARD_BY_NAME = {("results", "report")}  # a result shows itself: named at call time, never imported
FREE_CONSTANTS = {"__version__"}  # plain words of the front that any room may read
# lazy exports have their modules in a table; `--decoder` names the user's own; pages are the files of a folder; extras are
# imported once to see that they can be
UNREADABLE_ALLOWED = {FRONT, "cli", "report", "_extras"}
NEEDS_TORCH = {"torch", "torchvision", "torchaudio", "lightning", "timm", "transformers", "safetensors.torch"}
PLOTTING = {"matplotlib", "seaborn", "plotly"}  # figures of pages are SVG text
PLOTS = "report/plots"  # the one module that may import matplotlib, for `result.plot()`
VAGUE = re.compile(r"_*(utils?|helpers?|common|misc)")
MAX_LINES = 700


@dataclass(frozen=True)
class Import:
    """`target` as a dotted name; None if it is computed. `by_name`: through import_module or __import__."""

    target: str | None
    line: int
    by_name: bool = False


def imports(source: str, module: str, *, is_package: bool) -> Iterator[Import]:
    """Every import of a module, at any depth, relative ones resolved."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = resolve_name("." * node.level + (node.module or ""), package) if node.level else str(node.module)
            # The name may be a module or an attribute; for the package itself each name is looked at.
            yield from (Import(f"{base}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__"):
            yield Import(literal_name(node, package), node.lineno, by_name=True)


def called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def literal_name(node: ast.Call, package: str) -> str | None:
    """The module a by-name import names; None if that cannot be read off the source."""
    if not node.args:
        return None
    first = node.args[0]
    if isinstance(first, ast.JoinedStr) and first.values and isinstance(first.values[0], ast.Constant):
        start = str(first.values[0].value)  # f"identifiable.io.{family}" names its room
        return start + "*" if re.match(r"identifiable\.\w+\.", start) else None
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
        return None
    return resolve_name(first.value, package) if first.value.startswith(".") else first.value


def room_of(target: str) -> str | None:
    """The room a dotted name lies in; None if it is not of this package."""
    head, _, rest = target.partition(".")
    if head != "identifiable":
        return None
    first, _, deeper = rest.partition(".")
    # `from identifiable import compare` takes a name of the front; `from identifiable.x import y` goes to x.
    return first if first in HEIGHT or deeper else FRONT


def violations(package: Path) -> list[str]:
    """Every way in which the modules of `package` break the picture, one line each."""
    found = []
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package).with_suffix("")
        room = inside.parts[0]
        source = path.read_text(encoding="utf-8")
        where = inside.as_posix()
        if any(VAGUE.fullmatch(part) for part in inside.parts):
            found.append(f"{where}: a vague name; call it after what it holds")
        if (lines := len(source.splitlines())) > MAX_LINES:
            found.append(f"{where}: {lines} lines, more than {MAX_LINES}; make it a package")
        if room not in HEIGHT:
            found.append(f"{where}: an unknown room; draw it in docs/architecture.md and in LAYERS")
            continue
        is_package = inside.name == "__init__"
        module = ".".join(("identifiable", *(inside.parts[:-1] if is_package else inside.parts)))
        for item in imports(source, module, is_package=is_package):
            if complaint := judge(room, item, where):
                found.append(f"{where}:{item.line}: {complaint}")
    return found


def judge(room: str, item: Import, where: str) -> str | None:
    """What is wrong with this import in this room, in the module `where`, if anything."""
    if item.target is None:
        return None if room in UNREADABLE_ALLOWED else "imports a computed name, which cannot be checked"
    if room != "nn" and begins_with(item.target, NEEDS_TORCH):
        return f"imports {item.target}: torch lives in nn"
    if begins_with(item.target, PLOTTING) and not (where == PLOTS and begins_with(item.target, {"matplotlib"})):
        return f"imports {item.target}: plots are drawn in {PLOTS}"
    other = room_of(item.target)
    if other is None or other == room or item.target.removeprefix("identifiable.") in FREE_CONSTANTS:
        return None
    if other not in HEIGHT:
        return f"imports {other}, an unknown room"
    if item.by_name and (room, other) in UPWARD_BY_NAME:
        return None
    if HEIGHT[other] > HEIGHT[room]:
        return f"{room} imports {other}, which is above it"
    if HEIGHT[other] == HEIGHT[room]:
        return f"{room} imports its sibling {other}"
    return None


def begins_with(target: str, modules: set[str]) -> bool:
    return any(target == name or target.startswith(name + ".") for name in modules)


def test_every_module_keeps_to_its_layer() -> None:
    assert violations(PACKAGE) == []


def test_the_checker_reads_the_real_package() -> None:
    read = {p.relative_to(PACKAGE).parts[0].removesuffix(".py") for p in PACKAGE.rglob("*.py")}
    assert {FRONT, "blocks", "results", "_checks"} <= read


def test_the_layers_are_those_drawn_in_the_document() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawing = re.search(r"<!-- layers -->\n```\n(.*?)```", text, re.DOTALL)
    assert drawing is not None
    rows = [tuple(name.strip() for name in line.split("|")) for line in drawing[1].splitlines()]
    assert tuple(rows) == LAYERS


def test_the_one_exception_is_in_use() -> None:
    used = set()
    for room, other in UPWARD_BY_NAME:
        for module in (PACKAGE / room).glob("*.py"):
            for item in imports(module.read_text(encoding="utf-8"), f"identifiable.{room}", is_package=True):
                if item.by_name and item.target == f"identifiable.{other}":
                    used.add((room, other))
    assert used == UPWARD_BY_NAME


BAD = {
    "upward": ("groups.py", "from identifiable.identifiability import compare", "above it"),
    "upward, plain import": ("groups.py", "import identifiable.cli", "above it"),
    "upward, module from package": ("moments.py", "from identifiable import groups", "above it"),
    "upward, relative": ("moments.py", "from . import groups", "above it"),
    "upward, relative name": ("ica.py", "from .io import open_table", "above it"),
    "upward, relative from a package": ("report/page.py", "from ..cli import main", "above it"),
    "upward, in a package's front": ("io/__init__.py", "from ..experiments import table1", "above it"),
    "upward, hidden in a function": ("blocks.py", "def f():\n    from identifiable.io import npy", "above it"),
    "upward, for type checkers": (
        "blocks.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from identifiable.groups import Group",
        "above it",
    ),
    "upward, by name": (
        "blocks.py",
        "import importlib\ndef f():\n    return importlib.import_module('identifiable.groups')",
        "above it",
    ),
    "upward, by relative name": (
        "blocks.py",
        "from importlib import import_module\nf = lambda: import_module('.groups', __package__)",
        "above it",
    ),
    "upward, by a name half computed": (
        "blocks.py",
        "from importlib import import_module\nf = lambda x: import_module(f'identifiable.io.{x}')",
        "above it",
    ),
    "upward, by __import__": ("blocks.py", "f = lambda: __import__('identifiable.groups')", "above it"),
    "the front from below": ("io/npy.py", "from identifiable import compare", "above it"),
    "the whole front from below": ("groups.py", "import identifiable", "above it"),
    "sibling": ("similarity.py", "from identifiable.ica import whiten", "sibling ica"),
    "sibling door": ("report/page.py", "from identifiable.io import read", "sibling io"),
    "the exception, but imported": ("results.py", "from identifiable.report import html", "above it"),
    "the exception, from elsewhere": (
        "blocks.py",
        "from importlib import import_module\nf = lambda: import_module('identifiable.report')",
        "above it",
    ),
    "by a computed name": (
        "groups.py",
        "from importlib import import_module\nf = lambda x: import_module(x)",
        "cannot be checked",
    ),
    "unknown room": ("steering.py", "", "an unknown room"),
    "unknown package": ("steering/__init__.py", "", "an unknown room"),
    "import of an unknown room": ("cli.py", "from identifiable.steering import align", "unknown room"),
    "torch outside nn": ("ica.py", "def f():\n    import torch", "torch lives in nn"),
    "torch, a part of it": ("io/pt.py", "from torch.nn import Module", "torch lives in nn"),
    "torch through safetensors": ("io/st.py", "from safetensors.torch import load_file", "torch lives in nn"),
    "matplotlib": ("report/figures.py", "def f():\n    import matplotlib.pyplot as plt", "drawn in report/plots"),
    "matplotlib, even in nn": ("nn/show.py", "from matplotlib import pyplot", "drawn in report/plots"),
    "another plotting library": ("report/plots.py", "import seaborn", "drawn in report/plots"),
    "vague name": ("io/utils.py", "", "vague name"),
    "vague name, private": ("_helpers.py", "", "vague name"),
    "vague package": ("common/__init__.py", "", "vague name"),
    "too long": ("groups.py", "x = 1\n" * (MAX_LINES + 1), "701 lines"),
}
GOOD = {
    "downward": ("groups.py", "from identifiable.moments import Moments\nfrom identifiable import _checks"),
    "downward, relative": ("report/page.py", "from ..results import Comparison"),
    "within a room": (
        "io/npy.py",
        "from identifiable.io.paths import split\nfrom . import paths\nfrom .csv import read",
    ),
    "the exception": (
        "results.py",
        "from importlib import import_module\nf = lambda: import_module('identifiable.report')",
    ),
    "the version": ("results.py", "from identifiable import __version__"),
    "the front from above": ("cli.py", "import identifiable\nfrom identifiable import compare"),
    "lazy exports": ("__init__.py", "from importlib import import_module\nf = lambda x: import_module(x)"),
    "matplotlib where plots are drawn": ("report/plots.py", "def f():\n    from matplotlib import pyplot"),
    "torch in nn": ("nn/train.py", "import torch\nfrom torch import nn"),
    "other people's similar names": ("io/st.py", "import safetensors.numpy\nimport identifiable_data"),
    "long, but not too long": ("groups.py", "x = 1\n" * MAX_LINES),
}


def write_module(tmp_path: Path, name: str, source: str) -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(("name", "source", "complaint"), BAD.values(), ids=BAD)
def test_the_checker_notices(name: str, source: str, complaint: str, tmp_path: Path) -> None:
    found = violations(write_module(tmp_path, name, source))
    assert len([line for line in found if complaint in line]) == 1, found


@pytest.mark.parametrize(("name", "source"), GOOD.values(), ids=GOOD)
def test_the_checker_lets_pass(name: str, source: str, tmp_path: Path) -> None:
    assert violations(write_module(tmp_path, name, source)) == []


# -- sentences for readers are in `report`

# Worlds check their settings by a table of limits, whose words end in a `raise`.
MATHEMATICS = {room for room in HEIGHT if HEIGHT["report"] > HEIGHT[room] >= HEIGHT["results"]} - {"worlds"}
SENTENCE = 6  # words of a text from which on it is taken for a sentence
CODED = {
    "Alert": "Alert",
    "alert": "Alert",
    "Reason": "Reason",
    "Finding": "Finding",
    "Answer": "Answer",
    "Note": "Note",
}


def sentences(source: str) -> list[str]:
    """Texts of so many words outside docstrings and errors: what a reader would be told."""
    tree = ast.parse(source)
    passed: set[int] = set()
    for node in ast.walk(tree):
        error = isinstance(node, ast.Call) and called(node).endswith("Error")
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if error or docstring or isinstance(node, ast.Raise):
            passed.update(map(id, ast.walk(node)))
    found = []
    for node in ast.walk(tree):
        if id(node) in passed or not isinstance(node, ast.JoinedStr | ast.Constant):
            continue
        passed.update(map(id, ast.walk(node)))
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "0" for part in parts)
        if len(re.findall(r"(?<!\S)\W?[a-zA-Z]{2,}", text)) >= SENTENCE:
            found.append(text)
    return found


def test_no_mathematics_holds_a_sentence_for_readers() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix(): texts
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.relative_to(PACKAGE).parts[0].removesuffix(".py") in MATHEMATICS
        and (texts := sentences(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("note = 'rows of this table are too few to tell'", 1),
        ("note = f'{n} rows of this table are too few'", 1),
        ("def f():\n    return Alert('x', 'rows of this table are too few to tell')", 1),
        ("'''A docstring of more than a few words here.'''", 0),
        ("raise DataError(f'{n} rows of this table are too few to tell')", 0),
        ("def f():\n    return DataError('rows of this table are too few to tell')", 0),
        ("Alert('few_rows', {'rows': 3})", 0),
    ],
)
def test_a_sentence_in_mathematics_is_noticed(source: str, count: int) -> None:
    assert len(sentences(source)) == count


def coded(nodes: Iterable[ast.AST]) -> dict[str, set[str]]:
    """The literal codes that a module gives to alerts, reasons, findings and answers, by class."""
    found: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Call) and called(node) in CODED and node.args:
            first = node.args[0]
            choices = [first.body, first.orelse] if isinstance(first, ast.IfExp) else [first]
            texts = {str(n.value) for n in choices if isinstance(n, ast.Constant) and n.value}
            found.setdefault(CODED[called(node)], set()).update(texts)
    return found


def test_every_code_has_words_and_all_words_have_a_code() -> None:
    literals, found = set(), []
    for path in PACKAGE.rglob("*.py"):
        if path.parts[len(PACKAGE.parts)] != "report":
            nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
            literals |= {n.value for n in nodes if isinstance(n, ast.Constant)}
            found.append(coded(nodes))
    for kind in set(CODED.values()):
        raised = {code for each in found for code in each.get(kind, ())}
        assert raised - wordings(kind).keys() == set(), f"{kind} without words"
        computed = {"plate_read", "batch_read"}
        assert wordings(kind).keys() - literals - computed == set(), f"words of {kind} without a code"


def test_a_code_without_words_would_be_noticed() -> None:
    tree = ast.parse("run.alert('no_such_code', n=1)\nAlert('a' if x == 'c' else 'b')")
    assert coded(ast.walk(tree)) == {"Alert": {"no_such_code", "a", "b"}}


def unnamed(codes: Iterable[str], sources: Iterable[str]) -> set[str]:
    """The codes that are a word of no string in these sources; docstrings do not count."""
    left = set(codes)
    for source in sources:
        if left.isdisjoint(re.findall(r"\w+", source)):
            continue  # most sources, once the first are read: parsing all would take seconds
        passed: set[int] = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Expr):
                passed.add(id(node.value))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed:
                left.difference_update(re.findall(r"\w+", node.value))
    return left


def test_every_alert_finding_and_reason_is_named_by_a_test() -> None:
    """By one that sees the code appear, not its words: those are in `tests/report`."""
    tests = ROOT / "tests"
    files = [p for p in tests.rglob("test_*.py") if p != Path(__file__) and tests / "report" not in p.parents]
    files.sort(key=lambda path: -path.stat().st_size)
    codes = {code for kind in ("Alert", "Finding", "Reason") for code in wordings(kind)}
    assert {"few_rows", "plate_read", "nearly_more"} <= codes
    assert unnamed(codes, (path.read_text(encoding="utf-8") for path in files)) == set()


@pytest.mark.parametrize(
    ("sources", "left"),
    [
        ([], {"few_rows", "few_pairs"}),
        (["assert 'few_rows' in codes", "said = {'few_pairs': 3}"], set()),
        (["@pytest.mark.parametrize('code', ['few_rows'])\ndef f(code): ..."], {"few_pairs"}),
        (["told == 'few_rows, few_pairs'"], set()),
        (["f'{n} few_rows'"], {"few_pairs"}),
        (["code = 'few_rows_for_layers'", "code = 'too_few_pairs'"], {"few_rows", "few_pairs"}),  # another code
        (["def test_few_rows(): few_pairs = 1"], {"few_rows", "few_pairs"}),
        (["def test():\n    'That few_rows is said.'\n    # few_pairs"], {"few_rows", "few_pairs"}),
    ],
)
def test_a_code_that_no_test_names_would_be_noticed(sources: list[str], left: set[str]) -> None:
    assert unnamed(["few_rows", "few_pairs"], sources) == left


def test_no_wording_hides_another() -> None:
    """The first wording whose names are all there is taken, so none may need less than one after it."""
    for kind in set(CODED.values()):
        for code, several in wordings(kind).items():
            for i, (_, names) in enumerate(several):
                assert not any(names <= later for _, later in several[i + 1 :]), code


HEAVY = ("torch", "matplotlib", "sklearn", "pandas", "pyarrow", "dask", "jinja2", "scipy.optimize", "scipy.stats")


def loaded_after(statement: str) -> set[str]:
    """Which heavy modules a fresh interpreter holds after `statement`."""
    program = f"{statement}\nimport json, sys\nprint(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = children.run([sys.executable, "-c", program])
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_import_loads_nothing_heavy() -> None:
    assert loaded_after("import identifiable") == set()


def test_the_probe_for_heavy_modules_would_notice() -> None:
    assert "sklearn" in loaded_after("import identifiable, sklearn")
    assert "scipy.optimize" in loaded_after("import identifiable, scipy.optimize")


def missing_exports(module: types.ModuleType) -> list[str]:
    """Names of `__all__` that the module does not give."""
    return [name for name in module.__all__ if not hasattr(module, name)]


def test_every_public_name_can_be_had() -> None:
    front = importlib.import_module("identifiable")
    assert "compare" in front.__all__
    assert missing_exports(front) == []
    assert len(set(front.__all__)) == len(front.__all__)
    assert set(front.__all__) <= set(dir(front))  # lazy names are completed too


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        importlib.import_module("identifiable").no_such_name  # noqa: B018


def test_a_missing_export_is_noticed() -> None:
    module = types.ModuleType("made_up")
    module.present, module.__all__ = 1, ["present", "absent"]  # type: ignore[attr-defined]
    assert missing_exports(module) == ["absent"]


def unshipped(package: Path, patterns: list[str]) -> list[str]:
    """Files beside the code that no package-data pattern takes into the wheel."""
    files = (p for p in package.rglob("*") if p.is_file() and p.suffix != ".py" and p.parent.name != "__pycache__")
    names = (p.relative_to(package).as_posix() for p in files)
    return [n for n in names if not any(fnmatch.fnmatch(n, p.replace("**/", "*")) for p in patterns)]


def test_every_file_beside_the_code_ships_in_the_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["identifiable"]
    assert unshipped(PACKAGE, patterns) == []


def test_a_file_that_would_not_ship_is_noticed(tmp_path: Path) -> None:
    write_module(tmp_path, "report/templates/page.html", "")
    write_module(tmp_path, "report/templates/page.jpeg", "")
    assert unshipped(tmp_path, ["**/*.html"]) == ["report/templates/page.jpeg"]


def test_ci_runs_the_command_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = children.run([str(ROOT / ".ci" / "run"), "--show"]).stdout
    assert shown.strip()
    assert shown.strip() in readme
    assert all(tool in shown for tool in ("constraints.txt", "ruff check", "pytest"))  # mypy: test_types.py


def test_ci_fails_when_the_readme_has_lost_its_command(tmp_path: Path) -> None:
    write_module(tmp_path, "README.md", "# nothing here\n```\npytest\n```\n")
    script = write_module(tmp_path, ".ci/run", (ROOT / ".ci" / "run").read_text(encoding="utf-8")) / ".ci" / "run"
    done = children.run(["bash", str(script), "--show"])
    assert done.returncode != 0
    assert "README.md" in done.stderr
