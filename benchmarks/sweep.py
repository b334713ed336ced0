"""What a sweep costs beside the runs themselves: 8 short runs through `munchausen sweep`, against
the best arrangement of the same runs by hand, `munchausen train` in a shell, in the same go.

    uv run python benchmarks/sweep.py

By hand: a process a run, or a process for the seeds of a configuration, as many at once as there
are cores. Every arrangement once before, untimed, so that all find their programs compiled.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

AGENTS, ENVS, SEEDS = ("dqn", "m-dqn"), ("minatar/breakout", "minatar/asterix"), 2


def munchausen(*arguments: str) -> None:
    command = [sys.executable, "-m", "munchausen", *arguments]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.stderr)


def by_hand(out: Path, steps: int, cores: int, *, together: bool) -> None:
    """As `xargs -P` would."""
    groups = [("0", str(SEEDS))] if together else [(str(seed), "1") for seed in range(SEEDS)]
    commands = [
        ("train", agent, "--env", env, "--steps", str(steps), "--seed", first, "--seeds", count)
        for env in ENVS
        for agent in AGENTS
        for first, count in groups
    ]
    with ThreadPoolExecutor(cores) as pool:
        jobs = [
            pool.submit(munchausen, *command, "--out", str(out / str(i)))
            for i, command in enumerate(commands)
        ]
        for job in jobs:
            job.result()


def by_sweep(out: Path, steps: int) -> None:
    names = ("--agents", ",".join(AGENTS), "--envs", ",".join(ENVS), "--seeds", str(SEEDS))
    munchausen("sweep", *names, "--steps", str(steps), "--out", str(out))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    ways = {
        "a process a run": lambda out: by_hand(out, options.steps, cores, together=False),
        "a process a configuration": lambda out: by_hand(out, options.steps, cores, together=True),
        "munchausen sweep": lambda out: by_sweep(out, options.steps),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MUNCHAUSEN_CACHE_DIR"] = str(Path(folder) / "cache")
        for turn in range(options.rounds + 1):
            for name, way in ways.items():
                begun = time.monotonic()
                way(Path(folder) / name.replace(" ", "-") / str(turn))
                if turn:
                    seconds[name].append(time.monotonic() - begun)
                    print(f"{name}: {seconds[name][-1]:.1f} s", flush=True)
    *hand, ours = [min(values) for values in seconds.values()]
    print(f"{cores} cores, {options.steps:,} steps a run; best of {options.rounds} rounds")
    print(f"sweep / best by hand = {ours:.1f} / {min(hand):.1f} = {ours / min(hand):.2f}")


if __name__ == "__main__":
    main()
