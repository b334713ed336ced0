"""One update of an agent in two versions of the source, in turns.

    python benchmarks/updates.py BEFORE/src AFTER/src m-dqn:minatar/breakout m-iqn:atari/Breakout

The speed of a machine may change by a third within minutes, and by more where others work on it. So
each version has a process, which compiles once, and the two take turns of a fraction of a second.
What counts is the median over turns of the ratio within a turn. Beside the time by the clock is the
processor's, of all threads, which others who work on the machine change less.
"""

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path


def answer(agent: str, env: str, seconds: float, capacity: int) -> None:
    """In a process of one version: a time for each line that is read."""
    root = "munchausen._src" if importlib.util.find_spec("munchausen._src") else "munchausen"
    settings, training, bench = (
        import_module(f"{root}.experiment.{name}") for name in ("settings", "training", "bench")
    )
    setup = settings.make_settings([agent], env, seeds=[0], changes={"capacity": capacity})
    measured = bench.Bench(training.make_loop(setup))
    measured.warm_up("learner")
    measured.run("learner", seconds)
    print("ready", flush=True)
    for _ in sys.stdin:
        before, clock, processor = (
            measured._steps["learner"],
            time.perf_counter(),
            time.process_time(),
        )
        measured.run("learner", seconds)
        times = time.perf_counter() - clock, time.process_time() - processor
        updates = (measured._steps["learner"] - before) / setup.config.update_period_steps
        print(*(1e6 * each / updates for each in times), flush=True)


def start(source: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--answer", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(source.resolve())}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout
    if process.stdout.readline() != "ready\n":
        sys.exit(f"{source} cannot be measured: {arguments}")
    return process


def ask(process: subprocess.Popen[str]) -> list[float]:
    """By the clock, and of the processor."""
    assert process.stdin
    assert process.stdout
    print(file=process.stdin, flush=True)
    return [float(word) for word in process.stdout.readline().split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="a folder that holds the package")
    parser.add_argument("after", type=Path)
    parser.add_argument("cases", nargs="+", metavar="AGENT:ENV")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--capacity", type=int, default=30_000, help="of the replay; two are full")
    choice = parser.parse_args()
    print("µs an update; the ratio with the middle half of its turns")
    print(f"{'':32} {'by':9} {'before':>8} {'after':>8}  after/before")
    for case in choice.cases:
        agent, _, env = case.partition(":")
        sources = (choice.before, choice.after)
        processes = [start(x, agent, env, choice.seconds, choice.capacity) for x in sources]
        turns = []
        for turn in range(choice.turns):
            # Who goes first changes, or one would always find the machine as the other left it.
            found = {i: ask(processes[i]) for i in ((0, 1) if turn % 2 else (1, 0))}
            turns.append((found[0], found[1]))
        for process in processes:
            process.communicate()  # no more lines: it ends
        for i, name in enumerate(("clock", "processor")):
            before, after = ([turn[side][i] for turn in turns] for side in (0, 1))
            ratios = [b / a for a, b in zip(before, after, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            medians = f"{statistics.median(before):8.1f} {statistics.median(after):8.1f}"
            print(
                f"{case:32} {name:9} {medians}  {middle:.3f} ({low:.3f} to {high:.3f})", flush=True
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        answer(*sys.argv[2:4], float(sys.argv[4]), int(sys.argv[5]))
    else:
        main()
