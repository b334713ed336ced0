"""Where the time of whole training on Atari goes: the host's part of each turn of a batch.

    python benchmarks/overlap.py --env atari/Breakout --seconds 4
    python benchmarks/overlap.py --try threads=10 nice=5 --try batches=5 threads=5 --try apart=2

The preset and each `--try` take turns, since a machine's speed changes by a third within minutes;
each is a process with emulators and a replay of its own. They start their emulators side by side
and compile one after the other (timings choose kernels). A line of JSON for each:

    envs=K      environments in all
    batches=K   environments in K batches that take turns (1 if updates cannot be split so)
    threads=K   emulator threads of each batch
    nice=K      how far emulators give way to the threads that feed the device; 20: SCHED_IDLE,
                they run on cores that nothing else wants
    apart=K     so many cores are kept free of emulators
    sender=0    actions are waited for in the turn itself, not on a thread of their own
    loops=1     a program's loops are a part of its graph of kernels, on a GPU

A turn of a batch is: wait until its last actions were handed over ("actions"), wait for its
emulators, start storing and acting, start learning. Meanwhile a thread of its own waits for the
device to have the actions and hands them over ("sender thread"; with sender=0 a part of the turn).
"""

import argparse
import json
import multiprocessing
import os
import time
from collections import defaultdict
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import jax

from munchausen._src.agents import override, resolve
from munchausen._src.agents.config import LaneSpec
from munchausen._src.experiment.bench import Bench
from munchausen._src.kernels.compiling import OPTIONS
from munchausen._src.kernels.machine import cores
from munchausen._src.loops.host import HostLoop
from munchausen._src.suites import find
from munchausen._src.suites.atari.emulators import AtariEnvironments

TRIED = ("envs", "batches", "threads", "nice", "apart", "sender", "loops")
ROUNDS = 4
IDLE = 20  # one beyond the largest niceness
# XLA's default and WHILE. With CONVOLUTION later starts on a machine failed (README.md).
GRAPHS = "FUSION,CUBLAS,CUBLASLT,CUDNN,CUSTOM_CALL,DYNAMIC_SLICE_FUSION,WHILE"
PARTS = ("actions", "emulators", "start", "learn", "count", "sender thread")


