"""Transitions as a user has them, (s, a, r, discount, s'), and a replay that keeps them so."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from munchausen._src.core.replay.prioritised import Priorities, draw, make_priorities, put
from munchausen._src.errors import UserError


class Transitions(NamedTuple):
    """A batch of transitions, or of n-step folds of them."""

    observation_tm1: Shaped[Array, "B ..."]
    a_tm1: Int[Array, " B"]
    r_t: Float[Array, " B"]  # Σ γᵏ r_k
    discount_t: Float[Array, " B"]  # γⁿ; 0 where the episode terminated
    observation_t: Shaped[Array, "B ..."]


class Sample(NamedTuple):
    transitions: Any  # `Transitions`, or what has the same attributes
    places: Int[Array, " B"]  # where they lie, for `update_priorities`
    weights: Float[Array, " B"] | None  # importance weights; None if drawn uniformly


class TransitionStore(NamedTuple):
    """The state of a `TransitionReplay`."""

    items: Transitions  # leading axis: the capacity
    added: Int[Array, ""]  # how many there are
    head: Int[Array, ""]  # where the next one goes
    priorities: Priorities | None


@dataclass(frozen=True)
class TransitionReplay:
    """The last `capacity` transitions, drawn uniformly or by priority. Each observation is kept
    twice, as s' and as the next s; for images see `FrameReplay`."""

    capacity: int
    prioritised: bool = False

    def init(self, example: Transitions) -> TransitionStore:
        """Room for transitions like `example`, one of them without a batch axis."""
        if self.capacity < 1:
            raise UserError(f"a replay needs room for a transition, not {self.capacity}")
        number = jnp.float32(0)  # a 0 in the example is no promise of whole numbers
        example = example._replace(a_tm1=jnp.int32(0), r_t=number, discount_t=number)
        items = jax.tree.map(
            lambda x: jnp.zeros((self.capacity, *jnp.shape(x)), _dtype(x)), example
        )
        priorities = make_priorities(self.capacity) if self.prioritised else None
        return TransitionStore(items, jnp.int32(0), jnp.int32(0), priorities)

    def add(self, state: TransitionStore, transitions: Transitions) -> TransitionStore:
        """Writes a batch over the oldest ones. New ones get the largest priority so far."""
        count = batch_size(transitions)
        if count > self.capacity:
            raise UserError(
                f"a batch of {count} transitions does not fit a replay of {self.capacity}"
            )
        places = (state.head + jnp.arange(count)) % self.capacity
        items = jax.tree.map(lambda kept, new: kept.at[places].set(new), state.items, transitions)
        priorities = state.priorities
        if priorities is not None:
            priorities = put(priorities, places, jnp.full(count, priorities.largest))
        added = jnp.minimum(state.added + count, self.capacity)
        return TransitionStore(items, added, (state.head + count) % self.capacity, priorities)

    def sample(self, state: TransitionStore, key: PRNGKeyArray, batch: int) -> Sample:
        """`batch` transitions; there must be one at least."""
        if state.priorities is None:
            places, weights = jax.random.randint(key, (batch,), 0, state.added), None
        else:
            places, weights = draw(state.priorities, key, batch)
        return Sample(jax.tree.map(lambda x: x[places], state.items), places, weights)

    def update_priorities(
        self, state: TransitionStore, places: Int[Array, " B"], priorities: Float[Array, " B"]
    ) -> TransitionStore:
        """After an update: `Sample.places` and `Update.priorities`."""
        if state.priorities is None:
            return state
        return state._replace(priorities=put(state.priorities, places, priorities))


def batch_size(transitions: Any, weights: Any = None) -> int:
    """How many transitions there are. Refuses a batch in which that is not the same everywhere, or
    numbers that have more axes: they would be multiplied crosswise."""
    numbers = {name: getattr(transitions, name) for name in ("a_tm1", "r_t", "discount_t")}
    if weights is not None:
        numbers["weights"] = weights
    shapes = {name: list(jnp.shape(x)) for name, x in numbers.items()}
    for name, part in transitions._asdict().items():
        if name not in numbers:
            shapes[name] = next((list(jnp.shape(x)) for x in jax.tree.leaves(part)), [])
    sizes = {tuple(shapes[name]) for name in numbers} | {tuple(x[:1]) for x in shapes.values()}
    if len(sizes) > 1 or () in sizes:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise UserError(
            "transitions need one leading axis, the batch, that all share, and a_tm1, r_t and "
            f"discount_t no other: {listed}"
        )
    return len(transitions.a_tm1)


def _dtype(x: Any) -> Any:
    """Numbers of Python as JAX takes them: int32, float32."""
    return jax.dtypes.canonicalize_dtype(jnp.result_type(x))
