"""Would a test notice? 300 small faults, one at a time, in the rooms whose numbers everything else rests on.

A mutant is the source of a room with one change: an operator, a comparison, a constant, `and` for `or`, a returned value, a
statement left out, two arguments exchanged, a slice one short. Lines are drawn at random over the executable lines of `ROOMS`, so a
room has mutants in proportion to its size; then one of the possible changes of that line is drawn. Not touched: docstrings,
annotations, what a `raise` says, `__all__`, imports.

Why not mutmut or cosmic-ray: both start the test suite anew for every mutant (some 5 s of imports here, before a test has run),
and neither knows that numba keeps compiled kernels on disk, so a mutated kernel would not run at all. Here a process that has
collected the tests forks, exchanges the code of one function in place, and runs only tests that execute the line, fastest first,
until one fails. What is executed when a module is imported (constants, defaults, compiled kernels) needs a fresh process.

Which test executes which line is found once and kept in the folder for temporary files, under a hash of sources and tests.
`survivors.toml` has the survivors that were judged by hand: why no test can tell them from the original, or need not.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import hashlib
import io
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import traceback
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from hardening.checks import Check, Setting

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SOURCE = ROOT / "src"
ROOMS = ("groups.py", "moments.py", "bounds.py", "identifiability", "ica", "mechanistic")  # in src/identifiable
TESTS = (  # in tests
    *("test_groups.py", "test_moments.py", "test_bounds.py", "test_similarity.py", "test_limits.py", "test_stages.py"),
    *("identifiability", "ica", "mechanistic"),
)
GOLDEN = "test_golden.py"
LIMITS = "test_limits.py"  # reads constants and executes no line of a room
GOLDEN_RUNS = ("compare", "layers", "resolve", "mechanisms")  # those of these rooms, by the beginning of their names
JUDGED = HERE / "survivors.toml"

MUTANTS = 300
KILLED = 0.85  # issue 25
BUDGET = 20.0  # seconds of tests for a mutant, by the clock of the run that found which test executes what
PATIENCE = 5.0  # a test of a mutant may take so many times as long, and ...
GRACE = 4.0  # ... seconds more, of processor time; then it hangs, which a test would have shown
WALL = 10.0  # times the processor time: a machine may be busy, a deadlock uses none
FRESH = 25.0  # seconds that a fresh process may need to import and compile

NO_FAULT = ("equivalent", "work")  # kinds of survivors.toml that no test of results can kill
CONTROLS = 10  # mutants to an unchanged copy
BROKEN = "could not be made: "
Code = types.CodeType
Test = Callable[[], bool]  # whether it passed
Timed = tuple[str, Test, float]  # its name, and its seconds where nothing is changed


@dataclass(frozen=True)
class Mutant:
    """One change of one file. `function` is the outermost one (empty: executed at import); `which` counts the changes of the file."""

    path: Path
    which: int
    line: int
    lines: range  # of the statement
    function: str
    names: tuple[str, ...]  # what the change is reached by, if it is executed at import
    change: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return _short(self.path), self.function, self.change

    def __str__(self) -> str:
        return f"{_short(self.path)}:{self.line} {self.function}: {self.change}"


def _short(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix() if path.is_relative_to(SOURCE) else path.name


# ---- which changes there are ------------------------------------------------------------------------------------------

SYMMETRIC = ("min", "max", "minimum", "maximum", "hypot", "gcd")
Edit = tuple[ast.AST, Callable[[], None]]  # the node to show, and the change of the tree in place


@dataclass(frozen=True)
class _Change:
    statement: ast.stmt
    function: str
    names: tuple[str, ...]
    line: int
    shown: ast.AST
    edit: Callable[[], None]
    removes: bool = False


OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}


def _set(node: ast.AST, name: str, value: object) -> Callable[[], None]:
    return lambda: setattr(node, name, value)


def _put(values: list[Any], at: int, value: object) -> Callable[[], None]:
    def put() -> None:
        values[at] = value

    return put


def _exchange(node: ast.BinOp) -> Callable[[], None]:
    def exchange() -> None:
        node.left, node.right = node.right, node.left

    return exchange


def _is_symmetric(call: ast.Call) -> bool:
    """Whether its two arguments may be exchanged by definition."""
    return len(call.args) == 2 and ast.unparse(call.func).rpartition(".")[2] in SYMMETRIC


def _edits(node: ast.AST, parent: ast.AST) -> Iterator[Edit]:
    """The changes of one node; those inside it are its children's."""
    match node:
        case ast.BinOp(op=ast.MatMult()):
            if ast.dump(node.left) != ast.dump(node.right):
                yield node, _exchange(node)
        case ast.BinOp() | ast.AugAssign():
            if type(node.op) in OPERATORS:
                yield node, _set(node, "op", OPERATORS[type(node.op)]())
        case ast.Compare():
            for at, op in enumerate(node.ops):
                for other in COMPARISONS[type(op)]:
                    yield node, _put(node.ops, at, other())
        case ast.BoolOp():
            yield node, _set(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
        case ast.Constant():
            changed = _other(node.value)
            if changed is not None and not isinstance(parent, ast.Expr | ast.JoinedStr | ast.FormattedValue):
                yield parent, _set(node, "value", changed[0])
        case ast.Call(args=[first, second, *_]):
            starred = any(isinstance(a, ast.Starred) for a in (first, second))
            if ast.dump(first) != ast.dump(second) and not starred and not _is_symmetric(node):
                yield node, _set(node, "args", [second, first, *node.args[2:]])
        case ast.Slice():
            for name in ("lower", "upper"):
                bound = getattr(node, name)
                if not isinstance(bound, ast.Constant):  # constants are changed anyway
                    one = ast.Constant(1 if name == "lower" else -1)
                    if bound is not None:
                        yield parent, _set(node, name, ast.BinOp(bound, ast.Add(), ast.Constant(1)))
                    elif isinstance(getattr(node, "upper" if name == "lower" else "lower"), ast.expr):
                        yield parent, _set(node, name, one)


def _other(value: object) -> tuple[object] | None:
    if isinstance(value, bool):
        return (not value,)
    if isinstance(value, int | float):
        return (value + 1,)
    return (f"XX{value}",) if isinstance(value, str) else None


def _statements(tree: ast.Module) -> Iterator[tuple[ast.stmt, ast.AST, str, tuple[str, ...]]]:
    """Each statement with its parent, the outermost function around it, and the names by which code at import is reached."""

    def inside(parent: ast.AST, function: str, names: tuple[str, ...], within: str) -> Iterator[Any]:
        for child in ast.iter_child_nodes(parent):
            if isinstance(child, ast.ExceptHandler | ast.match_case):
                yield from inside(child, function, names, within)
            if not isinstance(child, ast.stmt):
                continue
            named = names
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not function:
                named = (child.name,)
            elif isinstance(child, ast.Assign | ast.AnnAssign) and not function and not within:
                targets = child.targets if isinstance(child, ast.Assign) else [child.target]
                named = tuple(t.id for target in targets for t in ast.walk(target) if isinstance(t, ast.Name))
            yield child, parent, function, named
            if isinstance(child, ast.ClassDef):
                yield from inside(child, function, named, f"{within}{child.name}.")
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from inside(child, function or f"{within}{child.name}", named, within)
            else:
                yield from inside(child, function, named, within)

    yield from inside(tree, "", (), "")


def _own(statement: ast.stmt) -> Iterator[tuple[ast.AST, ast.AST]]:
    """The expressions of a statement with their parents: not its body, no annotation, no decorator, nothing of a `raise`."""
    if isinstance(statement, ast.Raise | ast.Import | ast.ImportFrom):
        return
    queue: list[tuple[ast.AST, ast.AST]] = [(statement, statement)]
    while queue:
        node, parent = queue.pop(0)
        if node is not statement and isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            continue
        yield node, parent
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases", "type_comment"):
                continue
            listed = value if isinstance(value, list) else [value]
            queue += [(each, node) for each in listed if isinstance(each, ast.AST)]


def _skipped(statement: ast.stmt, function: str) -> bool:
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        if isinstance(target, ast.Name) and target.id == "__all__":
            return True
        # a type alias at the top of a module is an annotation
        alias = isinstance(statement.value, ast.Subscript) or (
            isinstance(statement.value, ast.BinOp) and isinstance(statement.value.op, ast.BitOr)
        )
        return not function and alias
    return isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test)


