"""A ring on the device that stores each frame once.

Row t of an environment's stream holds frame o_t, the action taken there, its reward, and
how the stream goes on:

    CONTINUES    the next row is the outcome of this one
    TERMINATED   the episode ended here; the next row is the first of a new episode
    FINAL        the last frame of a truncated episode; no action was taken from it,
                 and the next row is the first of a new episode

A terminated episode's outcome is never looked at (its discount is 0), so it is not stored;
a truncated one's is, because its value is bootstrapped. `head` is the row of the current
frame, whose action is still to come. Rows are counted from the start of the stream; row t
lies at slot t mod T. Stacks, n-step folds and episode boundaries are resolved when sampling.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped, UInt8

CONTINUES, TERMINATED, FINAL = 0, 1, 2

# Draws tried before a draw that hit a FINAL row moves to the row before it. FINAL rows are
# rarer than 1 in 100, so the last resort is used for fewer than 1 draw in 10⁸.
_TRIES = 4


class Ring(NamedTuple):
    frames: Shaped[Array, "T E *frame"]
    actions: Int[Array, "T E"]
    rewards: Float[Array, "T E"]
    kinds: UInt8[Array, "T E"]
    head: Int[Array, " E"]

    @property
    def rows(self) -> int:
        return self.frames.shape[0]

    @property
    def envs(self) -> int:
        return self.frames.shape[1]


class Outcome(NamedTuple):
    """What one step did to each environment (to all, or to some that lie side by side)."""

    reward: Float[Array, " e"]
    terminated: Bool[Array, " e"]
    truncated: Bool[Array, " e"]
    frame: Shaped[Array, "e *frame"]  # the current frame: the outcome, or a new episode's first
    final_frame: Shaped[Array, "e *frame"]  # the outcome, also where the episode ended


class FrameTransitions(NamedTuple):
    """As `Transitions`, with each state as the frames it is made of."""

    frames_tm1: Shaped[Array, "B stack *frame"]
    a_tm1: Int[Array, " B"]
    r_t: Float[Array, " B"]  # Σ γᵏ r_k
    discount_t: Float[Array, " B"]  # γⁿ, or less where the episode was cut; 0 on termination
    frames_t: Shaped[Array, "B stack *frame"]

    @property
    def observation_tm1(self) -> Shaped[Array, "B ..."]:
        return observe(self.frames_tm1)

    @property
    def observation_t(self) -> Shaped[Array, "B ..."]:
        return observe(self.frames_t)


def make_ring(first_frames: Shaped[Array, "E *frame"], capacity: int) -> Ring:
    """An empty ring of `capacity` rows in all, at each environment's first frame."""
    envs = first_frames.shape[0]
    rows = capacity // envs
    frames = jnp.zeros((rows, *first_frames.shape), first_frames.dtype).at[0].set(first_frames)
    return Ring(
        frames=frames,
        actions=jnp.zeros((rows, envs), jnp.int32),
        rewards=jnp.zeros((rows, envs)),
        kinds=jnp.zeros((rows, envs), jnp.uint8),
        head=jnp.zeros(envs, jnp.int32),
    )


def append(
    ring: Ring, actions: Int[Array, " e"], outcome: Outcome, *, truncates: bool, first: int = 0
) -> tuple[Ring, Bool[Array, " e"]]:
    """Writes a step of the environments from `first` on, as many as there are actions. Also
    returns which of them advanced two rows.

    `truncates` says whether any of them may have been cut; if not, no second row is written.
    """
    some = slice(first, first + len(actions))
    env = jnp.arange(some.start, some.stop)
    head = ring.head[some]
    slot = head % ring.rows
    cut = outcome.truncated & ~outcome.terminated
    ring = ring._replace(
        actions=ring.actions.at[slot, env].set(actions),
        rewards=ring.rewards.at[slot, env].set(outcome.reward),
        kinds=ring.kinds.at[slot, env].set(outcome.terminated.astype(jnp.uint8)),
    )
    head = head + 1
    frames, kinds = ring.frames, ring.kinds
    if truncates:
        # An index beyond the ring is dropped: only cut episodes write their final frame.
        slot = jnp.where(cut, head % ring.rows, ring.rows)
        frames = frames.at[slot, env].set(outcome.final_frame, mode="drop")
        kinds = kinds.at[slot, env].set(FINAL, mode="drop")
        head = head + cut
    slot = head % ring.rows
    frames = frames.at[slot, env].set(outcome.frame)
    kinds = kinds.at[slot, env].set(CONTINUES)
    heads = ring.head.at[some].set(head)
    return ring._replace(frames=frames, kinds=kinds, head=heads), cut & truncates


def cut_episodes(ring: Ring, first_frames: Shaped[Array, "E *frame"]) -> Ring:
    """Ends every running episode at its current frame, as truncated, and begins new ones."""
    env = jnp.arange(ring.envs)
    kinds = ring.kinds.at[ring.head % ring.rows, env].set(FINAL)
    head = ring.head + 1
    slot = head % ring.rows
    return ring._replace(
        frames=ring.frames.at[slot, env].set(first_frames),
        kinds=kinds.at[slot, env].set(CONTINUES),
        head=head,
    )


