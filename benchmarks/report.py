"""How long `munchausen report` takes on the paper's grid, and how large its page is.

uv run python benchmarks/report.py            60 games × 9 agents × 3 runs × 200 iterations
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from munchausen._src.evidence.metrics import aggregates as agg
from munchausen._src.evidence.metrics.bootstrap import estimate
from munchausen._src.experiment.records import CONFIG, RECORDS, RESULT
from munchausen._src.suites import ATARI

AGENTS = ("dqn", "adam-dqn", "soft-dqn", "soft-dqn-low", "al", "m-dqn", "rainbow", "iqn", "m-iqn")
SEEDS, ITERATIONS, ITERATION_STEPS = 3, 200, 250_000
COLUMNS = ("score_100", "loss", "q", "action_gap", "entropy", "steps_per_second")


def write_runs(root: Path) -> None:
    """Folders as `munchausen train --seeds 3` leaves them, with invented scores."""
    generator = np.random.default_rng(0)
    rising = 1 - np.exp(-np.arange(1, ITERATIONS + 1) / 60)
    for name, reference in ATARI.references.items():
        game, low, high = f"atari/{name}", reference["random"], reference["human"]
        for agent in AGENTS:
            folder = root / f"{game.replace('/', '-')}_{agent}"
            folder.mkdir()
            lanes = [{"agent": agent, "seed": seed} for seed in range(SEEDS)]
            config = {"env": game, "lanes": lanes, "steps": ITERATIONS * ITERATION_STEPS}
            config |= {"iteration_steps": ITERATION_STEPS, "changes": {}, "config": {"n_step": 1}}
            (folder / CONFIG).write_text(json.dumps(config))
            (folder / RESULT).write_text(json.dumps({"status": "finished"}))
            noise = generator.normal(0, 0.05, (SEEDS, ITERATIONS)) + generator.lognormal(0, 0.5)
            scores = low + (high - low) * rising * noise
            rest = generator.normal(1, 0.2, (len(COLUMNS), SEEDS, ITERATIONS))
            with open(folder / RECORDS, "w") as file:
                for t in range(ITERATIONS):
                    for seed in range(SEEDS):
                        row = {"env": game, "agent": agent, "seed": seed, "iteration": t + 1}
                        row |= {"step": (t + 1) * ITERATION_STEPS, "score": scores[seed, t]}
                        row |= dict(zip(COLUMNS, rest[:, seed, t].tolist(), strict=True))
                        file.write(json.dumps(row) + "\n")


def main() -> None:
    scores = np.random.default_rng(0).lognormal(0, 1, (10, 5, 60))
    begun = time.perf_counter()
    for agent in scores:
        for statistic in (agg.mean, agg.median, agg.interquartile_mean, agg.optimality_gap):
            estimate(statistic, agent, resamples=2_000)
    print(
        f"60 games × 10 agents × 5 runs × 2,000 resamples, 4 statistics: "
        f"{time.perf_counter() - begun:.1f} s"
    )
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        (root / "runs").mkdir()
        write_runs(root / "runs")
        page = root / "report.html"
        begun = time.perf_counter()
        command = [sys.executable, "-m", "munchausen", "report", str(root / "runs")]
        subprocess.run([*command, "--out", str(page)], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begun
        print(f"munchausen report: {seconds:.1f} s, {page.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
