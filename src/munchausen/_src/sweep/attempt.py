"""One process that trains one job, watched from outside.

The same on every backend: the local one holds several at once, a Ray task holds one.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from munchausen._src.experiment.checkpoint import list_checkpoints
from munchausen._src.experiment.records import CONFIG, is_live, records_bytes
from munchausen._src.sweep.heartbeat import read_heartbeat
from munchausen._src.sweep.plan import Job

LOGS = "logs"
EVERY_SECONDS = 0.1  # between looks at a process
STOP_SECONDS = 120.0  # for a checkpoint, when asked to stop
_TAIL_BYTES = 4_000


class Outcome(NamedTuple):
    status: str  # finished, failed or stopped (it was asked to)
    error: str = ""
    retry: bool = False  # whether another attempt may do better


class Attempt:
    """A training under way. `environment` is set for its process on top of this one's."""

    def __init__(self, job: Job, root: Path, stall_seconds: float, environment: dict[str, str]):
        self.job = job
        self._place = root / job.name
        self._log = root / LOGS / f"{job.name}.log"
        self._stall_seconds = stall_seconds
        self._environment = os.environ | environment
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._seen: Any = None
        self._seen_at = time.monotonic()
        self._stopping: float | None = None

    def poll(self) -> Outcome | None:
        """Starts it, looks after it, and says what it came to once it has ended."""
        now = time.monotonic()
        if self._process is None:
            return self._begin(now)
        code = self._process.poll()
        if code is not None:
            return self._ended(code)
        if self._stopping is not None:
            if now - self._stopping > STOP_SECONDS:
                self.kill()
                return Outcome("stopped", "killed: it did not stop when asked")
            return None
        seen = (read_heartbeat(self._place), records_bytes(self._place))
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        elif now - self._seen_at > self._stall_seconds:
            self.kill()
            step = seen[0].step if seen[0] else 0
            return Outcome(
                "failed",
                f"hung: no progress for {self._stall_seconds:g} s at step {step:,}; killed",
                retry=True,
            )
        return None

    def stop(self) -> None:
        """Asks it to write a checkpoint and end; `poll` says when it has."""
        if self._stopping is None:
            self._stopping = time.monotonic()
            if self._process is not None:
                self._process.terminate()

    def kill(self) -> None:
        """With everything it started."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _begin(self, now: float) -> Outcome | None:
        if self._stopping is not None:
            return Outcome("stopped")
        if is_live(self._place):
            # A process of a sweep that was killed, or of a node that is thought lost.
            if now - self._seen_at > self._stall_seconds:
                return Outcome("failed", f"{self._place} is in use by another process", retry=True)
            return None
        with open(self._log, "ab") as log:
            self._log_start = log.tell()
            # A session of its own: Ctrl-C in a terminal is for the sweep, which asks in turn.
            self._process = subprocess.Popen(
                train_command(self.job, self._place),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                start_new_session=True,
            )
        self._seen_at = now
        return None

    def _ended(self, code: int) -> Outcome:
        if code == 0:
            return Outcome("finished")
        if self._stopping is not None:
            return Outcome("stopped")
        if code < 0:
            return Outcome("failed", f"killed by {signal.Signals(-code).name}", retry=True)
        said = self._last_words()
        if own := re.search(r"^munchausen: (.*)", said, re.MULTILINE | re.DOTALL):
            # A user's mistake (2) and a divergence would come again; a full disk may be emptied.
            storage = "cannot write to" in own[1]
            return Outcome("failed", _one_line(own[1]), retry=storage or code not in (1, 2))
        return Outcome("failed", f"exit code {code}: {_one_line(said)}", retry=True)

    def _last_words(self) -> str:
        """The last lines it printed, without progress."""
        with open(self._log, "rb") as log:
            end = log.seek(0, os.SEEK_END)
            log.seek(max(self._log_start, end - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        return "\n".join(lines[-3:])


def train_command(job: Job, place: Path) -> list[str]:
    """A new run, or one that was cut."""
    command = [sys.executable, "-m", "munchausen", *job.arguments(place)]
    resume = ["--resume"] if (place / CONFIG).exists() else []
    return [*command, f"--tether={os.getpid()}", *resume]


def checkpoint_name(root: Path, job: Job) -> str:
    """Of the newest, to see whether an attempt got any further."""
    return max((place.name for place in list_checkpoints(root / job.name)), default="")


def _one_line(text: str) -> str:
    """Without what a terminal would obey: a log holds whatever an environment prints."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))[:1_000]
