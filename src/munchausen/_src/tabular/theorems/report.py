"""What a theorem is here: a measurement on one MDP, mapped over thousands, and its verdict."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from munchausen._src.tabular.mdp import MDP
from munchausen._src.tabular.precision import compiled_quickly, float64

# MDPs in one compiled call: enough to fill a core, little enough to fit in memory.
CHUNK = 500

Measurements = dict[str, np.ndarray]


@dataclass(frozen=True)
class Theorem:
    """`measure` gives for one MDP its `residual`, which the tolerance judges, and any other
    numbers. `construct` does so once, for instances built by hand where a bound is tight or a
    printed formula fails. `printed` says which numbers are residuals of a formula as printed."""

    name: str
    source: str  # where in the paper
    statement: str  # what holds, and is checked
    tolerance: float
    measure: Callable[[MDP, PRNGKeyArray], dict[str, Float[Array, "..."]]]
    construct: Callable[[], dict[str, Float[Array, "..."]]] | None = None
    printed: dict[str, str] = field(default_factory=dict)
    summarise: Callable[[Measurements], dict[str, Any]] | None = None


@dataclass(frozen=True)
class Printed:
    """A formula as the paper prints it, where that is not what holds."""

    formula: str
    residual: float
    holds: bool


@dataclass(frozen=True)
class Result:
    name: str
    source: str
    statement: str
    residual: float
    tolerance: float
    mdps: int
    passed: bool
    printed: list[Printed]
    details: dict[str, Any]


@float64()
def run(
    theorem: Theorem,
    mdps: MDP,
    *,
    seed: int = 0,
    watch: Callable[[int], None] = lambda _: None,
) -> Result:
    """The theorem over a batch of MDPs. `watch` hears how many are done."""
    count = len(mdps.discount)
    keys = jax.random.split(jax.random.key(seed), count)
    measure = compiled_quickly(jax.vmap(theorem.measure))
    parts = []
    for first in range(0, count, CHUNK):
        some = slice(first, first + CHUNK)
        out = measure(jax.tree.map(lambda x, some=some: x[some], mdps), keys[some])
        parts.append({name: np.asarray(x) for name, x in out.items()})
        watch(min(first + CHUNK, count))
    values = {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}
    built = compiled_quickly(theorem.construct)() if theorem.construct else {}
    return _judge(theorem, values, {name: np.asarray(x) for name, x in built.items()}, count)


def _judge(theorem: Theorem, values: Measurements, built: Measurements, count: int) -> Result:
    def extreme(name: str) -> float:
        """The largest over the MDPs; of what is called "least" the smallest."""
        of = np.min if name.startswith("least") else np.max
        return float(of([of(x[name]) for x in (values, built) if name in x]))

    residual = extreme("residual")
    printed = [
        Printed(formula, extreme(name), extreme(name) <= theorem.tolerance)
        for name, formula in theorem.printed.items()
    ]
    names = sorted({*values, *built} - {"residual", *theorem.printed})
    summarise = theorem.summarise or (lambda _: {name: extreme(name) for name in names})
    return Result(
        theorem.name,
        theorem.source,
        theorem.statement,
        residual,
        theorem.tolerance,
        count,
        bool(residual <= theorem.tolerance),  # not `residual > tolerance`: a NaN must fail
        printed,
        summarise(values),
    )


def largest(x: Float[Array, "..."]) -> Float[Array, ""]:
    """‖x‖_∞"""
    return jnp.max(jnp.abs(x))


def violation(low: Float[Array, "..."], high: Float[Array, "..."]) -> Float[Array, ""]:
    """By how much `low ≤ high` is broken at worst; 0 where it holds."""
    return jnp.maximum(jnp.max(low - high), 0.0)


def draw_alpha(key: PRNGKeyArray, *, below_one: bool = False) -> Float[Array, ""]:
    """One of the α the theorems are tried at."""
    alphas = jnp.array([0.0, 0.3, 0.5, 0.9, 0.99] + ([] if below_one else [1.0]))
    return jax.random.choice(key, alphas)


def draw_tau(key: PRNGKeyArray) -> Float[Array, ""]:
    """A temperature from the paper's 0.03 up to the scale of the rewards."""
    return jnp.exp(jax.random.uniform(key, minval=jnp.log(0.03), maxval=0.0))
