"""What the spectra of a decoder's Jacobian cost, beside torch's own way to them: python benchmarks/jacobians.py

README.md beside this file says what is divided by what. Writes results/jacobians.json; the exit code is 1 if singular
values differ.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from machine import machine, peak_memory_mb, timed, warnings_of

from identifiable.results import write_text

HERE = Path(__file__).resolve().parent
SEED = 0
LATENTS = (12, 64)
POINTS = {12: 64, 64: 16}  # of ours and of jacfwd; a point of jacrev alone takes many seconds
AGREEMENT = 1e-4  # relative, of both ends of the spectrum
TIMES_FASTER, SHARE_OF_MEMORY = 5, 0.25  # what the issue asks for

Record = dict[str, Any]
Extremes = tuple[Any, Any]

# How many points, and of jacrev how many outputs, are differentiated at once. Two points at once took 5.7 GB here.
METHODS: dict[str, Record] = {
    "ours": {"method": "ours"},
    "bilipschitz": {"method": "bilipschitz"},
    "jacfwd, 4 points": {"method": "jacfwd", "points_at_once": 4},
    "jacfwd, 16 points": {"method": "jacfwd", "points_at_once": 16},
    "jacrev, 512 outputs": {"method": "jacrev", "points_at_once": 1, "outputs_at_once": 512},
    "jacrev, 2048 outputs": {"method": "jacrev", "points_at_once": 1, "outputs_at_once": 2048},
}


# -- in a fresh process


def decoder(latents: int) -> Any:
    """The convolutional decoder of beta-VAE (Higgins et al. 2017; Burgess et al. 2018), 3 x 64 x 64, at random."""
    from torch import manual_seed, nn

    manual_seed(SEED)
    halves: list[nn.Module] = []
    for channels in (32, 32, 32):
        halves += [nn.ConvTranspose2d(32, channels, 4, 2, 1), nn.ReLU()]
    head = [nn.Linear(latents, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 512), nn.ReLU()]
    return nn.Sequential(*head, nn.Unflatten(1, (32, 4, 4)), *halves, nn.ConvTranspose2d(32, 3, 4, 2, 1)).eval()


def ours(g: Any, Z: Any) -> Extremes:
    from identifiable.jacobians import spectra
    from identifiable.nn import products

    found = spectra(products(g), Z)
    return found.smallest, found.largest


def bilipschitz(g: Any, Z: Any) -> Extremes:
    """The public call: also the paper's random directions, the diameter of the points and the bounds."""
    import identifiable

    found = identifiable.bilipschitz(g, Z)
    return found.sigma_min, found.sigma_max


def jacfwd(g: Any, Z: Any, *, points_at_once: int) -> Extremes:
    from torch.func import jacfwd

    return _by_svd(jacfwd(lambda z: g(z[None])[0].flatten()), Z, points_at_once)


def jacrev(g: Any, Z: Any, *, points_at_once: int, outputs_at_once: int) -> Extremes:
    from torch.func import jacrev

    return _by_svd(jacrev(lambda z: g(z[None])[0].flatten(), chunk_size=outputs_at_once), Z, points_at_once)


def _by_svd(jacobian: Callable[..., Any], Z: Any, points_at_once: int) -> Extremes:
    import torch

    J = torch.func.vmap(jacobian, chunk_size=points_at_once)(torch.as_tensor(Z)).detach()
    sigma = torch.linalg.svdvals(J).numpy()
    return sigma[:, -1], sigma[:, 0]


def child(job: Record) -> Record:
    """One method on the first points of a decoder; what it imports and starts is neither timed nor taken for its memory."""
    import torch

    run = {"ours": ours, "bilipschitz": bilipschitz, "jacfwd": jacfwd, "jacrev": jacrev}[job["method"]]
    small = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()).eval()
    run(small, np.eye(2, dtype=np.float32), **job["options"])
    g = decoder(job["latents"])
    Z = np.random.default_rng(SEED).standard_normal((max(POINTS.values()), job["latents"])).astype(np.float32)
    before = peak_memory_mb()
    took = timed(lambda: run(g, Z[: job["points"]], **job["options"]))
    after = peak_memory_mb()
    smallest, largest = took.result
    return {
        "points": job["points"],
        "cpu_s_per_point": took.cpu / job["points"],
        "wall_s_per_point": took.wall / job["points"],
        "peak_mb": after,
        "imports_mb": before,
        "above_imports_mb": after - before,
        "smallest": [float(value) for value in smallest],
        "largest": [float(value) for value in largest],
        "load_average": round(os.getloadavg()[0], 2),
    }


def run_in_child(latents: int, points: int, settings: Record, threads: int) -> Record:
    options = {key: value for key, value in settings.items() if key != "method"}
    job = {"method": settings["method"], "latents": latents, "points": points, "options": options}
    command = [sys.executable, str(Path(__file__).resolve()), "--child", json.dumps(job)]
    limits = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=os.environ | limits)
    if done.returncode:
        raise SystemExit(f"{settings} failed with exit code {done.returncode}; its message is above.")
    record: Record = json.loads(done.stdout.splitlines()[-1])
    return record


# -- beside each other


