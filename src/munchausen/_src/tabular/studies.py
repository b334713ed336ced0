"""What happens under the hood, as numbers for the figures. Each study returns plain arrays."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray

from munchausen._src.tabular.families import garnets
from munchausen._src.tabular.iteration import final_state, iterate, start
from munchausen._src.tabular.mdp import MDP
from munchausen._src.tabular.noise import Clipped, Gaussian, Sampling
from munchausen._src.tabular.precision import compiled_quickly, float64
from munchausen._src.tabular.schemes import MunchausenVI
from munchausen._src.tabular.solvers import inner, optimal_q, policy_q
from munchausen._src.tabular.theorems import averaging, moving_average, printed
from munchausen._src.tabular.theorems.action_gap import gap_factor, gaps

Study = dict[str, Any]

ALPHA, TAU = 0.9, 0.1  # τ is larger than the paper's 0.03: rewards here are in [−1, 1], γ smaller
NOISE = 0.5

# All are M-VI(α, τ), as the identities show, so one program runs them all.
FAMILY = {
    "VI": (0.0, 0.0),
    f"soft VI (τ = {TAU:g})": (0.0, TAU),
    f"AL (α = {ALPHA:g})": (ALPHA, 0.0),
    f"M-VI (α = {ALPHA:g})": (ALPHA, TAU),
    "M-VI (α = 1)": (1.0, TAU),
}
SOFT_FAMILY = {
    f"soft VI (τ = {TAU:g})": (0.0, TAU),
    f"soft VI ((1−α)τ = {(1 - ALPHA) * TAU:.2g})": (0.0, (1 - ALPHA) * TAU),
    f"M-VI (α = {ALPHA:g})": (ALPHA, TAU),
    "M-VI (α = 1)": (1.0, TAU),
}


@float64()
def over_iterations(seed: int = 0, *, mdps: int = 200, iterations: int = 200) -> Study:
    """‖q_* − q_{π_{k+1}}‖ of each scheme's own policies, with the same noise for all."""
    losses = _by_scheme(FAMILY, _losses(iterations), _batch(seed, mdps, 0.9), seed)
    return {"iterations": np.arange(1, iterations + 1), "losses": losses, "discount": 0.9}