def current_observations(
    ring: Ring, stack: int, first: int = 0, count: int | None = None
) -> Shaped[Array, "e ..."]:
    """The stacked observation of `count` environments (all) from `first` on, each ending with
    its current frame."""
    stop = ring.envs if count is None else first + count
    return observe(frames_at(ring, ring.head[first:stop], jnp.arange(first, stop), stack))


def frames_at(
    ring: Ring, row: Int[Array, " B"], env: Int[Array, " B"], stack: int
) -> Shaped[Array, "B stack *frame"]:
    """The last `stack` frames up to `row`, oldest first, zeros before the episode's start."""
    if stack == 1:
        return ring.frames[row % ring.rows, env][:, None]
    frames, inside = [], jnp.ones_like(row, dtype=bool)
    for back in range(stack):
        if back:
            # The episode goes on one row further back unless that row ended another.
            kind = ring.kinds[(row - back) % ring.rows, env]
            inside = inside & (kind == CONTINUES) & (row - back >= 0)
        frame = ring.frames[(row - back) % ring.rows, env]
        frames.append(jnp.where(_like(inside, frame), frame, 0))
    frames.reverse()
    return jnp.stack(frames, axis=1)


def observe(frames: Shaped[Array, "B stack *frame"]) -> Shaped[Array, "B ..."]:
    """Frames as a network sees them, stacked along the last axis (a plane of pixels gains
    one). Kept apart from the gathering: moving single bytes is slow, so it is best done where
    they become numbers."""
    if frames.ndim == 4:
        return jnp.moveaxis(frames, 1, -1)
    if frames.shape[1] == 1:
        return frames[:, 0]
    return jnp.concatenate(jnp.unstack(frames, axis=1), axis=-1)


def eligible_rows(
    head: Int[Array, " E"], rows: int, n_step: int, stack: int
) -> tuple[Int[Array, " E"], Int[Array, " E"]]:
    """First eligible row of each environment and how many there are: those whose n-step
    outcome is already in the ring and whose stack is still in it."""
    oldest = head - rows + 1
    first = jnp.maximum(oldest + stack - 1, 0)
    return first, jnp.maximum(head - n_step + 1 - first, 0)


def sample_uniform(
    ring: Ring, key: PRNGKeyArray, batch: int, *, n_step: int, stack: int, truncates: bool
) -> tuple[Int[Array, " B"], Int[Array, " B"]]:
    """Rows and environments of `batch` transitions, uniform over all that are eligible."""
    first, count = eligible_rows(ring.head, ring.rows, n_step, stack)
    ends = jnp.cumsum(count)
    tries = _TRIES if truncates else 1
    draw = jax.random.randint(key, (tries, batch), 0, ends[-1])
    env = jnp.sum(draw[..., None] >= ends, axis=-1)
    row = first[env] + draw - (ends - count)[env]
    if not truncates:
        return row[0], env[0]
    final = ring.kinds[row % ring.rows, env] == FINAL
    choice = jnp.argmin(final, axis=0)  # the first try that is no FINAL row
    pick = jnp.arange(batch)
    row, env, final = row[choice, pick], env[choice, pick], final[choice, pick]
    previous = row - 1  # of a FINAL row: the transition that was cut
    return jnp.where(final, jnp.where(previous < first[env], row + 1, previous), row), env


def gather(
    ring: Ring,
    row: Int[Array, " B"],
    env: Int[Array, " B"],
    *,
    n_step: int,
    stack: int,
    discount: float,
) -> FrameTransitions:
    """The n-step transitions that start at these rows."""
    reward = jnp.zeros(row.shape)
    factor = jnp.ones(row.shape)
    steps = jnp.zeros_like(row)
    going = jnp.ones_like(row, dtype=bool)
    terminated = jnp.zeros_like(going)
    for k in range(n_step):
        slot = (row + k) % ring.rows
        kind = ring.kinds[slot, env]
        going = going & (kind != FINAL)
        reward = reward + jnp.where(going, factor * ring.rewards[slot, env], 0.0)
        factor = jnp.where(going, factor * discount, factor)
        steps = steps + going
        terminated = terminated | (going & (kind == TERMINATED))
        going = going & ~terminated
    return FrameTransitions(
        frames_tm1=frames_at(ring, row, env, stack),
        a_tm1=ring.actions[row % ring.rows, env],
        r_t=reward,
        discount_t=jnp.where(terminated, 0.0, factor),
        frames_t=frames_at(ring, row + steps, env, stack),
    )


def _like(mask: Bool[Array, " B"], x: Shaped[Array, "B ..."]) -> Bool[Array, "B ..."]:
    return mask.reshape(mask.shape + (1,) * (x.ndim - 1))
