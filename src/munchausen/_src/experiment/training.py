"""Training from start, or from a checkpoint, to the end."""

import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from munchausen._src import suites as envs
from munchausen._src.agents.over_time import regulariser_at
from munchausen._src.experiment.accounting import LaneAccount, check_finite
from munchausen._src.experiment.evaluation import phase
from munchausen._src.experiment.folder import RunFolder
from munchausen._src.experiment.keeping import Counters, Keeping
from munchausen._src.experiment.pace import Progress, Speed, pause_after
from munchausen._src.experiment.settings import Settings, chunk_steps
from munchausen._src.experiment.stopping import Interrupted, StopSignals
from munchausen._src.loops.chunk import Loop
from munchausen._src.loops.device import DeviceLoop
from munchausen._src.loops.host import HostLoop


def make_loop(settings: Settings) -> Loop:
    settings = settings.begun()
    listing, lanes = settings.listing, list(settings.lanes)
    if listing.suite.loop == "device":
        return DeviceLoop(settings.config, envs.make_jax(listing), lanes)
    return HostLoop(
        settings.config,
        partial(envs.make_host, listing),
        lanes,
        batches=2 if listing.suite.asynchronous else 1,
    )


class Training:
    """One run in progress. With a folder it keeps records and checkpoints there; without,
    it only holds its state (the Python API's `learn`)."""

    def __init__(
        self, settings: Settings, folder: RunFolder | None = None, track: str | None = None
    ):
        self.settings = settings = settings.begun()
        self.loop = make_loop(settings)
        self.step = 0
        self.seconds = 0.0
        self.accounts = [LaneAccount() for _ in settings.lanes]
        self.rows: list[dict[str, Any]] = []  # of this process, newest last
        self.state: Any = None
        self._keeping = Keeping(folder, settings, track) if folder is not None else None
        self._signals = StopSignals()

    @property
    def folder(self) -> RunFolder | None:
        return self._keeping.folder if self._keeping else None

    def start(self) -> None:
        """From the newest whole checkpoint of the folder, or from the beginning."""
        found = self._keeping.find(self.loop) if self._keeping else None
        if found is None:
            self.state = self.loop.init()
        else:
            (self.step, self.seconds, self.accounts), snapshot = found
            self.state = self.loop.restore(snapshot)
        if self._keeping is not None:
            # Environments on the host cannot be restored: each begins an episode of its own.
            cut = found is not None and isinstance(self.loop, HostLoop)
            episodes = len(self.settings.lanes) * self.settings.config.envs
            self._keeping.begin(self.step, episodes if cut else 0)

    def run(self, watch: Callable[[Progress], None] = lambda _: None) -> None:
        """Trains to `settings.steps`. On SIGINT or SIGTERM it ends before, between two chunks,
        where the state is whole, and with a folder it has written a checkpoint."""
        with self._signals:
            stop = self._run(watch)
            if self._keeping is not None:
                self._keeping.wait()
        if stop is None:
            return
        if self.folder is None and stop == signal.SIGINT:
            raise KeyboardInterrupt  # as in any other call
        raise Interrupted(stop, f"at step {self.step:,}")

    def attach(self, folder: RunFolder) -> None:
        """Goes on keeping records in a folder that `detach` let go of."""
        assert self._keeping is not None
        self._keeping.go_on(folder, self.settings, self.loop, self.state)

    def detach(self) -> None:
        """Closes the folder; the state stays, to learn on or to play."""
        if self._keeping is not None:
            self._keeping.release()

    def close(self) -> None:
        self.loop.close()
        self.detach()

    def _run(self, watch: Callable[[Progress], None]) -> int | None:
        """Returns the signal that asked for an end before the end, if one did."""
        settings = self.settings
        chunk = chunk_steps(settings)
        begun, before = time.monotonic(), self.seconds
        iteration_begun, iteration_from, checkpointed = begun, self.step, begun
        pause = settings.checkpoint_seconds
        speed = Speed(settings.config.warmup_steps)
        pending: Callable[[], None] | None = None
        started = self.step
        watch(self._progress(0.0, compiling=True))
        while self.step < settings.steps:
            ends = min(_next_multiple(self.step, settings.iteration_steps), settings.steps)
            length = min(chunk, ends - self.step)
            if started < self.step <= settings.config.warmup_steps < self.step + length:
                watch(self._progress(0.0, compiling=True))  # of what learns
            self.state, result = self.loop.advance(self.state, self.step, length)
            self.step += length
            if self._keeping is not None:
                self._keeping.follow(self.loop, self.state, self.step // settings.config.envs)
            # While the device runs this chunk, look at the one before it.
            if pending:
                pending()
            pending = partial(self._account, result, self.step)
            boundary = self.step == ends
            if boundary:
                pending()
                pending = None
            now = time.monotonic()
            self.seconds = before + now - begun
            watch(self._progress(speed.at(self.step, now) * len(settings.lanes)))
            if boundary:
                # Of the steps this process has taken, without the evaluation that may follow.
                self._end_iteration((self.step - iteration_from) / max(now - iteration_begun, 1e-9))
                iteration_begun, iteration_from = time.monotonic(), self.step
            # Looked at once, as it may arrive at any line, and after the evaluation, which is long.
            stop = self._signals.asked
            done = self.step >= settings.steps
            save = now - checkpointed >= pause or done or stop is not None
            if save and pending:
                pending()
                pending = None
            if save:
                begun_writing = time.monotonic()
                self.checkpoint()
                checkpointed = time.monotonic()
                pause = pause_after(checkpointed - begun_writing, settings.checkpoint_seconds)
            if stop is not None and not done:
                return stop
        return None

    def _account(self, result: Callable[[], Any], step: int) -> None:
        chunk = result()
        check_finite(chunk, self.settings, step)
        for lane, account in enumerate(self.accounts):
            account.add(chunk, lane)

    def _end_iteration(self, steps_per_second: float) -> None:
        settings = self.settings
        iteration = -(-self.step // settings.iteration_steps)
        whole = self.step % settings.iteration_steps == 0
        speed = {"steps_per_second": round(steps_per_second, 1)}
        if (frames := settings.listing.suite.frames_per_step) > 1:
            speed["frames_per_second"] = round(frames * steps_per_second, 1)
        rows = []
        for lane, (spec, account) in enumerate(zip(settings.lanes, self.accounts, strict=True)):
            row = {
                "env": settings.env,
                "agent": spec.agent,
                "seed": spec.seed,
                "iteration": iteration,
                "step": self.step,
                **account.row(),
                **self._evaluate(lane, iteration),
                **speed,
                "seconds": round(self.seconds, 3),
            }
            if whole:
                account.begin_iteration()
            rows.append(row)
        self.rows = [row for row in self.rows if row["iteration"] != iteration] + rows
        if self._keeping is not None:
            self._keeping.append(rows, whole=whole)

    def _evaluate(self, lane: int, iteration: int) -> dict[str, Any]:
        """The columns of an evaluation phase, where one is asked for."""
        settings = self.settings
        if not settings.evaluation_steps:
            return {}
        spec = settings.lanes[lane]
        result = phase(
            settings,
            self.loop.network(self.state, lane),
            regulariser_at(spec.config, self.step),
            steps=settings.evaluation_steps,
            epsilon=settings.config.evaluation_epsilon,
            # Of the iteration, so that a resumed run plays what it would have played.
            seed=spec.seed * 1_000_003 % 2**24 + iteration * 1_000,
        )
        return {
            "evaluation_score": float(np.mean(result.returns)),
            "evaluation_episodes": len(result.returns),
        }

    def checkpoint(self) -> None:
        if self._keeping is not None:
            counters = Counters(self.step, self.seconds, self.accounts)
            self._keeping.checkpoint(counters, self.loop.snapshot(self.state))

    def _progress(self, speed: float, compiling: bool = False) -> Progress:
        scores = [account.score for account in self.accounts]
        learning = self.step > self.settings.config.warmup_steps
        frames = self.settings.listing.suite.frames_per_step
        return Progress(self.step, self.settings.steps, scores, speed, compiling, learning, frames)


def _next_multiple(step: int, period: int) -> int:
    return (step // period + 1) * period