def _removable(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)  # a docstring, an ellipsis
    return isinstance(statement, ast.Assign | ast.AugAssign | ast.Raise | ast.Continue | ast.Break)


def _changes(tree: ast.Module) -> Iterator[_Change]:
    for statement, parent, function, names in _statements(tree):
        if _skipped(statement, function):
            continue
        about = (statement, function, names)
        if function and _removable(statement):
            for block in (getattr(parent, name, None) for name in ("body", "orelse", "finalbody")):
                if isinstance(block, list) and statement in block:
                    remove = _put(block, block.index(statement), ast.copy_location(ast.Pass(), statement))
                    yield _Change(*about, statement.lineno, statement, remove, removes=True)
        if isinstance(statement, ast.Return) and statement.value is not None and ast.unparse(statement.value) != "None":
            yield _Change(*about, statement.lineno, statement, _set(statement, "value", ast.Constant(None)))
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        for node, above in _own(statement):
            for shown, edit in _edits(node, above):
                line = getattr(node, "lineno", getattr(shown, "lineno", statement.lineno))
                yield _Change(*about, line, shown, edit)
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
                for name, value in ast.iter_fields(above):
                    if value is node:
                        yield _Change(*about, node.lineno, above, _set(above, name, node.operand))


def mutants(path: Path) -> list[Mutant]:
    """Every change of a file; `described` says what it changes."""
    found = []
    for which, change in enumerate(_changes(ast.parse(path.read_text(encoding="utf-8")))):
        first, body = change.statement.lineno, getattr(change.statement, "body", None)
        last = body[0].lineno - 1 if isinstance(body, list) else change.statement.end_lineno or first
        lines = range(first, max(first, last) + 1)
        found.append(Mutant(path, which, change.line, lines, change.function, change.names))
    return found


