"""The replay of all our agents: a ring that keeps each frame of its environments once."""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped

from munchausen._src.core.replay import ring as rings
from munchausen._src.core.replay.prioritised import Priorities, draw, make_priorities, put
from munchausen._src.core.replay.ring import FINAL, Outcome, Ring
from munchausen._src.core.replay.transitions import Sample


class FrameStore(NamedTuple):
    """The state of a `FrameReplay`."""

    ring: Ring
    priorities: Priorities | None


@dataclass(frozen=True)
class FrameReplay:
    """The last `capacity` frames of E environments, drawn as n-step transitions of stacked
    frames, uniformly or by priority."""

    capacity: int  # of all environments together
    discount: float
    n_step: int = 1
    stack: int = 1
    prioritised: bool = False
    truncates: bool = True  # False where no episode is ever cut: a little less work

    def init(self, first_frames: Shaped[Array, "E *frame"]) -> FrameStore:
        """An empty replay, at each environment's first frame."""
        ring = rings.make_ring(first_frames, self.capacity)
        places = ring.rows * ring.envs
        return FrameStore(ring, make_priorities(places) if self.prioritised else None)

    def add(
        self,
        state: FrameStore,
        actions: Int[Array, " e"],
        outcome: Outcome,
        *,
        first: int = 0,
        truncates: bool | None = None,
    ) -> FrameStore:
        """One step of the environments from `first` on, as many as there are actions.
        `truncates`: whether any of them may have been cut in it."""
        truncates = self.truncates if truncates is None else truncates
        ring, cut = rings.append(state.ring, actions, outcome, truncates=truncates, first=first)
        return self._follow(state, ring, cut, first)

    def begin_again(self, state: FrameStore, first_frames: Shaped[Array, "E *frame"]) -> FrameStore:
        """Cuts every running episode at its current frame and begins new ones."""
        ring = rings.cut_episodes(state.ring, first_frames)
        return self._follow(state, ring, jnp.zeros(ring.envs, bool), 0)

    def observations(
        self, state: FrameStore, first: int = 0, count: int | None = None
    ) -> Shaped[Array, "e ..."]:
        """What `count` environments (all) from `first` on see now, to act by."""
        return rings.current_observations(state.ring, self.stack, first, count)

    def sample(self, state: FrameStore, key: PRNGKeyArray, batch: int) -> Sample:
        ring, weights = state.ring, None
        if state.priorities is None:
            row, env = rings.sample_uniform(
                ring,
                key,
                batch,
                n_step=self.n_step,
                stack=self.stack,
                truncates=self.truncates,
            )
            places = row % ring.rows * ring.envs + env
        else:
            places, weights = draw(state.priorities, key, batch)
            row, env = rows_at(ring, places)
        transitions = rings.gather(
            ring, row, env, n_step=self.n_step, stack=self.stack, discount=self.discount
        )
        return Sample(transitions, places, weights)

    def update_priorities(
        self, state: FrameStore, places: Int[Array, " B"], priorities: Float[Array, " B"]
    ) -> FrameStore:
        """After an update: `Sample.places` and `Update.priorities`."""
        if state.priorities is None:
            return state
        return state._replace(priorities=put(state.priorities, places, priorities))

    def _follow(
        self, state: FrameStore, ring: Ring, cut: Bool[Array, " e"], first: int
    ) -> FrameStore:
        """After an append: transitions whose outcome arrived can be drawn, at the largest
        priority; those about to lose a frame to the write head cannot any more."""
        if state.priorities is None:
            return state._replace(ring=ring)
        values = state.priorities.values.reshape(-1)
        some = slice(first, first + len(cut))
        env = jnp.arange(some.start, some.stop)

        def put_at(values: Array, row: Array, value: Array | float, where: Array) -> Array:
            index = (row % ring.rows) * ring.envs + env
            return values.at[jnp.where(where, index, values.size)].set(value, mode="drop")

        always = jnp.ones_like(cut)
        # Up to two rows were written (the second where an episode was cut).
        for back in (1, 0):
            head = ring.head[some] - back
            moved = always if back == 0 else cut
            for ahead in range(self.stack):
                values = put_at(values, head + ahead, 0.0, moved)
            ready = head - self.n_step
            kind = ring.kinds[ready % ring.rows, env]
            fits = moved & (ready >= 0) & (kind != FINAL)
            values = put_at(values, ready, state.priorities.largest, fits)
        values = values.reshape(state.priorities.values.shape)
        return FrameStore(ring, state.priorities._replace(values=values))


def rows_at(ring: Ring, places: Int[Array, " B"]) -> tuple[Int[Array, " B"], Int[Array, " B"]]:
    """Rows of the stream and environments: of a slot, the latest row at or before the head."""
    slot, env = places // ring.envs, places % ring.envs
    return ring.head[env] - (ring.head[env] - slot) % ring.rows, env
