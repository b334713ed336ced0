"""The host loop's programs, cheap to call: a turn of the loop calls two, and emulators wait.

Before each call JAX makes a list of a lane's arrays, and a lane of the list after it. Networks do
that in Python: half a millisecond, in which an emulator takes a step. So a lane is taken apart
once for many turns, and a program is handed the arrays it reads and returns those it changes.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from munchausen._src.core.replay import Outcome
from munchausen._src.kernels.compiling import compiled
from munchausen._src.loops.lane import Lane, Steps
from munchausen._src.loops.lanes import over_lanes

Leaves = list[Any]  # of a `Lane`, in the order of its tree
Part = Callable[[Lane], Any]  # some of a lane's fields


def _policy(lane: Lane) -> Any:
    return lane.act_key, lane.regulariser, lane.learner.online


class HostPrograms:
    """Programs of `width` lanes side by side, each with environments in batches of `batch`."""

    def __init__(self, steps: Steps, width: int, batch: int):
        self.steps = steps
        self.width = width
        self.batch = batch
        self._tree: Any = None
        self._programs: dict[tuple[Any, ...], Any] = {}

    def take_apart(self, lane: Lane) -> Leaves:
        leaves, self._tree = jax.tree.flatten(lane)
        return leaves

    def put_together(self, leaves: Leaves) -> Lane:
        return jax.tree.unflatten(self._tree, leaves)

    def act(self, leaves: Leaves, index: int, t: Any) -> Any:
        """Actions for the environments of batch `index`."""

        def function(lane: Lane, t: Any) -> tuple[Lane, Any]:
            return lane, self.steps.act(lane, t, first=index * self.batch, count=self.batch)

        def reads(lane: Lane) -> Any:
            return _policy(lane), lane.replay.ring

        return self._call(("act", index), function, leaves, _nothing, reads, t)[1]

    def store(
        self, leaves: Leaves, index: int, actions: Any, outcome: Outcome, act_at: Any = None
    ) -> tuple[Leaves, Any]:
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
        reads = _policy if acts else _nothing
        arguments = (actions, outcome, act_at)
        return self._call(key, function, leaves, lambda lane: lane.replay, reads, *arguments)

    def learn(self, leaves: Leaves, updates: int, t: Any) -> tuple[Leaves, Any]:
        """So many gradient steps, and their metrics [(lanes,) metrics, updates]."""

        def function(lane: Lane, t: Any) -> tuple[Lane, Any]:
            lane, metrics = self.steps.learn(lane, t, updates=updates)
            return lane, jnp.stack(metrics)  # one array: one copy to the host, later

        def changes(lane: Lane) -> Any:
            return lane.learner, lane.replay.priorities

        def reads(lane: Lane) -> Any:
            return lane.learn_key, lane.regulariser, lane.replay.ring

        return self._call(("learn", updates), function, leaves, changes, reads, t)

    def copy_target(self, leaves: Leaves) -> Leaves:
        def function(lane: Lane, copy: Any) -> tuple[Lane, Any]:
            return self.steps.copy_target(lane, copy), None

        def changes(lane: Lane) -> Any:
            return lane.learner.target

        def reads(lane: Lane) -> Any:
            return lane.learner.online

        # The condition is an argument, or JAX would hand the same arrays back as both networks.
        return self._call(("copy",), function, leaves, changes, reads, np.True_)[0]

    def _call(
        self,
        key: tuple[Any, ...],
        function: Callable[..., tuple[Lane, Any]],
        leaves: Leaves,
        changes: Part,
        reads: Part,
        *arguments: Any,
    ) -> tuple[Leaves, Any]:
        """`function` of a lane and more, of which lanes share the last argument: its program,
        compiled once for a key. The arrays that it changes are used up."""
        if key not in self._programs:
            self._programs[key] = self._compile(function, changes, reads)
        program, changed, read = self._programs[key]
        new, result = program([leaves[i] for i in changed], [leaves[i] for i in read], *arguments)
        leaves = list(leaves)
        for i, leaf in zip(changed, new, strict=True):
            leaves[i] = leaf
        return leaves, result

    def _compile(
        self, function: Callable[..., tuple[Lane, Any]], changes: Part, reads: Part
    ) -> tuple[Any, list[int], list[int]]:
        """The program, and which of a lane's leaves it changes and reads."""
        count = self._tree.num_leaves
        places = self.put_together(list(range(count)))
        changed, read = (jax.tree.leaves(part(places)) for part in (changes, reads))
        mapped = over_lanes(function, self.width, shared=1)

        def program(new: Leaves, old: Leaves, *arguments: Any) -> tuple[Leaves, Any]:
            known = dict(zip([*changed, *read], [*new, *old], strict=True))
            lane = self.put_together([known.get(i) for i in range(count)])
            lane, result = mapped(lane, *arguments)
            return jax.tree.leaves(changes(lane)), result

        ready = compiled(program, self.steps.config.precision, uses_up_first=True)
        return ready, changed, read


def _nothing(lane: Lane) -> None:
    del lane