def described(mutant: Mutant) -> Mutant:
    """With the text of the change, as `survivors.toml` has it."""
    change = next(islice(_changes(ast.parse(mutant.path.read_text(encoding="utf-8"))), mutant.which, None))
    before = _text(change.shown)
    change.edit()
    return replace(mutant, change=f"{before} -> {'pass' if change.removes else _text(change.shown)}")


def _edited(path: Path, which: int) -> ast.Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    next(islice(_changes(tree), which, None)).edit()
    return ast.fix_missing_locations(tree)


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return f"def {node.name}({ast.unparse(node.args)})" if isinstance(node, ast.FunctionDef) else node.name
    if isinstance(node, ast.arguments | ast.keyword | ast.Slice | ast.expr):
        return ast.unparse(node)
    return ast.unparse(node).splitlines()[0]


def tree_of(mutant: Mutant) -> ast.Module:
    """The whole file with the change."""
    return _edited(mutant.path, mutant.which)


def mutated(mutant: Mutant) -> Code:
    return compile(tree_of(mutant), str(mutant.path), "exec")


def files() -> list[Path]:
    at = SOURCE / "identifiable"
    return sorted(p for room in ROOMS for p in ([at / room] if room.endswith(".py") else (at / room).glob("*.py")))


def sample(number: int, seed: int) -> list[Mutant]:
    """Lines at random over all executable lines, one of the changes of each."""
    draw = random.Random(seed)
    by_line: dict[tuple[Path, int], list[Mutant]] = {}
    for path in files():
        for mutant in mutants(path):
            by_line.setdefault((path, mutant.line), []).append(mutant)
    lines = draw.sample(sorted(by_line), min(number, len(by_line)))
    return [described(draw.choice(by_line[line])) for line in lines]


# ---- what becomes of one ----------------------------------------------------------------------------------------------


