"""Training from start, or from a checkpoint, to the end."""

import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from munchausen import envs
from munchausen.errors import TrainingDiverged, UserError, writing
from munchausen.experiment.accounting import LaneAccount, check_finite
from munchausen.experiment.checkpoint import (
    DamagedCheckpoint,
    full_blocks,
    list_checkpoints,
    named_blocks,
    read_latest,
    read_manifest,
    set_aside_after,
    without_replay,
    write_checkpoint,
)
from munchausen.experiment.evaluation import phase
from munchausen.experiment.folder import RunFolder
from munchausen.experiment.pace import Progress, Speed, pause_after
from munchausen.experiment.records import RecordWriter, read_records, records_bytes
from munchausen.experiment.segments import Block, SegmentWriter, is_large
from munchausen.experiment.settings import Settings, chunk_steps, comparable, differences
from munchausen.experiment.stopping import Interrupted, StopSignals
from munchausen.experiment.trackers import Tracker, open_tracker
from munchausen.loops.chunk import Loop
from munchausen.loops.device import DeviceLoop
from munchausen.loops.host import HostLoop
from munchausen.replay import Ring


def make_loop(settings: Settings) -> Loop:
    listing, lanes = settings.listing, list(settings.lanes)
    if listing.loop == "device":
        return DeviceLoop(settings.config, envs.make_jax(listing), lanes)
    return HostLoop(
        settings.config,
        partial(envs.make_host, listing),
        lanes,
        asynchronous=listing.asynchronous,
    )