@float64()
def over_discounts(seed: int = 0, *, mdps: int = 100, iterations: int = 400) -> Study:
    """The same at the end (mean of the last tenth), as the horizon 1/(1−γ) grows."""
    horizons = np.array([2.0, 4.0, 8.0, 16.0, 32.0])
    one = _losses(iterations, last=iterations // 10)
    discounts = np.repeat(1 - 1 / horizons, mdps)
    same = _batch(seed, mdps, 0.5)  # the same MDPs at each horizon
    batch = jax.tree.map(lambda x: jnp.concatenate([x] * len(horizons)), same)
    batch = batch._replace(discount=jnp.asarray(discounts))
    losses = _by_scheme(FAMILY, one, batch, seed)
    rows = {name: x.mean(axis=1).reshape(len(horizons), mdps) for name, x in losses.items()}
    return {"horizons": horizons, "losses": rows, "iterations": iterations}


@float64()
def action_gap(seed: int = 0, *, mdps: int = 100, iterations: int = 800) -> Study:
    """The measured factor of Theorem 2 against α, with the right one and the printed one."""
    alphas = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
    batch = _batch(seed, mdps, 0.9)

    def factor(mdp: MDP, _key: PRNGKeyArray, alpha) -> Float[Array, ""]:
        q = final_state(MunchausenVI(alpha, TAU), mdp, start(mdp), iterations).q
        return jnp.sum(gaps(q)) / jnp.sum(gaps(optimal_q(mdp, (1 - alpha) * TAU)))

    line = np.linspace(0, 0.955, 200)
    return {
        "alphas": alphas,
        "measured": _mapped(factor, batch, seed, alphas),
        "line": line,
        "right": np.array([gap_factor(float(alpha)) for alpha in line]),
        "printed": np.array([printed.gap_factor(float(alpha)) for alpha in line]),
    }


@float64()
def bounds(seed: int = 0, *, mdps: int = 50, iterations: int = 1000, short: int = 60) -> Study:
    """The truth under the bounds: α = 1 with the main text's, α < 1 with Corollary 2."""
    batch = _batch(seed, mdps, 0.8)
    shown = np.unique(np.geomspace(1, iterations, 60).astype(int))

    def at_one(mdp: MDP, key: PRNGKeyArray):
        limit = mdp.largest_reward / (1 - mdp.discount)
        source = Clipped(Gaussian(NOISE), limit)
        history = iterate(MunchausenVI(1.0, TAU), mdp, start(mdp), iterations, source, key)
        terms = averaging.bound_terms(mdp, TAU, history)
        sharp = jnp.max(averaging.free_componentwise_bound(terms), axis=(1, 2))
        return averaging.worst_loss(terms), averaging.sup_bound(mdp, TAU, terms), sharp

    def below_one(mdp: MDP, key: PRNGKeyArray):
        scheme = MunchausenVI(ALPHA, TAU)
        history = iterate(scheme, mdp, start(mdp), short + 1, Sampling(10), key)
        terms = moving_average.bound_terms(mdp, ALPHA, TAU, history)
        bound = moving_average.bound(terms)
        return jnp.max(terms.loss, axis=(1, 2)), jnp.max(bound, axis=(1, 2))

    truth, sup, sharp = _mapped(at_one, batch, seed)
    low_truth, low_bound = _mapped(below_one, batch, seed)
    return {
        "iterations": shown,
        "truth": truth[:, shown - 1],
        "main text": sup[:, shown - 1],
        "component-wise": sharp[:, shown - 1],
        "short_iterations": np.arange(1, short + 1),
        "truth below one": low_truth,
        "corollary 2": low_bound,
        "discount": 0.8,
    }


@float64()
def clipping(seed: int = 0, *, mdps: int = 200, iterations: int = 600) -> Study:
    """What l0 does, which the analysis leaves out: to the action gap, and to the policy."""
    clips = np.array([-np.inf, -3.0, -1.0, -0.3, -0.1, 0.0])
    batch = _batch(seed, mdps, 0.9)

    def at(mdp: MDP, key: PRNGKeyArray, clip_min):
        scheme = MunchausenVI(ALPHA, TAU, clip_min)
        q_star = optimal_q(mdp)
        exact = final_state(scheme, mdp, start(mdp), iterations)
        noisy = iterate(scheme, mdp, start(mdp), 200, Gaussian(NOISE), key)

        def loss(pi):
            return jnp.max(q_star - policy_q(mdp, pi))

        return {
            "gaps": gaps(exact.q),  # [MDPs, clips, S, A]
            "exact_losses": loss(jnp.exp(exact.log_policy)),
            "noisy_losses": jnp.mean(jax.vmap(loss)(noisy.policy[-50:])),
        }

    def regularised(mdp: MDP, _key: PRNGKeyArray) -> Float[Array, "S A"]:
        return gaps(optimal_q(mdp, (1 - ALPHA) * TAU))

    optimal = {"optimal_gaps": _mapped(regularised, batch, seed)}
    return {"clips": clips, "alpha": ALPHA} | optimal | _mapped(at, batch, seed, clips)


@float64()
def policy_change(seed: int = 0, *, mdps: int = 200, iterations: int = 200) -> Study:
    """KL(π_{k+1}‖π_k), mean over states, and how often a state's greedy action changes."""
    batch = _batch(seed, mdps, 0.9)

    def one(mdp: MDP, key: PRNGKeyArray, alpha, tau):
        scheme = MunchausenVI(alpha, tau)
        run = iterate(scheme, mdp, start(mdp), iterations, Gaussian(NOISE), key)
        change = run.log_policy[1:] - run.log_policy[:-1]
        greedy = jnp.argmax(run.q, axis=-1)
        switches = jnp.mean(greedy[1:] != greedy[:-1], axis=-1)
        return jnp.mean(inner(run.policy[1:], change), axis=-1), switches

    found = _by_scheme(FAMILY | SOFT_FAMILY, one, batch, seed)
    return {
        "iterations": np.arange(1, iterations + 1),
        "divergence": {name: found[name][0] for name in SOFT_FAMILY},
        "switches": {name: found[name][1] for name in FAMILY},
    }


def _losses(iterations: int, last: int | None = None):
    """‖q_* − q_{π_{k+1}}‖ with π_{k+1} the policy that q_k gives."""

    def one(mdp: MDP, key: PRNGKeyArray, alpha, tau) -> Float[Array, " K"]:
        q_star = optimal_q(mdp)
        scheme = MunchausenVI(alpha, tau)
        run = iterate(scheme, mdp, start(mdp), iterations + 1, Gaussian(NOISE), key)
        policies = run.policy[2:] if last is None else run.policy[-last:]
        return jax.vmap(lambda pi: jnp.max(q_star - policy_q(mdp, pi)))(policies)

    return one


def _batch(seed: int, mdps: int, discount: float) -> MDP:
    return garnets(jax.random.key(seed), mdps, discounts=(discount, discount))


def _keys(seed: int, mdps: int) -> Key[Array, " M"]:
    return jax.random.split(jax.random.key(seed + 1), mdps)


def _mapped(one: Callable[..., Any], batch: MDP, seed: int, *values: np.ndarray) -> Any:
    """`one(mdp, key)` over the batch, or `one(mdp, key, value)` also over values."""
    inside = jax.vmap(one, (None, None, 0)) if values else one
    program = compiled_quickly(jax.vmap(inside, (0, 0, *[None] * len(values))))
    found = program(batch, _keys(seed, len(batch.discount)), *map(jnp.asarray, values))
    return jax.tree.map(np.asarray, found)


def _by_scheme(
    family: dict[str, tuple[float, float]], one: Callable[..., Any], batch: MDP, seed: int
) -> dict[str, Any]:
    """`one(mdp, key, α, τ)` over the batch, for each of the family in turn: one compilation."""
    program = compiled_quickly(jax.vmap(one, (0, 0, None, None)))
    keys = _keys(seed, len(batch.discount))
    return {
        name: jax.tree.map(np.asarray, program(batch, keys, jnp.asarray(alpha), jnp.asarray(tau)))
        for name, (alpha, tau) in family.items()
    }
