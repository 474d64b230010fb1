"""How commands end on Ctrl-C and SIGTERM (docs/interrupting.md), and that no test can hang."""

from __future__ import annotations

import ast
import importlib.util
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import children
import identifiable
from children import interrupted, needs_proc
from identifiable._stopping import unfinished
from identifiable.cli import main

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals of POSIX")


@pytest.fixture(scope="module")
def signals() -> ModuleType:
    spec = importlib.util.spec_from_file_location("signals", ROOT / "scripts" / "signals.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


# -- at random moments


@needs_proc
def test_signals_at_random_moments_leave_nothing(signals: ModuleType, tmp_path: Path) -> None:
    rng = np.random.default_rng(17)
    np.save(tmp_path / "a.npy", rng.laplace(size=(9000, 4)))
    np.save(tmp_path / "tall.npy", np.zeros((2_000_000, 4), np.float32))
    identifiable.save_basis(tmp_path / "basis.safetensors", identifiable.resolve(tmp_path / "a.npy", stability=0))
    commands = [
        signals.Command(["compare", "a.npy", "a.npy", "--no-intervals", "--json", "r.json"], ["r.json"]),
        signals.Command(["transform", "basis.safetensors", "tall.npy", "-o", "z.npy"], ["z.npy"]),
    ]
    for k in range(4):  # each command by each signal
        found = signals.strike(commands[k % 2], tmp_path, list(signals.CODES)[k // 2], rng.uniform(0, 1.5))
        assert [fault for fault in found.faults if not fault.endswith(" s")] == [], found  # no test is timed


@needs_proc
def test_the_script_notices_a_process_that_ends_as_it_should_not(
    signals: ModuleType, tmp_path: Path, monkeypatch
) -> None:
    rogue = "import time, sys\nopen('r.json', 'w').write('{')\nopen('x.part', 'w')\ntime.sleep(99)"  # struck when x.part is there
    (tmp_path / "identifiable.py").write_text(f"import signal\nsignal.signal(15, lambda *_: 1 / 0)\n{rogue}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    command = signals.Command(["compare"], ["r.json"])
    found = signals.strike(command, tmp_path, signal.SIGTERM, 0.0, lambda: (tmp_path / "x.part").exists())
    said = " ".join(found.faults)
    assert not found.outside
    assert all(words in said for words in ("exit code 1", "ZeroDivisionError", "x.part", "r.json"))


# -- while a file is being written


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("output", ["z.npy", "z.parquet", "z.h5ad"])
def test_a_signal_while_rows_are_written_leaves_no_temporary_file(tmp_path, monkeypatch, output, number):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.random.default_rng(0).laplace(size=(2000, 4)))
    identifiable.save_basis("basis.safetensors", identifiable.resolve("a.npy", stability=0))
    np.lib.format.open_memmap("tall.npy", "w+", np.float32, (3_000_000, 4)).flush()
    before = sorted(os.listdir())
    code, err = interrupted(
        ["transform", "basis.safetensors", "tall.npy", "-o", output], lambda pid: any(Path().glob(".*.part")), number
    )
    assert (code, len(err.splitlines()), "Traceback" in err) == (128 + number, 1, False), err
    assert sorted(os.listdir()) == before


def test_a_new_folder_goes_with_its_files(tmp_path):
    code, err = interrupted(
        ["simulate", "sources", "-o", f"{tmp_path}/new", "--rows", "20000000", "--columns", "8"],
        lambda pid: any(tmp_path.glob("new/.*.part")),
        signal.SIGTERM,
    )
    assert (code, list(tmp_path.iterdir())) == (143, []), err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_threads_that_make_folders_again_without_pause_leave_none(tmp_path, number):
    """As those of zarr do, which makes the folders of a chunk with the chunk: not even between the last look and the end."""
    program = """
import os, threading, time
from identifiable.results.writing import whole_folder
leave = os._exit
def late(code):
    time.sleep(0.1)
    leave(code)
os._exit = late
def write(where):
    while True:
        try:
            os.makedirs(where, exist_ok=True)
            open(f"{where}/chunk", "wb").close()
        except OSError:
            pass
with whole_folder("z.zarr") as path:
    for k in range(4):
        threading.Thread(target=write, args=(f"{path}/c/{k}",), daemon=True).start()
    print("writing", flush=True)
    time.sleep(99)
"""
    with started(BEGIN + program, cwd=tmp_path) as process:
        assert process.stdout.readline() == "writing\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, len(err.splitlines())) == (128 + number, 1), err
    assert list(tmp_path.iterdir()) == []


def test_files_that_belong_together_take_their_names_before_the_end(tmp_path):
    program = """
import os, time
from identifiable import _stopping
from identifiable.results.writing import write_texts
_stopping.end_on_signals()
replace = os.replace
def slowly(source, target):
    replace(source, target)
    print("one", flush=True)
    time.sleep(0.1)
os.replace = slowly
write_texts({"a": "1", "b": "2"})
time.sleep(99)
"""
    with started(program, cwd=tmp_path) as process:
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert "files completed: 2" in err


def test_what_is_finished_is_registered_no_more(tmp_path):
    identifiable.save_basis(
        tmp_path / "b.safetensors", identifiable.resolve(np.random.default_rng(0).laplace(size=(500, 2)), stability=0)
    )
    assert not unfinished


# -- how the process ends


@contextmanager
def started(program: str, **options):
    """A child that runs `program` and has printed a line."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with children.child([sys.executable, "-c", program], **pipes, **options) as process:
        assert process.stdout.readline(), process.stderr.read()
        yield process


BEGIN = "from identifiable import _stopping; _stopping.end_on_signals(); print('ready', flush=True)\n"


def test_a_long_call_into_compiled_code_does_not_keep_a_command_alive():
    """No handler of Python runs in there; this one takes hours."""
    with started(f"import hashlib\n{BEGIN}hashlib.pbkdf2_hmac('sha256', b'', b'', 2 * 10**9)") as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


def test_an_import_lock_that_is_held_for_ever_does_not_keep_a_command_alive():
    held = """
import _imp, threading
def wait(): import json
_imp.acquire_lock()
threading.Thread(target=wait).start()
"""
    with started(f"{held}{BEGIN}threading.main_thread().join()") as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 143


def test_a_second_signal_ends_a_command_whose_first_is_stuck(tmp_path):
    stuck = f"""
import time
from identifiable.results.writing import whole_file
_stopping._say = lambda line: time.sleep(99)
with whole_file({str(tmp_path / "x")!r}):
    print('stuck', flush=True)
    time.sleep(99)
"""
    with started(BEGIN + stuck) as process:
        assert process.stdout.readline() == "stuck\n"
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        assert len(list(tmp_path.iterdir())) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
    assert list(tmp_path.iterdir()) == []


def test_a_reader_of_stderr_that_has_stopped_reading_does_not_keep_a_command_alive():
    filled = "import os, sys\nos.set_blocking(2, False)\ntry:\n    while True: os.write(2, b'x' * 4096)\nexcept BlockingIOError: pass\n"
    with started(f"{filled}os.set_blocking(2, True)\n{BEGIN}import time; time.sleep(99)") as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130


def test_a_signal_to_a_fork_is_not_one_to_its_parent():
    program = """
import os, signal, sys, time
child = os.fork()
if not child:
    time.sleep(99)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
    with started(BEGIN + program) as process:
        assert process.wait(timeout=60) == 0
        assert (process.stdout.read(), process.stderr.read()) == (f"{-signal.SIGTERM}\n", "")


def test_a_command_whose_files_go_because_it_is_stopped_says_nothing_of_them():
    """Whatever ends the process holds `steady` while it removes them."""
    program = """
import threading
from identifiable.cli.commands import run
_stopping.steady.acquire()
refused = threading.Thread(target=run, args=(["report", "absent.json", "-o", "p.html"],), daemon=True)
refused.start()
refused.join(0.3)
print(refused.is_alive())
_stopping.steady.release()
refused.join(60)
print(refused.is_alive())
"""
    done = children.run([sys.executable, "-c", BEGIN + program])
    assert (done.stdout.split(), len(done.stderr.splitlines())) == (["ready", "True", "False"], 1), done


def test_a_signal_that_is_ignored_stays_ignored():
    ignore = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    with started(f"{ignore}{BEGIN}signal.raise_signal(signal.SIGINT)") as process:
        assert process.wait(timeout=60) == 0


def test_a_call_from_python_keeps_its_own_signals(capsys):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(SystemExit):
        main(["--version"])
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_the_command_heeds_signals_before_it_imports_numpy():
    program = """
import sys
from identifiable.cli import main
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            import signal
            print(signal.getsignal(signal.SIGTERM), flush=True)
            signal.raise_signal(signal.SIGTERM)
            import time; time.sleep(99)
sys.meta_path.insert(0, Watch())
sys.argv = ["identifiable", "demo"]
main()
"""
    done = children.run([sys.executable, "-c", program])
    assert (done.returncode, len(done.stderr.splitlines())) == (143, 1), done


# -- threads import nothing

RECORDED = """
import sys, threading
class Recorder:
    found = []
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is not threading.main_thread():
            self.found.append(name)
sys.meta_path.insert(0, Recorder())
import numpy as np
rng = np.random.default_rng(0)
{work}
print(sorted(set(Recorder.found)))
"""
SCREEN = """
import identifiable.deconfound as deconfound
from identifiable.worlds import cells
world = cells("tiny")
deconfound.evaluate(world.X, metadata=world.metadata, level="target", min_wells=5, max_targets=1, rotations=1, bootstrap=10,
                    representations=["base"], classifiers=["logistic"], workers=2)
"""
WORK = {
    "compare": "import identifiable\nX = rng.laplace(size=(9000, 3)).astype(np.float32)\n"
    "identifiable.compare(X, X[:, ::-1] + 1, null_draws=2, workers=2)",
    "disentangle": "from identifiable.metrics import infomec\nZ = rng.standard_normal((400, 3))\n"
    "infomec(Z, rng.integers(0, 3, (400, 2)), workers=2)",
    "evaluate": SCREEN,
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_no_thread_imports(work):
    done = children.run([sys.executable, "-c", RECORDED.format(work=work)])
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["[]"]), done.stdout + done.stderr


def test_the_recorder_notices_an_import_in_a_thread():
    work = (
        "from identifiable.blocks import in_threads\nfrom identifiable.run import Run\n"
        "in_threads(lambda k: __import__('colorsys'), range(3), Run(workers=2))"
    )
    done = children.run([sys.executable, "-c", RECORDED.format(work=work)])
    assert done.stdout == "['colorsys']\n", done.stderr


# -- no test hangs

HANGS = """
import time
def test_that_hangs():
    while True:
        try:
            time.sleep(99)
        except BaseException:
            pass
def test_that_does_not():
    pass
"""


def test_a_test_that_hangs_ends_and_the_others_run(tmp_path):
    (tmp_path / "test_hanging.py").write_text(HANGS)
    begun = time.monotonic()
    words = ["-q", "-n", "1", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "--timeout", "1"]
    done = children.run([sys.executable, "-m", "pytest", *words, str(tmp_path / "test_hanging.py")], cwd=tmp_path)
    counts = ("1 failed" in done.stdout, "1 passed" in done.stdout)
    assert (done.returncode, *counts) == (1, True, True), done.stdout
    assert time.monotonic() - begun < children.SECONDS


def test_every_test_has_a_time_limit(pytestconfig):
    assert 0 < float(pytestconfig.getini("timeout")) < 1000
    assert float(pytestconfig.getini("timeout")) > children.SECONDS
    assert pytestconfig.getini("timeout_method") == "thread"  # the other one cannot end what waits again


def endless_waits(source: str) -> list[int]:
    """Lines that start a process and may wait for it for ever: a call of `subprocess` without a timeout, or a bare Popen."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    starts = {"run", "call", "check_call", "check_output", "Popen"}
    return [
        call.lineno
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and (call.func.value.id, call.func.attr) in {("os", "system"), *(("subprocess", name) for name in starts)}
        and (call.func.attr == "Popen" or not any(word.arg == "timeout" for word in call.keywords))
    ]


def test_no_test_waits_for_a_child_for_ever():
    texts = {path.name: path.read_text() for path in (ROOT / "tests").rglob("*.py") if path.name != "children.py"}
    found = {name: endless_waits(text) for name, text in texts.items() if "subprocess." in text or "os.system" in text}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_an_endless_wait_is_noticed():
    assert endless_waits("import subprocess\nsubprocess.run(['x'])\nsubprocess.run(['x'], timeout=3)") == [2]
    assert endless_waits("subprocess.Popen(['x'], timeout=3)\nos.system('x')") == [1, 2]


def test_a_child_that_hangs_is_killed_with_all_it_has_started(tmp_path):
    script = f"sleep 99 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(subprocess.TimeoutExpired):
        children.run(["bash", "-c", script], seconds=1)
    grandchild = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 30
    while running(grandchild) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running(grandchild)


def running(pid: int) -> bool:
    """Whether a process runs: neither gone nor waiting to be reaped by whoever has adopted it."""
    done = children.run(["ps", "-o", "stat=", "-p", str(pid)])
    return done.stdout.strip()[:1] not in ("", "Z")
