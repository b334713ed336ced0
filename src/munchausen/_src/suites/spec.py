"""What loops ask of an environment."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

if TYPE_CHECKING:
    from jaxtyping import Array, PRNGKeyArray
else:
    Array = PRNGKeyArray = Any  # facts of suites are read by what does without JAX


@dataclass(frozen=True)
class EnvironmentSpec:
    name: str  # the one canonical name, e.g. minatar/breakout
    frame_shape: tuple[int, ...]
    frame_dtype: str
    actions: int
    truncates: bool  # whether an episode can be cut short without ending
    scale: float = 1.0  # what the network multiplies frames by

    @property
    def frame_bytes(self) -> int:
        return math.prod(self.frame_shape) * np.dtype(self.frame_dtype).itemsize

    def observation_shape(self, stack: int) -> tuple[int, ...]:
        """As `replay.observe` stacks: pixel planes gain an axis, the rest widen."""
        if len(self.frame_shape) == 2:
            return (*self.frame_shape, stack)
        return (*self.frame_shape[:-1], self.frame_shape[-1] * stack)


class JaxStep(NamedTuple):
    frame: Shaped[Array, "*frame"]
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]


@runtime_checkable
class JaxEnvironment(Protocol):
    """One environment in JAX, pure; the loop maps it over a batch and begins episodes again. Where
    there is a `render(state)` to [height, width, 3] uint8 too, videos show that."""

    spec: EnvironmentSpec

    def init(self, key: PRNGKeyArray) -> tuple[Any, Shaped[Array, "*frame"]]: ...

    def step(
        self, state: Any, action: Int[Array, ""], key: PRNGKeyArray
    ) -> tuple[Any, JaxStep]: ...


class HostSteps(NamedTuple):
    """One step of a batch of environments on the host. Where an episode ended, `frame` is
    already the next one's first."""

    frame: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray  # for learning: a lost life may count
    truncated: np.ndarray
    over: np.ndarray  # the episode whose return is reported ended
    final_frame: np.ndarray | None  # the outcomes, where one was truncated; else None


@runtime_checkable
class HostEnvironments(Protocol):
    """A batch of environments on the host, restarting by themselves."""

    spec: EnvironmentSpec

    def reset(self, seeds: list[int]) -> np.ndarray: ...

    def send(self, actions: np.ndarray) -> None:
        """Starts a step. It may be called on another thread than `receive`, never beside it."""
        ...

    def receive(self) -> HostSteps:
        """What the actions sent did. Its frames may be overwritten once the next actions are
        sent, the rest not."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Watched(Protocol):
    """One game that can be looked at while an agent plays it. Arrays have a leading axis of 1."""

    def reset(self) -> np.ndarray: ...

    def screen(self) -> np.ndarray:
        """What is seen now, [height, width, 3] uint8."""
        ...

    def step(self, actions: np.ndarray) -> HostSteps: ...

    def close(self) -> None: ...