class Training:
    """One run in progress. With a folder it keeps records and checkpoints there; without,
    it only holds its state (the Python API's `learn`)."""

    def __init__(
        self, settings: Settings, folder: RunFolder | None = None, track: str | None = None
    ):
        self.settings = settings
        self.folder = folder
        self.track = track  # where the records go besides the folder
        self.loop = make_loop(settings)
        self.step = 0
        self.seconds = 0.0
        self.accounts = [LaneAccount() for _ in settings.lanes]
        self.rows: list[dict[str, Any]] = []  # of this process, newest last
        self.state: Any = None
        self._records: RecordWriter | None = None
        self._segments: SegmentWriter | None = None
        self._tracker: Tracker | None = None
        self._signals = StopSignals()
        # Where in the records the rows begin of an iteration that the run's end cut short: a run
        # that goes on beyond it writes them again, of the whole iteration.
        self._unfinished_from: int | None = None

    def start(self) -> None:
        """From the newest whole checkpoint of the folder, or from the beginning."""
        keep_bytes, saved = 0, None
        if self.folder is not None:
            shapes = jax.eval_shape(lambda: self.loop.snapshot(self.loop.init()))
            segmented = self._segmented(shapes.lane.ring)
            self._refuse_others(self.folder.path)
            saved = read_latest(self.folder.path, shapes, segmented=segmented)
            if segmented:
                written = saved.segments if saved else []
                self._segments = SegmentWriter(self.folder.path, shapes.lane.ring, written)
        if saved is None:
            if self.folder is not None:
                self.folder.check_without_checkpoint()
            self.state = self.loop.init()
        else:
            keep_bytes = self._restore_counters(saved.counters)
            self.state = self.loop.restore(saved.state)
        if self.folder is not None:
            if self.step > self.settings.steps:
                raise UserError(
                    f"{self.folder.path} is at step {self.step:,} already; ask for more --steps"
                )
            # In this order: records are cut for the settings that the folder says.
            self.folder.note_start(self.settings)
            if saved is not None:
                with self._writing():
                    set_aside_after(self.folder.path, self.step)
            self._records = RecordWriter(self.folder.path, keep_bytes)
            if self.track is not None:
                kept = read_records(self.folder.path)
                config = self.settings.to_json()
                self._tracker = open_tracker(self.track, self.folder.path, config, kept)

    def _refuse_others(self, folder: Path) -> None:
        """Agents of one network have checkpoints of one shape: what they are of is written."""
        mine = comparable(self.settings)
        for place in list_checkpoints(folder):
            try:
                theirs = read_manifest(place)["counters"].get("settings", mine)
                found = differences(theirs, mine)
            except (DamagedCheckpoint, AttributeError, KeyError):
                continue  # said when it is read
            for name, value, own in found:
                raise UserError(
                    f"{place} is of another run: its {name} is {value}, this run's is {own}"
                )

    def _restore_counters(self, counters: dict[str, Any]) -> int:
        """Returns how much of the records to keep."""
        try:
            self.step, self.seconds = int(counters["step"]), float(counters["seconds"])
            self.accounts = [LaneAccount.from_json(x) for x in counters["accounts"]]
            if len(self.accounts) != len(self.settings.lanes) or self.step < 0:
                raise ValueError("they are of another run")
            unfinished = counters["unfinished_from"]
            if unfinished is None or self.step < self.settings.steps:
                return int(counters["records_bytes"] if unfinished is None else unfinished)
            self._unfinished_from = int(unfinished)
            return int(counters["records_bytes"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"the counters of the checkpoint cannot be read: {error}") from error

    def run(self, watch: Callable[[Progress], None] = lambda _: None) -> None:
        """Trains to `settings.steps`. On SIGINT or SIGTERM it ends before, between two chunks,
        where the state is whole, and with a folder it has written a checkpoint."""
        with self._signals:
            stop = self._run(watch)
            if self._segments is not None:
                with self._writing():
                    self._segments.wait()
        if stop is None:
            return
        if self.folder is None and stop == signal.SIGINT:
            raise KeyboardInterrupt  # as in any other call
        raise Interrupted(stop, f"at step {self.step:,}")

    def attach(self, folder: RunFolder) -> None:
        """Goes on keeping records in a folder that `detach` let go of."""
        self.folder = folder
        unfinished, self._unfinished_from = self._unfinished_from, None
        kept = records_bytes(folder.path) if unfinished is None else unfinished
        self._records = RecordWriter(folder.path, kept)
        ring = self.loop.replay(self.state)
        if self._segmented(ring):
            newest = list_checkpoints(folder.path)[-1:]
            written = named_blocks(newest[0]) if newest else []
            self._segments = SegmentWriter(folder.path, ring, written)

    def _segmented(self, ring: Ring) -> bool:
        """Whether checkpoints keep the replay in blocks."""
        return isinstance(self.loop, HostLoop) and is_large(ring)

    def detach(self) -> None:
        """Closes the folder; the state stays, to learn on or to play."""
        if self._segments is not None:
            self._segments.close()
            self._segments = None
        if self._tracker is not None:
            self._tracker.close()
        if self._records is not None:
            self._records.close()
        if self.folder is not None:
            self.folder.close()
        self.folder, self._records, self._tracker = None, None, None

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
        watch(self._progress(0.0, compiling=True))
        while self.step < settings.steps:
            ends = min(_next_multiple(self.step, settings.iteration_steps), settings.steps)
            length = min(chunk, ends - self.step)
            self.state, result = self.loop.advance(self.state, self.step, length)
            self.step += length
            if self._segments is not None:
                passed = self.step // settings.config.envs
                with self._writing():
                    self._segments.follow(self.loop.replay(self.state), passed)
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
                with self._writing():
                    self.checkpoint()
                checkpointed = time.monotonic()
                pause = pause_after(checkpointed - begun_writing, settings.checkpoint_seconds)
            if stop is not None and not done:
                return stop
        return None

    def _writing(self) -> AbstractContextManager[None]:
        return writing(self.folder.path if self.folder else "the run")

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
        if (frames := settings.listing.frames_per_step) > 1:
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
        if self._records is not None:
            with self._writing():
                self._unfinished_from = None if whole else self._records.sync()
                self._records.append(rows)
        if self._tracker is not None:
            self._tracker.append(rows)

    def _evaluate(self, lane: int, iteration: int) -> dict[str, Any]:
        """The columns of an evaluation phase, where one is asked for."""
        settings = self.settings
        if not settings.evaluation_steps:
            return {}
        spec = settings.lanes[lane]
        result = phase(
            settings,
            self.loop.network(self.state, lane),
            spec.regulariser,
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
        if self.folder is None or self._records is None:
            return
        snapshot = self.loop.snapshot(self.state)
        if not all(jnp.isfinite(x).all() for x in jax.tree.leaves(snapshot.lane.learner.online)):
            # The last update may have broken them after a loss that was still finite.
            raise TrainingDiverged(f"a weight is NaN or infinite at step {self.step:,}; stopped")
        counters = {
            "step": self.step,
            "seconds": self.seconds,
            "records_bytes": self._records.sync(),
            "unfinished_from": self._unfinished_from,
            "settings": comparable(self.settings),
            "accounts": [account.to_json() for account in self.accounts],
        }
        if self._segments is None:
            write_checkpoint(self.folder.path, self.step, snapshot, counters)
            return
        # The next steps use this memory up: copies, and the rest in the background.
        ring = snapshot.lane.ring
        oldest = int(jnp.max(ring.head)) - ring.frames.shape[1] + 1
        # A cut episode takes a row more than its steps, so rows run ahead of the count of steps.
        self._segments.follow(ring, int(jnp.min(ring.head)))
        state = jax.tree.map(lambda x: x.copy(), without_replay(snapshot))
        tail = self._segments.tail(ring)
        self._segments.submit(
            partial(self._write_segmented, self._segments, self.step, state, counters, tail, oldest)
        )

    def _write_segmented(
        self,
        writer: SegmentWriter,
        step: int,
        state: Any,
        counters: dict[str, Any],
        tail: list[Block],
        oldest: int,
    ) -> None:
        assert self.folder is not None
        segments = writer.segments(tail, oldest)
        write_checkpoint(self.folder.path, step, state, counters, segments)
        writer.prune(full_blocks(self.folder.path))

    def _progress(self, speed: float, compiling: bool = False) -> Progress:
        scores = [account.score for account in self.accounts]
        learning = self.step > self.settings.config.warmup_steps
        frames = self.settings.listing.frames_per_step
        return Progress(self.step, self.settings.steps, scores, speed, compiling, learning, frames)


def _next_multiple(step: int, period: int) -> int:
    return (step // period + 1) * period
