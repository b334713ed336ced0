"""The host loop's programs, cheap to call: a turn of the loop calls two, and emulators wait.

Of a lane's arrays JAX makes a list before each call, and a lane of the list after it. Networks do
that in Python: half a millisecond, in which an emulator does a step. So a lane is taken apart once
for many turns, and a program is handed the parts it needs, as lists, and returns those it changes.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from munchausen._src.core.learner import LearnerState
from munchausen._src.core.replay import Outcome
from munchausen._src.kernels.compiling import compiled
from munchausen._src.loops.lane import Lane, Steps, add_axis, drop_axis

Parts = dict[str, list[Any]]

_ACTS = ("act_key", "regulariser", "online")
_LEARNER = ("online", "target", "optimizer")


class HostPrograms:
    """Programs of `width` lanes side by side, each with environments in batches of `batch`. All
    arrays have the lanes as first axis; only the learner of a single lane has none."""

    def __init__(self, steps: Steps, width: int, batch: int):
        self.steps = steps
        self.width = width
        self.batch = batch
        self._trees: dict[str, Any] = {}
        self._programs: dict[tuple[Any, ...], Any] = {}

    def take_apart(self, lane: Lane) -> Parts:
        fields = _fields(lane)
        self._trees = {name: jax.tree.structure(field) for name, field in fields.items()}
        return {name: jax.tree.leaves(field) for name, field in fields.items()}

    def put_together(self, parts: Parts) -> Lane:
        """Parts that are not there are None."""
        fields: dict[str, Any] = dict.fromkeys(self._trees)
        for name, part in parts.items():
            fields[name] = jax.tree.unflatten(self._trees[name], part)
        learner = LearnerState(**{name: fields.pop(name) for name in _LEARNER})
        return Lane(learner=learner, **fields)

    def act(self, parts: Parts, index: int, t: Any) -> Any:
        """Actions for the environments of batch `index`."""

        def function(lane: Lane, t: Any) -> tuple[Lane, Any]:
            return lane, self.steps.act(lane, t, first=index * self.batch, count=self.batch)

        return self._call(("act", index), function, parts, (), (*_ACTS, "ring"), t)[1]

    def store(
        self, parts: Parts, index: int, actions: Any, outcome: Outcome, act_at: Any = None
    ) -> tuple[Parts, Any]:
        """Stores what the actions of batch `index` did. Also acts, if it is said when."""
        truncates = outcome.final_frame is not None
        first = index * self.batch

        def function(lane: Lane, actions: Any, outcome: Outcome, t: Any) -> tuple[Lane, Any]:
            if not truncates:  # nothing was cut: there is no other last frame
                outcome = outcome._replace(final_frame=outcome.frame)
            lane = self.steps.store(lane, actions, outcome, first=first, truncates=truncates)
            if t is None:
                return lane, None
            return lane, self.steps.act(lane, t, first=first, count=self.batch)

        acts = act_at is not None
        key = ("store and act" if acts else "store", index, truncates)
        reads = _ACTS if acts else ()
        return self._call(
            key, function, parts, ("ring", "priorities"), reads, actions, outcome, act_at
        )

    def learn(self, parts: Parts, updates: int, t: Any) -> tuple[Parts, Any]:
        """So many gradient steps, and their metrics."""

        def function(lane: Lane, t: Any) -> tuple[Lane, Any]:
            lane, metrics = self.steps.learn(lane, t, updates=updates)
            return lane, jnp.stack(metrics)  # one array: one copy to the host, later

        changes = (*_LEARNER, "priorities")
        reads = ("learn_key", "regulariser", "ring")
        return self._call(("learn", updates), function, parts, changes, reads, t)

    def copy_target(self, parts: Parts) -> Parts:
        def function(lane: Lane, copy: Any) -> tuple[Lane, Any]:
            return self.steps.copy_target(lane, copy), None

        # The condition is an argument, or JAX would hand the same arrays back as both networks.
        return self._call(("copy",), function, parts, ("target",), ("online",), np.True_)[0]

    def _call(
        self,
        key: tuple[Any, ...],
        function: Callable[..., tuple[Lane, Any]],
        parts: Parts,
        changes: tuple[str, ...],
        reads: tuple[str, ...],
        *arguments: Any,
    ) -> tuple[Parts, Any]:
        """`function` of a lane and more, of which lanes share the last argument: its program,
        compiled once for a key. The parts that it changes are used up."""
        if key not in self._programs:
            self._programs[key] = self._compile(function, changes)
        changed, result = self._programs[key](
            {name: parts[name] for name in changes},
            {name: parts[name] for name in reads},
            *arguments,
        )
        return parts | changed, result

    def _compile(self, function: Callable[..., tuple[Lane, Any]], changes: tuple[str, ...]) -> Any:
        def program(changed: Parts, read: Parts, *arguments: Any) -> tuple[Parts, Any]:
            lane, result = self._over_lanes(function, self.put_together(changed | read), *arguments)
            fields = _fields(lane)
            return {name: jax.tree.leaves(fields[name]) for name in changes}, result

        return compiled(program, self.steps.config.precision, uses_up_first=True)

    def _over_lanes(
        self, function: Callable[..., tuple[Lane, Any]], lane: Lane, *arguments: Any
    ) -> tuple[Lane, Any]:
        *own, shared = arguments
        if self.width > 1:
            axes = (*(0 for _ in (lane, *own)), None)
            return jax.vmap(function, in_axes=axes)(lane, *own, shared)
        # A product with a batch axis of 1 is a batched product still, at half the speed on a CPU.
        alone = drop_axis(lane._replace(learner=None))._replace(learner=lane.learner)
        alone, result = function(alone, *drop_axis(own), shared)
        lane = add_axis(alone._replace(learner=None))._replace(learner=alone.learner)
        return lane, add_axis(result)


def _fields(lane: Lane) -> dict[str, Any]:
    fields = lane._asdict()
    learner = fields.pop("learner")
    return fields | learner._asdict()