def waited() -> float:
    """Seconds that this thread was ready to run and had no core (Linux)."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


class Clock:
    """Seconds spent in each part, how many of them on a core, and how many ready for one without
    getting it; the others it slept."""

    def __init__(self) -> None:
        self.runs = False
        self.spent: dict[str, float] = defaultdict(float)
        self.on_a_core: dict[str, float] = defaultdict(float)
        self.for_a_core: dict[str, float] = defaultdict(float)
        self.turns = 0

    @contextmanager
    def running(self):
        self.runs = True
        try:
            yield
        finally:
            self.runs = False

    @contextmanager
    def part(self, name: str):
        if not self.runs:
            yield
            return
        begun, worked, without = time.perf_counter(), time.thread_time(), waited()
        try:
            yield
        finally:
            self.spent[name] += time.perf_counter() - begun
            self.on_a_core[name] += time.thread_time() - worked
            self.for_a_core[name] += waited() - without

    def a_turn(self, spent: dict[str, float]) -> dict[str, float]:
        return {name: round(1e3 * spent[name] / max(1, self.turns), 2) for name in PARTS}

    def timed(self, name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            with self.part(name):
                return function(*arguments)

        return call


class TimedLoop(HostLoop):
    """The loop itself, its parts under the clock."""

    def __init__(self, clock: Clock, *arguments: Any, **options: Any):
        super().__init__(*arguments, **options)
        self.clock = clock
        self._submit = self._sender.submit
        self._sender.submit = self._submit_timed  # type: ignore[method-assign]
        self._store = clock.timed("start", self._store)
        self._learn = clock.timed("learn", self._learn)
        self._hand_over = clock.timed("sender thread", self._hand_over)
        self._count = clock.timed("count", self._count)
        for envs in self.envs:
            envs.receive = clock.timed("emulators", envs.receive)

    def send_at_once(self) -> None:
        def call(function: Any, *arguments: Any) -> Any:
            function(*arguments)
            done: Future[None] = Future()
            done.set_result(None)
            return done

        self._submit = call

    def _submit_timed(self, *arguments: Any) -> Any:
        self.clock.turns += self.clock.runs
        future = self._submit(*arguments)
        future.result = self.clock.timed("actions", future.result)
        return future


@contextmanager
def cores_apart(count: int):
    """Threads started within stay off the first `count` cores; the caller comes back to them."""
    everywhere = os.sched_getaffinity(0)
    if count:
        os.sched_setaffinity(0, sorted(everywhere)[count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, everywhere)


class Trial:
    """The loop under one set of changes, ready to take turns with others."""

    def __init__(self, args: argparse.Namespace, tried: dict[str, int]):
        self.tried, self.clock, self.seconds = tried, Clock(), args.seconds
        if tried.get("loops"):
            OPTIONS["gpu"]["xla_gpu_enable_command_buffer"] = GRAPHS
        self.listing = find(args.env)
        changes = dict(item.split("=", 1) for item in args.set)
        if "envs" in tried:
            changes["envs"] = str(tried["envs"])
        config = override(resolve(args.agent, self.listing.prefix), changes)
        lane = LaneSpec(args.agent, 0, config)
        options = {name: tried[name] for name in ("threads", "nice") if name in tried}
        game, protocol = self.listing.game, self.listing.protocol
        make = partial(AtariEnvironments, game, protocol=protocol, **options)

        def make_loop() -> TimedLoop:
            if tried.get("nice") == IDLE:
                os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            loop = TimedLoop(self.clock, config, make, [lane], batches=tried.get("batches", 2))
            if not tried.get("sender", 1):
                loop.send_at_once()
            return loop

        # On a thread of its own: the emulators' threads inherit its policy.
        with cores_apart(tried.get("apart", 0)), ThreadPoolExecutor(1) as pool:
            self.loop = pool.submit(make_loop).result()

    def prepare(self) -> str:
        self.bench = Bench(self.loop)
        self.bench.warm_up("training")
        self.bench.settle(self.seconds / 2, "environments", "training")
        return f"# ready: {self.tried}, {jax.devices()[0].device_kind}"

    def run(self) -> str:
        self.bench.run("environments", self.seconds / ROUNDS)
        with self.clock.running():
            self.bench.run("training", self.seconds / ROUNDS)
        return self.report()

    def report(self) -> str:
        frames, clock = self.listing.suite.frames_per_step, self.clock
        emulators, whole = self.bench.rate("environments"), self.bench.rate("training")
        report = {
            "tried": self.tried,
            "batches": len(self.loop.envs),
            "emulators": round(emulators * frames),
            "whole": round(whole * frames),
            "ratio": round(whole / emulators, 3),
            "ms a turn": clock.a_turn(clock.spent),
            "on a core": clock.a_turn(clock.on_a_core),
            "for a core": clock.a_turn(clock.for_a_core),
        }
        return json.dumps(report)


def take_turns(args: argparse.Namespace, tried: dict[str, int], orders: Connection) -> None:
    """A process of its own: a trial that does as it is told."""
    trial = Trial(args, tried)
    with closing(trial.loop):
        for order in iter(orders.recv, "end"):
            orders.send(getattr(trial, order)())


def parse(argument: str) -> tuple[str, int]:
    name, _, value = argument.partition("=")
    if name not in TRIED or not value.isdigit():
        raise argparse.ArgumentTypeError(f"{argument}: not {' or '.join(TRIED)}=NUMBER")
    return name, int(value)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="atari/Breakout")
    parser.add_argument("--agent", default="m-dqn")
    parser.add_argument("--set", nargs="*", default=[], metavar="FIELD=VALUE")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--try", dest="tries", nargs="+", action="append", type=parse, default=[])
    args = parser.parse_args()
    tries = [{}, *map(dict, args.tries)]
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 / len(tries):.3f}")
    print(f"# {cores()} cores, jax {jax.__version__}", flush=True)
    trials, processes, context = [], [], multiprocessing.get_context("spawn")
    for tried in tries:
        here, there = context.Pipe()
        process = context.Process(target=take_turns, args=(args, tried, there), daemon=True)
        process.start()
        there.close()  # so that a trial that dies is noticed
        trials.append(here)
        processes.append(process)

    def tell(trial: Connection, order: str) -> str:
        trial.send(order)
        try:
            return trial.recv()
        except (EOFError, ConnectionError):
            raise SystemExit(f"{tries[trials.index(trial)]} ended: what it said is above") from None

    for trial in trials:
        print(tell(trial, "prepare"), flush=True)
    for turn in range(ROUNDS):
        reports = [tell(trial, "run") for trial in (trials if turn % 2 else trials[::-1])]
        print(f"# so far, {turn + 1} of {ROUNDS} rounds", flush=True)
        print(*(reports if turn % 2 else reports[::-1]), sep="\n", flush=True)
    for trial, process in zip(trials, processes, strict=True):
        trial.send("end")
        process.join()


if __name__ == "__main__":
    main()
