"""One update of an agent in two versions of the source, in turns.

    python benchmarks/updates.py BEFORE/src AFTER/src m-dqn:minatar/breakout m-iqn:atari/Breakout

The speed of a machine may change by a third within minutes, so the versions take turns: a process
of `munchausen bench` each, for several rounds. What counts is the median over rounds of the ratio
within a round.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path


def microseconds(source: Path, agent: str, env: str, options: list[str]) -> float:
    command = [sys.executable, "-m", "munchausen", "bench", agent, "--env", env, "--json", *options]
    environment = os.environ | {"PYTHONPATH": str(source.resolve())}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} of {source}:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])["microseconds_per_update"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="a folder that holds the package")
    parser.add_argument("after", type=Path)
    parser.add_argument("cases", nargs="+", metavar="AGENT:ENV")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4, help="for each part of `bench`")
    parser.add_argument("--envs", help="environments, where not the agent's own number")
    choice = parser.parse_args()
    options = ["--seconds", str(choice.seconds)]
    if choice.envs:
        options += ["--envs", choice.envs]
    print(f"{'':34} {'before':>9} {'after':>9}   after/before: median (lowest to highest)")
    for case in choice.cases:
        agent, _, env = case.partition(":")
        times: dict[Path, list[float]] = {choice.before: [], choice.after: []}
        for turn in range(choice.rounds):
            # Who goes first changes, or one would always find the machine as the other left it.
            for source in sorted(times, reverse=turn % 2 == 1):
                times[source].append(microseconds(source, agent, env, options))
        before, after = times[choice.before], times[choice.after]
        ratios = [b / a for a, b in zip(before, after, strict=True)]
        medians = [statistics.median(x) for x in (before, after)]
        spread = f"{statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
        print(f"{case:34} {medians[0]:6.1f} µs {medians[1]:6.1f} µs   {spread}", flush=True)


if __name__ == "__main__":
    main()
