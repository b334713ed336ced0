"""What a run keeps in its folder as it goes: records, checkpoints with the replay, and what a
tracker is sent of them."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from munchausen._src.core.replay import Ring
from munchausen._src.errors import TrainingDiverged, UserError, writing
from munchausen._src.experiment.accounting import LaneAccount
from munchausen._src.experiment.checkpoint import (
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
from munchausen._src.experiment.folder import RunFolder
from munchausen._src.experiment.records import RecordWriter, read_records, records_bytes
from munchausen._src.experiment.segments import SegmentWriter, is_large, ring_rows
from munchausen._src.experiment.settings import Settings, comparable, differences
from munchausen._src.experiment.trackers import Tracker, open_tracker
from munchausen._src.loops.chunk import Loop
from munchausen._src.loops.host import HostLoop


class Counters(NamedTuple):
    """How far a run is, beside its loop's state."""

    step: int
    seconds: float
    accounts: Sequence[LaneAccount]  # one for each lane


class Keeping:
    """Of one run. `find` and `begin` open its folder, in this order; `release` lets go of it, and
    `go_on` takes it up again."""

    def __init__(self, folder: RunFolder, settings: Settings, track: str | None):
        self.folder: RunFolder | None = folder
        self._settings = settings
        self._track = track  # where the records go besides the folder
        self._records: RecordWriter | None = None
        self._segments: SegmentWriter | None = None
        self._tracker: Tracker | None = None
        self._keep_bytes = 0  # of the records
        # Byte offset in the records of an iteration that the run's end cut short. A run that
        # continues writes its rows again, over the whole iteration.
        self._unfinished_from: int | None = None

    def find(self, loop: Loop) -> tuple[Counters, Any] | None:
        """The newest whole checkpoint, if there is one, with a snapshot for the loop to restore.
        Without one, nothing must be lost."""
        folder = self._opened()
        shapes = jax.eval_shape(lambda: loop.snapshot(loop.init()))
        ring = shapes.lane.replay.ring
        segmented = _in_segments(loop, ring)
        self._refuse_others(folder)
        saved = read_latest(folder.path, shapes, segmented=segmented)
        if segmented:
            self._segments = SegmentWriter(folder.path, ring, saved.segments if saved else [])
        if saved is None:
            folder.check_without_checkpoint()
            return None
        counters = self._read_counters(saved.counters)
        if counters.step > self._settings.steps:
            raise UserError(
                f"{folder.path} is at step {counters.step:,} already; ask for more --steps"
            )
        return counters, saved.state

    def begin(self, step: int, episodes_cut: int) -> None:
        """Makes the folder ready for the rows after `step`. The order matters: the settings are
        written before the records are truncated for them."""
        folder = self._opened()
        folder.note_start(self._settings, step, episodes_cut)
        with self.writing():
            set_aside_after(folder.path, step)
        self._records = RecordWriter(folder.path, self._keep_bytes)
        if self._track is not None:
            kept = read_records(folder.path)
            self._tracker = open_tracker(self._track, folder.path, self._settings.to_json(), kept)

    def release(self) -> None:
        for each in (self._segments, self._tracker, self._records, self.folder):
            if each is not None:
                each.close()
        self.folder, self._records, self._segments, self._tracker = None, None, None, None

    def go_on(self, folder: RunFolder, settings: Settings, loop: Loop, state: Any) -> None:
        """With a folder that was let go of, and a state that was kept in memory."""
        self.folder, self._settings = folder, settings
        unfinished, self._unfinished_from = self._unfinished_from, None
        kept = records_bytes(folder.path) if unfinished is None else unfinished
        self._records = RecordWriter(folder.path, kept)
        if isinstance(loop, HostLoop) and is_large(ring := loop.replay(state)):
            newest = list_checkpoints(folder.path)[-1:]
            written = named_blocks(newest[0]) if newest else []
            self._segments = SegmentWriter(folder.path, ring, written)

    def append(self, rows: list[dict[str, Any]], *, whole: bool) -> None:
        """The rows of an iteration; `whole` unless the run's end cut it short."""
        assert self._records is not None
        with self.writing():
            self._unfinished_from = None if whole else self._records.sync()
            self._records.append(rows)
        if self._tracker is not None:
            self._tracker.append(rows)

    def follow(self, loop: Loop, state: Any, rows: int) -> None:
        """Writes blocks of the replay as they fill: `rows` of each environment are stored."""
        if self._segments is not None:
            with self.writing():
                self._segments.follow(loop.replay(state), rows)

    def wait(self) -> None:
        """Until all that was begun is on disk."""
        if self._segments is not None:
            with self.writing():
                self._segments.wait()

    def checkpoint(self, counters: Counters, snapshot: Any) -> None:
        with self.writing():
            self._checkpoint(counters, snapshot)

    def writing(self) -> AbstractContextManager[None]:
        return writing(self._opened().path)

    def _opened(self) -> RunFolder:
        assert self.folder is not None
        return self.folder

    def _refuse_others(self, folder: RunFolder) -> None:
        """Agents of one network have checkpoints of one shape: what they are of is written."""
        mine = comparable(self._settings)
        for place in list_checkpoints(folder.path):
            try:
                theirs = read_manifest(place)["counters"].get("settings", mine)
                found = differences(theirs, mine)
            except (DamagedCheckpoint, AttributeError, KeyError):
                continue  # said when it is read
            for name, value, own in found:
                raise UserError(
                    f"{place} is of another run: its {name} is {value}, this run's is {own}"
                )

    def _read_counters(self, saved: dict[str, Any]) -> Counters:
        try:
            accounts = [LaneAccount.from_json(x) for x in saved["accounts"]]
            counters = Counters(int(saved["step"]), float(saved["seconds"]), accounts)
            if len(accounts) != len(self._settings.lanes) or counters.step < 0:
                raise ValueError("they are of another run")
            unfinished = saved["unfinished_from"]
            self._keep_bytes = int(saved["records_bytes"])
            if unfinished is not None and counters.step < self._settings.steps:
                self._keep_bytes = int(unfinished)
            elif unfinished is not None:
                self._unfinished_from = int(unfinished)
            return counters
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"the counters of the checkpoint cannot be read: {error}") from error

    def _checkpoint(self, counters: Counters, snapshot: Any) -> None:
        folder, step = self._opened(), counters.step
        assert self._records is not None
        if not all(jnp.isfinite(x).all() for x in jax.tree.leaves(snapshot.lane.learner.online)):
            # The last update may have broken them after a loss that was still finite.
            raise TrainingDiverged(f"a weight is NaN or infinite at step {step:,}; stopped")
        written = {
            "step": step,
            "seconds": counters.seconds,
            "records_bytes": self._records.sync(),
            "unfinished_from": self._unfinished_from,
            "settings": comparable(self._settings),
            "accounts": [account.to_json() for account in counters.accounts],
        }
        if self._segments is None:
            write_checkpoint(folder.path, step, snapshot, written)
            return
        # The next steps overwrite this memory: copy it now, and do the rest in the background.
        ring = snapshot.lane.replay.ring
        oldest = int(jnp.max(ring.head)) - ring_rows(ring) + 1
        # A cut episode takes a row more than its steps, so rows run ahead of the count of steps.
        self._segments.follow(ring, int(jnp.min(ring.head)))
        state = jax.tree.map(lambda x: x.copy(), without_replay(snapshot))
        writer, tail = self._segments, self._segments.tail(ring)

        def write() -> None:
            write_checkpoint(folder.path, step, state, written, writer.segments(tail, oldest))
            writer.prune(full_blocks(folder.path))

        writer.submit(write)


def _in_segments(loop: Loop, ring: Ring) -> bool:
    """Whether checkpoints keep the replay in blocks."""
    return isinstance(loop, HostLoop) and is_large(ring)
