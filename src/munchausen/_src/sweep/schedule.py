"""Runs every job to its end: retries interrupted ones, gives up on those that cannot succeed."""

import time
from collections import deque
from collections.abc import Callable

from munchausen._src.experiment.stopping import Interrupted, StopSignals
from munchausen._src.sweep.attempt import EVERY_SECONDS, Outcome, checkpoint_name
from munchausen._src.sweep.cluster import RayBackend
from munchausen._src.sweep.folder import SweepFolder
from munchausen._src.sweep.local import LocalBackend
from munchausen._src.sweep.plan import Job
from munchausen._src.sweep.status import JobState, is_done

_WATCH_SECONDS = 1.0


Backend = LocalBackend | RayBackend


class Schedule:
    def __init__(self, folder: SweepFolder, jobs: list[Job], backend: Backend, retries: int):
        """`retries`: how often in a row an attempt may fail without getting any further; 0 is
        never, however far it got."""
        self._folder = folder
        self._backend = backend
        self._retries = retries
        self._waiting: deque[Job] = deque()
        self._in_vain: dict[str, int] = {}
        self._reached: dict[str, str] = {}
        self.states: dict[Job, JobState] = {}
        self._signals = StopSignals()
        for job in jobs:
            self._add(job)

    def run(self, watch: Callable[[dict[Job, JobState]], None]) -> None:
        """On SIGINT or SIGTERM trainings write a checkpoint first; a second one kills them."""
        with self._signals:
            try:
                self._run(watch)
            finally:
                self._backend.close()
        stop = self._signals.asked
        if stop is not None and any(s.status != "done" for s in self.states.values()):
            raise Interrupted(stop, "with what was running in checkpoints")

    def _add(self, job: Job) -> None:
        if is_done(self._folder.path, job):
            self.states[job] = JobState("done")
        else:
            self.states[job] = JobState("waiting")
            self._waiting.append(job)

    def _run(self, watch: Callable[[dict[Job, JobState]], None]) -> None:
        asked_to_stop = False
        watched = -_WATCH_SECONDS
        while self._waiting or self._running():
            if self._signals.asked is not None and not asked_to_stop:
                asked_to_stop = True
                self._waiting.clear()
                self._backend.stop()
            while self._waiting and self._backend.room():
                job = self._waiting.popleft()
                self.states[job] = JobState("running")
                self._reached[job.name] = checkpoint_name(self._folder.path, job)
                self._backend.submit(job)
            ended = self._backend.poll()
            for job, outcome in ended:
                self._end(job, outcome)
            now = time.monotonic()
            if ended or now - watched >= _WATCH_SECONDS:
                watched = now
                watch(self.states)
            if not ended:
                time.sleep(EVERY_SECONDS)

    def _running(self) -> bool:
        return any(state.status == "running" for state in self.states.values())

    def _end(self, job: Job, outcome: Outcome) -> None:
        if outcome.status == "finished" and not is_done(self._folder.path, job):
            outcome = Outcome("failed", "it ended without a result")
        self._folder.note(job, outcome)
        if outcome.status == "finished":
            self.states[job] = JobState("done")
        elif outcome.status == "stopped" or self._signals.asked is not None:
            self.states[job] = JobState("waiting", outcome.error)
        elif outcome.retry and self._may_try_again(job):
            self.states[job] = JobState("waiting", outcome.error)
            self._waiting.append(job)
        elif len(job.seeds) > 1:
            # One of these seeds caused the failure; the others should not fail with it.
            del self.states[job]
            for single in self._folder.split(job):
                self._add(single)
        else:
            self.states[job] = JobState("failed", outcome.error)

    def _may_try_again(self, job: Job) -> bool:
        reached = checkpoint_name(self._folder.path, job)
        if self._retries and reached > self._reached[job.name]:
            self._in_vain[job.name] = 0
            return True
        self._in_vain[job.name] = self._in_vain.get(job.name, 0) + 1
        return self._in_vain[job.name] <= self._retries