def exchange(mutant: Mutant) -> None:
    """Put the changed code into the live functions."""
    new = {code.co_firstlineno: code for code in _codes(mutated(mutant)) if code.co_qualname == mutant.function}
    live = [
        f
        for f in gc.get_objects()
        if type(f) is types.FunctionType  # a dead proxy has no isinstance
        and f.__code__.co_filename == str(mutant.path)
        and f.__code__.co_qualname == mutant.function
        and f.__code__.co_firstlineno in new
    ]
    for function in live:
        function.__code__ = new[function.__code__.co_firstlineno]
    for kept in _caches():
        kept.cache_clear()
    if not live:  # else it would survive unseen
        raise LookupError(f"no function {mutant.function} of {mutant.path.name} is in memory")


def rebinds(mutant: Mutant) -> bool:
    """Whether the change leaves a function with other free variables (`super()` gone): its code cannot be exchanged in place."""

    def free(module: Code) -> dict[int, tuple[str, ...]]:
        return {c.co_firstlineno: c.co_freevars for c in _codes(module) if c.co_qualname == mutant.function}

    return free(compile(mutant.path.read_text(encoding="utf-8"), str(mutant.path), "exec")) != free(mutated(mutant))


def _caches() -> list[Any]:
    """Functions that remember: what they remember, of the collection of tests perhaps, hides a change."""
    return [
        f
        for f in gc.get_objects()
        if type(f) is functools._lru_cache_wrapper and str(f.__module__).startswith("identifiable")
    ]


def _codes(code: Code) -> Iterator[Code]:
    for constant in code.co_consts:
        if isinstance(constant, Code):
            yield constant
            yield from _codes(constant)


