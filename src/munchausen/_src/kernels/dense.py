"""Products with weights [out, in], the same on every machine. A CPU has the gradient of weights
that lie so in the faster product, by four where there are few outputs."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from munchausen._src.kernels import dispatch

# A product takes what is behind a barrier as it lies in memory, made once.
_made_once = jax.lax.optimization_barrier


def dense(
    x: Float[Array, "*B I"], weight: Float[Array, "O I"], bias: Float[Array, " O"] | None = None
) -> Float[Array, "*B O"]:
    """x W' + b."""
    if x.ndim == 1 and dispatch.sums_few_outputs(len(weight)):
        product = _multiply_few(x, weight)
    elif x.ndim == 2 and dispatch.puts_weights_first(len(x), weight.size):
        product = _multiply_large(x, weight)
    else:
        product = x @ weight.T
    return product if bias is None else product + bias


def over_states(
    layers: Callable[[Float[Array, "*B I"]], Float[Array, "*B O"]], x: Float[Array, "B I"]
) -> Float[Array, "B O"]:
    """Dense layers over a batch of states, in the way that is fastest for their last one."""
    return jax.vmap(layers)(x) if dispatch.maps_states() else layers(x)


def gate(
    features: Float[Array, "B F"],
    embedded: Float[Array, "B N C"],
    weight: Float[Array, "F C"],
    bias: Float[Array, " F"],
) -> Float[Array, "BN F"]:
    """features · relu(W e + b) for each of a state's N embedded fractions, as the rows of one
    product (IQN, Dabney et al. 2018)."""
    # They are made once, not again within each product that takes them.
    product = dense(_made_once(embedded), weight)
    # In two, the bias's gradient is summed over fractions in the same pass as the features'.
    gates = jax.nn.relu(jax.vmap(partial(add_in_two, bias=bias))(product))
    features, rows = features[:, None], len(features) * embedded.shape[1]
    if dispatch.multiplies_gates_as_rows():
        features = jnp.broadcast_to(features, gates.shape).reshape(rows, -1)
        gates = gates.reshape(rows, -1)
    return (features * gates).reshape(rows, -1)


@jax.custom_vjp
def _multiply_few(x: Float[Array, " I"], weight: Float[Array, "O I"]) -> Float[Array, " O"]:
    """x W' as sums, which a GPU joins with what made x; and the gradient of x goes into one kernel
    with the loss's and the activation's."""
    return jnp.sum(x * weight, axis=-1)


def _multiply_few_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return _multiply_few(x, weight), (x, weight)


def _multiply_few_backward(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, weight = kept
    # Written out, not summed over an axis: a sum would be a kernel.
    by_output = [gradient[i] * weight[i] for i in range(len(weight))]
    return sum(by_output[1:], start=by_output[0]), gradient[:, None] * x


_multiply_few.defvjp(_multiply_few_forward, _multiply_few_backward)


@jax.custom_vjp
def _multiply_large(x: Float[Array, "B I"], weight: Float[Array, "O I"]) -> Float[Array, "B O"]:
    """x W' as (W x')', with x' in memory."""
    return _made_once(weight @ _made_once(x.T)).T  # or XLA makes x W' of it again


def _multiply_large_forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return _multiply_large(x, weight), (x, weight)


def _multiply_large_backward(kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, weight = kept
    return gradient @ weight, _made_once(gradient.T) @ x


_multiply_large.defvjp(_multiply_large_forward, _multiply_large_backward)


def add_in_two(x: Float[Array, "n *B O"], bias: Float[Array, " O"]) -> Float[Array, "n *B O"]:
    """x + bias. On an accelerator its gradient is summed in two steps."""
    return _add_in_two(x, bias) if dispatch.sums_in_two_steps() else x + bias


@jax.custom_vjp
def _add_in_two(x: Array, bias: Array) -> Array:
    return x + bias


def _add_forward(x: Array, bias: Array) -> tuple[Array, None]:
    return x + bias, None


def _add_backward(_: None, gradient: Array) -> tuple[Array, Array]:
    return gradient, sum_in_two(gradient)


_add_in_two.defvjp(_add_forward, _add_backward)


def sum_in_two(x: Float[Array, "n *B O"]) -> Float[Array, " O"]:
    """Over the first axis and then over the rest."""
    # Without the barrier XLA makes one sum of the two again.
    first = _made_once(jnp.sum(x, axis=0))
    return jnp.sum(first, axis=tuple(range(first.ndim - 1)))