def at(latents: int, options: argparse.Namespace, tick: Callable[[str], None]) -> Record:
    """Every method in turn, then the fastest setting of each for more rounds; ratios within a round, per point."""
    runs: dict[str, list[Record]] = {}

    def run(name: str, k: int) -> None:
        tick(f"{latents} latents, round {k + 1} of {options.repeat}: {name}")
        points = options.jacrev_points if METHODS[name]["method"] == "jacrev" else POINTS[latents]
        runs.setdefault(name, []).append(run_in_child(latents, points, METHODS[name], options.threads))

    for name in METHODS:
        run(name, 0)
    best = {peer: fastest(peer, runs) for peer in ("jacrev", "jacfwd")}
    for k in range(1, options.repeat):
        for name in ("ours", *best.values()):
            run(name, k)
    ratios = {name: against(taken, runs["ours"]) for name, taken in runs.items() if name != "ours"}
    agreement = {name: disagreement(taken[0], runs["ours"][0]) for name, taken in runs.items() if name != "ours"}
    reverse = ratios[best["jacrev"]]
    kept = {
        name: [{k: v for k, v in run.items() if k not in ("smallest", "largest")} for run in taken]
        for name, taken in runs.items()
    }
    first = runs["ours"][0]
    return {
        "outputs": 3 * 64 * 64,
        "points": {"ours and jacfwd": POINTS[latents], "jacrev": options.jacrev_points},
        "spectrum": {"sigma_min": min(first["smallest"]), "sigma_max": max(first["largest"])},
        "runs": kept,
        "ratios": ratios,
        "fastest": best,
        "largest_relative_difference_of_singular_values": agreement,
        "targets": [
            target(f"{latents} latents: CPU of vmap(jacrev) + svd / ours", reverse["cpu"], ">=", TIMES_FASTER),
            target(f"{latents} latents: memory of ours / theirs", reverse["memory"], "<=", SHARE_OF_MEMORY),
            target(f"{latents} latents: relative difference", max(agreement.values()), "<=", AGREEMENT),
        ],
    }


def fastest(peer: str, runs: dict[str, list[Record]]) -> str:
    """The setting of a peer that took the least CPU."""
    return min(
        (name for name in runs if METHODS[name]["method"] == peer), key=lambda name: runs[name][0]["cpu_s_per_point"]
    )


def against(theirs: Sequence[Record], ours: Sequence[Record]) -> Record:
    """Seconds of theirs over ours by point, and memory above imports of ours over theirs; medians of the rounds."""
    both = list(zip(theirs, ours, strict=False))  # settings that were not the fastest ran in the first round only
    found: Record = {}
    for clock in ("cpu", "wall"):
        every = [a[f"{clock}_s_per_point"] / b[f"{clock}_s_per_point"] for a, b in both]
        found |= {clock: statistics.median(every), f"{clock}_all": every}
    found["memory"] = max(b["above_imports_mb"] for b in ours) / min(a["above_imports_mb"] for a in theirs)
    found["memory_with_imports"] = max(b["peak_mb"] for b in ours) / min(a["peak_mb"] for a in theirs)
    return found


def disagreement(theirs: Record, ours: Record) -> float:
    """Largest relative difference of either end of the spectrum over the points both looked at."""
    worst = 0.0
    for end in ("smallest", "largest"):
        n = min(len(theirs[end]), len(ours[end]))
        a, b = np.array(theirs[end][:n]), np.array(ours[end][:n])
        worst = max(worst, float(np.max(np.abs(a / b - 1))))
    return worst


def target(figure: str, value: float, relation: str, bound: float) -> Record:
    met = value >= bound if relation == ">=" else value <= bound
    return {"figure": figure, "value": value, "target": f"{relation} {bound:g}", "met": bool(met)}


def as_text(report: Record) -> str:
    lines = list(report["warnings"])
    for latents in report["latents"].values():
        for t in latents["targets"]:
            lines.append(f"{t['figure']:60} {t['value']:>10.3g} {t['target']:>10}   {'met' if t['met'] else 'NOT MET'}")
        for name, r in latents["ratios"].items():
            lines.append(
                f"  {name:24} / ours: CPU {r['cpu']:8.2f}, wall {r['wall']:8.2f}, memory of ours {r['memory']:.3f}"
            )
    return "\n".join(lines)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=2, help="rounds")
    parser.add_argument("--jacrev-points", type=int, default=1, help="points jacrev is given; each takes many seconds")
    parser.add_argument("--threads", type=int, default=1, help="of torch and BLAS; one does not spin while it waits")
    parser.add_argument("--latents", type=int, choices=LATENTS, action="append", help="which decoders (default: both)")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "jacobians.json")
    parser.add_argument("--child", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    options = parse()
    if options.child is not None:
        print(json.dumps(child(options.child)))
        return 0
    options.output.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()

    def tick(what: str) -> None:
        print(f"[{time.perf_counter() - start:6.1f} s] {what}", file=sys.stderr, flush=True)

    about = machine()
    found = {str(latents): at(latents, options, tick) for latents in options.latents or LATENTS}
    report = {
        "command": shlex.join(["python", *sys.argv]),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": about | {"torch": version("torch")},
        "warnings": warnings_of(about),
        "threads": options.threads,
        "seconds_in_all": round(time.perf_counter() - start, 1),
        "latents": found,
    }
    write_text(options.output, json.dumps(report, indent=1) + "\n")
    print(as_text(report))
    differ = [
        t for latents in found.values() for t in latents["targets"] if "difference" in t["figure"] and not t["met"]
    ]
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