def fate(change: Callable[[], object], tests: Sequence[Timed]) -> str | None:
    """The name of the first test that fails after `change`, in a child; "time" if it does not end; None if it survives."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            os.write(writer, _first_failure(change, tests) + b"\n")
        os._exit(0)
    os.close(writer)
    wait = WALL * (
        sum(seconds for _, _, seconds in tests) + max((_limit(seconds) for _, _, seconds in tests), default=1.0)
    )
    ready, _, _ = select.select([reader], [], [], wait)
    answer = os.read(reader, 4096) if ready else b""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(reader)
    found = answer.decode().strip() if answer else "time"
    if found.startswith(BROKEN):
        raise RuntimeError(found)
    return found or None


def _first_failure(change: Callable[[], object], tests: Sequence[Timed]) -> bytes:
    try:
        change()
    except Exception as error:  # not the fault of a mutant
        return f"{BROKEN}{type(error).__name__}: {error}".encode()
    try:
        for name, test, seconds in tests:
            used = resource.getrusage(resource.RUSAGE_SELF)
            limit = int(used.ru_utime + used.ru_stime + _limit(seconds)) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))  # ends the process
            if not test():
                return name.encode()
    except BaseException as error:  # an exit, an interrupt: whatever a test does not survive
        return f"{type(error).__name__}".encode()
    return b""


def _limit(seconds: float) -> float:
    return PATIENCE * seconds + GRACE


# ---- the tests, collected once ----------------------------------------------------------------------------------------


class Watched:
    """Which tests execute which line, and how long each takes."""

    def __init__(self, seconds: dict[str, float], lines: dict[str, dict[int, list[str]]]) -> None:
        self.seconds = seconds
        self.lines = lines
        self.mentions: dict[str, list[tuple[str, int, str]]] = {}  # of a name: file, line, function
        self.compiled: set[tuple[str, str]] = set()
        self.spans: dict[tuple[str, str], range] = {}  # of the functions and classes of a file
        for path in files():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for statement, _, function, _ in _statements(tree):
                if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                    span = range(statement.lineno, (statement.end_lineno or 0) + 1)
                    self.spans.setdefault((_short(path), statement.name), span)
                if isinstance(statement, ast.FunctionDef) and any(
                    "compiled" in ast.unparse(d) or "in_registers" in ast.unparse(d) for d in statement.decorator_list
                ):
                    self.compiled.add((_short(path), statement.name))
                for node, _ in _own(statement):
                    name = (
                        node.id
                        if isinstance(node, ast.Name)
                        else node.attr
                        if isinstance(node, ast.Attribute)
                        else None
                    )
                    if name is not None:
                        at = (_short(path), statement.lineno, function)
                        self.mentions.setdefault(name, []).append(at)

    def at_import(self, mutant: Mutant) -> bool:
        return not mutant.function or (_short(mutant.path), mutant.function) in self.compiled

    def tests(self, mutant: Mutant) -> list[str]:
        """Those that execute the change, fastest first, as many as the budget allows; golden runs last."""
        path = _short(mutant.path)
        if self.at_import(mutant):
            names = (mutant.function,) if mutant.function else mutant.names
            found = {test for name in names for test in self._reaching(name, set())}
            lines = {line for name in names for line in self.spans.get((path, name), ())}
            found |= self._executing(path, lines) or (
                set() if found else self._executing(path, self.lines.get(path, ()))
            )
            found |= {test for test in self.seconds if LIMITS in test}
        else:
            found = self._executing(path, mutant.lines)
        chosen, spent = [], 0.0
        for test in sorted(found, key=lambda t: (GOLDEN in t, self.seconds[t], t)):
            if spent + self.seconds[test] > BUDGET and GOLDEN not in test:
                continue
            spent += self.seconds[test]
            chosen.append(test)
        return chosen

    def _executing(self, path: str, lines: Iterable[int]) -> set[str]:
        return {test for line in lines for test in self.lines.get(path, {}).get(line, ())}

    def _reaching(self, name: str, seen: set[str]) -> set[str]:
        if name in seen:
            return set()
        seen.add(name)
        found: set[str] = set()
        for path, line, function in self.mentions.get(name, ()):
            found |= set(self.lines.get(path, {}).get(line, ()))
            if (path, function) in self.compiled or not function:
                found |= self._reaching(function, seen) if function else set()
        return found


def watch(tests: Sequence[tuple[str, Test]], names: dict[str, str]) -> dict[str, Any]:
    """Run every test with a tracer over `names` (file to short name); a test that fails is left out."""
    seconds: dict[str, float] = {}
    lines: dict[str, dict[int, list[str]]] = {short: {} for short in names.values()}
    seen: set[tuple[str, int]] = set()

    def tracer(frame: types.FrameType, _event: str, _arg: object) -> Any:
        short = names.get(frame.f_code.co_filename)
        if short is None:
            return None

        def local(frame: types.FrameType, event: str, _arg: object) -> Any:
            if event == "line":
                seen.add((short, frame.f_lineno))
            return local

        return local

    caches = _caches()
    for name, test in tests:
        for kept in caches:
            kept.cache_clear()
        seen.clear()
        threading.settrace(tracer)
        sys.settrace(tracer)
        started = time.process_time()
        try:
            passed = test()
        finally:
            sys.settrace(None)
            threading.settrace(None)
        if passed:
            seconds[name] = time.process_time() - started
            for short, line in seen:
                lines[short].setdefault(line, []).append(name)
    return {"seconds": seconds, "lines": lines}


class Judge:
    """A plugin of pytest: in place of running the tests it collected, it finds the fate of mutants."""

    def __init__(self, chosen: Sequence[Mutant], setting: Setting) -> None:
        self.chosen = chosen
        self.setting = setting
        self.found: list[str | None] = []
        self.unchanged: list[str | None] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [
            i for i in items if GOLDEN not in i.nodeid or any(f"moved[{run}" in i.nodeid for run in GOLDEN_RUNS)
        ]

    def pytest_runtestloop(self, session: Any) -> bool:
        from _pytest.runner import runtestprotocol

        items = {item.nodeid: item for item in session.items}
        gc.unfreeze()  # tests/conftest.py has frozen the functions that are to be exchanged, and what is frozen is not listed

        def in_order(names: Sequence[str]) -> list[Test]:
            def run(name: str, after: str | None) -> bool:
                following = items[after] if after else None  # fixtures that it shares are kept
                return not any(r.failed for r in runtestprotocol(items[name], log=False, nextitem=following))

            return [partial(run, name, after) for name, after in zip(names, [*names[1:], None], strict=False)]

        watched = self._watched(list(zip(items, in_order(list(items)), strict=True)))

        def judge(mutant: Mutant, *, control: bool) -> tuple[str | None, str | None]:
            names = watched.tests(mutant)
            run = [(name, test, watched.seconds[name]) for name, test in zip(names, in_order(names), strict=True)]
            if watched.at_import(mutant) or rebinds(mutant):
                return self._fresh(mutant, names, _limit(sum(seconds for _, _, seconds in run)) + FRESH), None
            # the control: the same tests with nothing changed, which pass in a child too
            return fate(partial(exchange, mutant), run), fate(lambda: None, run[:30]) if control else None

        def share(worker: int) -> None:
            for at in range(worker, len(self.chosen), self.setting.jobs):
                found = judge(self.chosen[at], control=at % CONTROLS == 0)
                (self.setting.folder / f"{at}.json").write_text(json.dumps(found))
                print(f"{at + 1} {found[0] or 'SURVIVES'} | {self.chosen[at]}", file=sys.__stderr__, flush=True)

        _in_children(share, self.setting.jobs)
        fates = [json.loads((self.setting.folder / f"{at}.json").read_text()) for at in range(len(self.chosen))]
        self.found = [found for found, _ in fates]
        self.unchanged = [control for _, control in fates[::CONTROLS]]
        return True

    def _watched(self, tests: Sequence[tuple[str, Test]]) -> Watched:
        """What is known of each file of tests, from before or from a run now, in a child: what tests leave in memory ends with it."""
        folder = Path(tempfile.gettempdir(), f"identifiable-hardening-{os.getuid()}")
        folder.mkdir(exist_ok=True)
        seconds: dict[str, float] = {}
        lines: dict[str, dict[int, list[str]]] = {}
        for file, group in groupby(tests, key=lambda test: test[0].partition("::")[0]):
            kept = folder / f"{_stamp(ROOT / file)}.json"
            if not kept.exists():
                _in_children(partial(_look, list(group), kept), 1)
            found = json.loads(kept.read_text())
            seconds |= found["seconds"]
            for path, at in found["lines"].items():
                for line, names in at.items():
                    lines.setdefault(path, {}).setdefault(int(line), []).extend(names)
        return Watched(seconds, lines)

    def _fresh(self, mutant: Mutant, names: Sequence[str], limit: float) -> str | None:
        """In a process that reads the changed file when it imports it, with no compiled code kept from before."""
        if not names:
            return None
        plan = self.setting.folder / f"plan-{os.getpid()}.json"
        plan.write_text(json.dumps({"path": str(mutant.path), "which": mutant.which, "tests": list(names)}))
        cache = self.setting.folder / f"numba-{os.getpid()}"
        subprocess.run(["rm", "-rf", str(cache)], check=True)
        kernels = "@compiled" in mutant.path.read_text(encoding="utf-8")
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)} if kernels else dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join([str(SOURCE), str(HERE.parent)])
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "hardening.mutants", str(plan)],
                cwd=ROOT, env=environment, timeout=limit * WALL, capture_output=True, text=True, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "time"
        return (
            None
            if ended.returncode == 0
            else ended.stdout.strip().splitlines()[-1][:200]
            if ended.stdout.strip()
            else "!"
        )


def _look(tests: Sequence[tuple[str, Test]], kept: Path, _worker: int) -> None:
    part = kept.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(watch(tests, {str(path): _short(path) for path in files()})))
    part.rename(kept)


def _in_children(work: Callable[[int], None], count: int) -> None:
    """`work` of 0, 1, … in as many processes; an error there is one here."""
    children = []
    for worker in range(count):
        child = os.fork()
        if child == 0:
            try:
                work(worker)
                os._exit(0)
            except BaseException:
                traceback.print_exc(file=sys.__stderr__)
            os._exit(1)
        children.append(child)
    ended = [os.waitpid(child, 0)[1] for child in children]
    if any(ended):
        raise RuntimeError("a process of this part has ended with an error")


def _stamp(file: Path) -> str:
    """Of a file of tests, of what it may import, and of all sources."""
    beside = [path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_")]
    hashed = hashlib.sha256(repr(GOLDEN_RUNS).encode())
    for path in (file, *sorted(SOURCE.rglob("*.py")), *sorted(beside)):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()[:16]


ARGUMENTS = (
    *("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "timeout=0", "-o", "addopts="),
    # plain: pytest would read and rewrite a file it is given by itself, past the changed source
    *("--doctest-modules", "--import-mode=importlib", "--assert=plain"),
)


def _collected() -> list[str]:
    tests = [ROOT / "tests" / name for name in (*TESTS, GOLDEN)]
    rooms = [SOURCE / "identifiable" / room for room in ROOMS]
    return [*ARGUMENTS, "-m", "not long", *map(str, (*tests, *rooms))]


def judged() -> dict[tuple[str, str, str], tuple[str, str]]:
    """Survivors that were judged by hand: their kind, and the reason."""
    table = tomllib.loads(JUDGED.read_text(encoding="utf-8"))["survivor"]
    return {(each["file"], each["function"], each["change"]): (each["kind"], each["why"]) for each in table}


def checks(setting: Setting) -> Iterator[Check]:
    import pytest

    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
    os.chdir(ROOT)
    sys.path.insert(0, str(SOURCE))
    chosen = sample(setting.of(MUTANTS), setting.seed)
    judge = Judge(chosen, setting)
    killed = Check("mutants", f"killed (seed {setting.seed})")
    unchanged = Check("mutants", "an unchanged copy passes")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        ended = pytest.main(_collected(), plugins=[judge])
    if len(judge.found) < len(chosen):
        raise RuntimeError(f"pytest ended with {ended}: {said.getvalue()[-2000:]}")
    reasons = judged()
    for found in judge.found:
        killed.count("" if found is None else None)
    killed.examples = [  # all of them, to be judged
        f"{mutant}  [{': '.join(reasons.get(mutant.key, ('NOT JUDGED',)))}]"
        for mutant, found in zip(chosen, judge.found, strict=True)
        if found is None
    ]
    for fate_ in judge.unchanged:
        unchanged.count(fate_)
    equivalent = sum(
        1 for m, f in zip(chosen, judge.found, strict=True) if not f and reasons.get(m.key, ("",))[0] in NO_FAULT
    )
    killed.most = int(len(chosen) * (1 - KILLED))
    timed = sum(f == "time" for f in judge.found)
    share = 1 - killed.broken / max(killed.tried, 1)
    without = 1 - (killed.broken - equivalent) / max(killed.tried - equivalent, 1)
    killed.note = (
        f"{share:.1%} of all, {without:.1%} without {equivalent} judged to change no result; {timed} by time-out"
    )
    yield killed
    yield unchanged


def _alone(plan: dict[str, Any]) -> int:
    """The fresh process: read the changed file at import, run the tests, say the first that fails."""
    from importlib.machinery import SourceFileLoader
    from unittest.mock import patch

    import pytest

    path = Path(plan["path"])
    changed = compile(_edited(path, plan["which"]), str(path), "exec")
    original = SourceFileLoader.get_code

    def get_code(self: Any, name: str) -> Code | None:
        return changed if self.path == str(path) else original(self, name)

    wanted = plan["tests"]

    class Chosen:
        failed: str | None = None

        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            by_id = {item.nodeid: item for item in items}
            items[:] = [by_id[name] for name in wanted if name in by_id]

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed and self.failed is None:
                self.failed = report.nodeid

    seen = Chosen()
    with patch.object(SourceFileLoader, "get_code", get_code), contextlib.redirect_stdout(io.StringIO()):
        ended = pytest.main(
            [
                *ARGUMENTS,
                "--doctest-modules",
                "--import-mode=importlib",
                "-x",
                *sorted({n.partition("::")[0] for n in wanted}),
            ],
            plugins=[seen],
        )
    print(seen.failed or f"pytest ended with {ended}")
    return int(ended)


if __name__ == "__main__":
    sys.exit(_alone(json.loads(Path(sys.argv[1]).read_text())))
