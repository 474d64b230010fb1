"""Every promise tried by force, one table.

    python scripts/hardening                        # all parts, two at a time; writes benchmarks/results/hardening.json
    python scripts/hardening --only kills,disks     # some of them
    python scripts/hardening --share 0.01 --output /tmp/try.json

A part is a module here with `checks(setting)`, which yields a `Check` for each row of the table. Exit code 1 says that a promise was
broken; the examples under the table say how. `load` (an hour of mixed commands) runs only if it is named.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "benchmarks" / "results" / "hardening.json"
PARTS = ("readers", "mutants", "kills", "disks", "hostile", "values", "concurrency", "references")  # longest first
ALONE = ("load",)
# Two parts run at a time; and OpenMP waits for ever, in a fork, for threads that its parent has started.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}

sys.path[0] = str(HERE.parent)  # not this folder: its modules are those of a package
from hardening.checks import Check, Setting  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    parser.add_argument("--share", type=float, default=1.0, help="share of the full number of tries")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="parts that run at a time")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--part", help=argparse.SUPPRESS)  # one part, in this process
    given = parser.parse_args()
    if given.part:
        return _alone(given.part, given.seed, given.share, given.output)
    names = given.only.split(",")
    unknown = sorted(set(names) - {*PARTS, *ALONE})
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join((*PARTS, *ALONE))}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as pool:

        def run(name: str) -> list[Check]:
            kept = Path(folder, f"{name}.json")
            command = [
                sys.executable,
                str(HERE),
                "--part",
                name,
                "--seed",
                str(given.seed),
                "--share",
                str(given.share),
            ]
            ended = subprocess.run([*command, "--output", str(kept)], env=ONE_THREAD, check=False)
            if not kept.exists():
                return [Check(name, "the part itself", 1, 1, examples=[f"ended with {ended.returncode}"])]
            return [Check(**each) for each in json.loads(kept.read_text())]

        found = [check for checks in pool.map(run, names) for check in checks]
    minutes = (time.monotonic() - started) / 60
    print(table(found, minutes))
    record = {"minutes": minutes, "seed": given.seed, "share": given.share, "checks": [_plain(c) for c in found]}
    given.output.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(check.kept for check in found) else 1


def _alone(name: str, seed: int, share: float, output: Path) -> int:
    module = importlib.import_module(f"hardening.{name}")
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for check in module.checks(Setting(seed, share, Path(folder))):
            print(f"{name}: {check.name}: {check.tried - check.broken} of {check.tried}", file=sys.stderr, flush=True)
            found.append(check)
    output.write_text(json.dumps([_plain(check) for check in found]))
    return 0


def _plain(check: Check) -> dict[str, object]:
    return {name: value for name, value in asdict(check).items() if name != "started"}


def table(checks: list[Check], minutes: float) -> str:
    """The rows in Markdown, then what went wrong."""
    rows = ["| part | what | tried | broken | seconds | |", "|---|---|---|---|---|---|"]
    for c in checks:
        broken = f"{c.broken}" if c.kept else f"**{c.broken}**"
        allowed = f" (at most {c.most})" if c.most else ""
        rows.append(f"| {c.part} | {c.name} | {c.tried:,} | {broken}{allowed} | {c.seconds:.0f} | {c.note} |")
    wrong = [f"- {c.part}, {c.name}: {example}" for c in checks if c.broken for example in c.examples]
    return "\n".join([*rows, "", f"{minutes:.1f} minutes.", *wrong])


if __name__ == "__main__":
    sys.exit(main())
