"""Munchausen RL in plain NumPy float64: what the library's JAX code is tested against.

Written from the formulas alone, without sight of the library. One example at a time, no tricks
beyond a subtracted maximum. Letters as in the library: A actions, K atoms, N quantiles at s, M
target quantiles at s', B batch, F features. Every input is converted to float64.

A network is a dict of (weight [in, out], bias [out]) pairs: `encoder` and `hidden` are lists of
them, each followed by a ReLU; `output` is one, with none; implicit quantiles add one `embedding`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Layer = tuple[Array, Array]
Params = dict[str, Any]
Tape = dict[str, Any]


def _f64(x: ArrayLike) -> Array:
    return np.asarray(x, dtype=np.float64)


def soft_value(q: ArrayLike, tau: float) -> float:
    """v_τ(q) = max q + τ ln Σ_a exp((q(a) − max q)/τ),  v_0(q) = max_a q(a)."""
    q = _f64(q)
    if tau == 0:
        return float(q.max())
    return float(q.max() + tau * np.log(np.sum(np.exp((q - q.max()) / tau))))


def scaled_log_policy(q: ArrayLike, tau: float) -> Array:
    """τ ln π = q − v_τ(q), for τ = 0 its limit q − max q."""
    return _f64(q) - soft_value(q, tau)


def policy(q: ArrayLike, tau: float) -> Array:
    """π = softmax(q/τ) = exp((q − v_τ(q))/τ); for τ = 0 greedy, at the first maximiser."""
    if tau == 0:
        return np.eye(len(_f64(q)))[np.argmax(_f64(q))]
    return np.exp(scaled_log_policy(q, tau) / tau)


def munchausen_term(q_tm1: ArrayLike, a: int, alpha: float, tau: float, clip_min: float) -> float:
    """α·clip(τ ln π(a|s), l0, 0): the clip is on τ ln π, not on ln π; l0 may be −∞."""
    return float(alpha * min(max(scaled_log_policy(q_tm1, tau)[a], clip_min), 0.0))


def expected_target(
    q_tm1: ArrayLike,
    a: int,
    r: float,
    discount: float,
    q_t: ArrayLike,
    alpha: float,
    tau: float,
    clip_min: float,
) -> float:
    """r + α·clip(τ ln π(a|s), l0, 0) + γⁿ Σ_a' π(a'|s') (q(s', a') − τ ln π(a'|s')).

    Both q's are the target network's, r = Σ_k γᵏ r_k, and `discount` is γⁿ or, at the end, 0.
    """
    bootstrap = np.sum(policy(q_t, tau) * (_f64(q_t) - scaled_log_policy(q_t, tau)))
    reward = float(r) + munchausen_term(q_tm1, a, alpha, tau, clip_min)
    return float(reward + float(discount) * bootstrap)


def quantile_target(
    policy_q_tm1: ArrayLike,
    a: int,
    r: float,
    discount: float,
    z_t: ArrayLike,
    policy_q_t: ArrayLike,
    alpha: float,
    tau: float,
    clip_min: float,
) -> Array:
    """The expected target with each target quantile z'_j [A] in place of q(s', ·): [M, A] -> [M].

    The policies come from `policy_q_*`, means over fractions of their own.
    """
    pi, log_pi = policy(policy_q_t, tau), scaled_log_policy(policy_q_t, tau)
    reward = float(r) + munchausen_term(policy_q_tm1, a, alpha, tau, clip_min)
    return _f64([reward + float(discount) * np.sum(pi * (z_j - log_pi)) for z_j in _f64(z_t)])


def categorical_target(
    q_tm1: ArrayLike,
    a: int,
    r: float,
    discount: float,
    p_t: ArrayLike,
    q_t: ArrayLike,
    atoms: ArrayLike,
    alpha: float,
    tau: float,
    clip_min: float,
) -> Array:
    """Mass π(a')·p(z|s', a') at r̃ + γⁿ(z − τ ln π(a')) for each a' and z, projected on `atoms`.

    The projection is C51's: a point outside the atoms moves to the nearest end, and a point
    between two atoms gives each a share linear in its nearness (which keeps the mean).
    """
    atoms, p_t = _f64(atoms), _f64(p_t)
    pi, log_pi = policy(q_t, tau), scaled_log_policy(q_t, tau)
    reward = float(r) + munchausen_term(q_tm1, a, alpha, tau, clip_min)
    projected = np.zeros(len(atoms))
    for a_t in range(len(pi)):
        for z, p in zip(atoms, p_t[a_t], strict=True):
            point = reward + float(discount) * (z - log_pi[a_t])
            point = min(max(point, atoms[0]), atoms[-1])
            left = int(np.flatnonzero(atoms[:-1] <= point)[-1])
            share = (point - atoms[left]) / (atoms[left + 1] - atoms[left])
            projected[left] += pi[a_t] * p * (1 - share)
            projected[left + 1] += pi[a_t] * p * share
    return projected


def huber(x: ArrayLike, delta: float = 1.0) -> Array:
    """½x² for |x| ≤ δ, δ(|x| − ½δ) beyond: the continuous form, not the one the paper prints."""
    x = _f64(x)
    return np.where(np.abs(x) <= delta, 0.5 * x**2, delta * (np.abs(x) - 0.5 * delta))


def expected_loss(q: ArrayLike, a: int, target: float, kind: str) -> float:
    """h(y − q(a)), with h Huber (δ = 1) or the square without a half."""
    error = float(target) - _f64(q)[a]
    return float({"huber": huber(error), "mse": error**2}[kind])


def quantile_loss(
    z: ArrayLike, fractions: ArrayLike, a: int, targets: ArrayLike, kappa: float = 1.0
) -> float:
    """Σ_i mean_j |σ_i − 1{u_ij < 0}|·huber_κ(u_ij)/κ, with u_ij = y_j − z_i(a)."""
    u = _f64(targets)[None, :] - _f64(z)[:, a][:, None]
    weight = np.abs(_f64(fractions)[:, None] - (u < 0))
    return float(np.sum(np.mean(weight * huber(u, kappa) / kappa, axis=1)))


def categorical_loss(logits: ArrayLike, a: int, target_probs: ArrayLike) -> float:
    """−Σ_k y_k ln p_k, with ln p = log-softmax of the logits [A, K] of the action taken."""
    return float(-np.sum(_f64(target_probs) * scaled_log_policy(_f64(logits)[a], 1.0)))


def _relu_layers(layers: Sequence[Layer], x: Array) -> list[Array]:
    """The input and then every layer's output, relu(x W + b), on rows."""
    activations = [x]
    for w, b in layers:
        activations.append(np.maximum(activations[-1] @ _f64(w) + _f64(b), 0.0))
    return activations


def _relu_backward(
    layers: Sequence[Layer], activations: list[Array], d_out: Array
) -> tuple[list[Layer], Array]:
    """Gradients of the layers, and of their input, from that of their output."""
    grads: list[Layer] = []
    for i in reversed(range(len(layers))):
        d_pre = d_out * (activations[i + 1] > 0)
        grads.insert(0, (activations[i].T @ d_pre, d_pre.sum(axis=0)))
        d_out = d_pre @ _f64(layers[i][0]).T
    return grads, d_out


def _forward(params: Params, x: ArrayLike, fractions: ArrayLike | None = None) -> Tape:
    """All activations for one flat x; rows are the fractions [N], or a single one without them."""
    tape: Tape = {"encoder": _relu_layers(params["encoder"], _f64(x)[None, :])}
    features = tape["encoder"][-1]
    if fractions is not None:
        i = np.arange(1, len(params["embedding"][0]) + 1)
        cosines = np.cos(np.pi * i[None, :] * _f64(fractions)[:, None])
        tape["embedding"] = _relu_layers([params["embedding"]], cosines)
        features = features * tape["embedding"][-1]
    tape["hidden"] = _relu_layers(params["hidden"], features)
    w, b = params["output"]
    tape["output"] = tape["hidden"][-1] @ _f64(w) + _f64(b)
    return tape


def _backward(params: Params, tape: Tape, d_output: Array) -> Params:
    """Gradients of all parameters, from that of the output [N or 1, out]."""
    grads: Params = {"output": (tape["hidden"][-1].T @ d_output, d_output.sum(axis=0))}
    d_hidden = d_output @ _f64(params["output"][0]).T
    grads["hidden"], d_features = _relu_backward(params["hidden"], tape["hidden"], d_hidden)
    if "embedding" in tape:
        features, embedding = tape["encoder"][-1], tape["embedding"][-1]
        layers = [params["embedding"]]
        (grads["embedding"],), _ = _relu_backward(layers, tape["embedding"], d_features * features)
        d_features = np.sum(d_features * embedding, axis=0, keepdims=True)
    grads["encoder"], _ = _relu_backward(params["encoder"], tape["encoder"], d_features)
    return grads


def expected_q(params: Params, x: ArrayLike) -> Array:
    """q(s, ·) [A] = output(hidden(encoder(x)))."""
    return _forward(params, x)["output"][0]


def categorical_logits(params: Params, x: ArrayLike, n_actions: int, n_atoms: int) -> Array:
    """Logits [A, K], the output row-major: an action's atoms lie together."""
    return expected_q(params, x).reshape(n_actions, n_atoms)


def implicit_quantiles(params: Params, x: ArrayLike, fractions: ArrayLike) -> Array:
    """z_σ(s, ·) [N, A] = output(hidden(encoder(x) ⊙ relu(cos(π i σ) W + b))), i = 1..cosines."""
    return _forward(params, x, fractions)["output"]


def _map(f: Callable[..., Array], *trees: Any) -> Any:
    """`f` over the arrays of equal nestings of dicts, lists and tuples."""
    first = trees[0]
    if isinstance(first, dict):
        return {key: _map(f, *(tree[key] for tree in trees)) for key in first}
    if isinstance(first, list | tuple):
        return type(first)(_map(f, *branch) for branch in zip(*trees, strict=True))
    return f(*(_f64(tree) for tree in trees))


def _mean(losses: list[float], grads: list[Params]) -> tuple[float, Params]:
    return float(np.mean(losses)), _map(lambda *leaves: np.mean(leaves, axis=0), *grads)


def expected_gradients(
    params: Params, xs: ArrayLike, actions: ArrayLike, targets: ArrayLike, kind: str
) -> tuple[float, Params]:
    """(loss, gradients) of the batch mean: dh/dq(a) = −h'(y − q(a)), h' = clip(·, −1, 1) or 2·."""
    losses, grads = [], []
    for x, a, y in zip(_f64(xs), np.asarray(actions), _f64(targets), strict=True):
        tape = _forward(params, x)
        q = tape["output"][0]
        losses.append(expected_loss(q, a, y, kind))
        d_q = np.zeros((1, len(q)))
        d_q[0, a] = -{"huber": np.clip(y - q[a], -1.0, 1.0), "mse": 2 * (y - q[a])}[kind]
        grads.append(_backward(params, tape, d_q))
    return _mean(losses, grads)


def categorical_gradients(
    params: Params, xs: ArrayLike, actions: ArrayLike, target_probs: ArrayLike, n_actions: int
) -> tuple[float, Params]:
    """(loss, gradients) of the batch mean: d/d logits(a) = softmax(logits(a))·Σ_k y_k − y."""
    losses, grads = [], []
    for x, a, y in zip(_f64(xs), np.asarray(actions), _f64(target_probs), strict=True):
        tape = _forward(params, x)
        logits = tape["output"].reshape(n_actions, len(y))
        losses.append(categorical_loss(logits, a, y))
        d_logits = np.zeros_like(logits)
        d_logits[a] = policy(logits[a], 1.0) * np.sum(y) - y
        grads.append(_backward(params, tape, d_logits.reshape(1, -1)))
    return _mean(losses, grads)


def implicit_gradients(
    params: Params,
    xs: ArrayLike,
    fractions: ArrayLike,
    actions: ArrayLike,
    targets: ArrayLike,
    kappa: float = 1.0,
) -> tuple[float, Params]:
    """(loss, gradients) of the batch mean; fractions [B, N], targets [B, M].

    d/dz_i(a) = −mean_j |σ_i − 1{u_ij < 0}|·clip(u_ij, −κ, κ)/κ
    """
    losses, grads = [], []
    batch = zip(_f64(xs), _f64(fractions), np.asarray(actions), _f64(targets), strict=True)
    for x, sigma, a, y in batch:
        tape = _forward(params, x, sigma)
        z = tape["output"]
        losses.append(quantile_loss(z, sigma, a, y, kappa))
        u = y[None, :] - z[:, a][:, None]
        weight = np.abs(sigma[:, None] - (u < 0))
        d_z = np.zeros_like(z)
        d_z[:, a] = -np.mean(weight * np.clip(u, -kappa, kappa) / kappa, axis=1)
        grads.append(_backward(params, tape, d_z))
    return _mean(losses, grads)


def adam_step(
    params: Params,
    grads: Params,
    state: dict[str, Any] | None,
    learning_rate: float,
    eps: float,
    b1: float = 0.9,
    b2: float = 0.999,
) -> tuple[Params, dict[str, Any]]:
    """p − lr·m̂/(√v̂ + ε), m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ), from m = v = 0 and t = 1."""
    zeros = _map(np.zeros_like, params)
    state = state or {"t": 0, "m": zeros, "v": zeros}
    t = state["t"] + 1
    m = _map(lambda m, g: b1 * m + (1 - b1) * g, state["m"], grads)
    v = _map(lambda v, g: b2 * v + (1 - b2) * g**2, state["v"], grads)
    m_hat, v_hat = _map(lambda m: m / (1 - b1**t), m), _map(lambda v: v / (1 - b2**t), v)
    step = _map(lambda m, v: learning_rate * m / (np.sqrt(v) + eps), m_hat, v_hat)
    return _map(np.subtract, params, step), {"t": t, "m": m, "v": v}


def rmsprop_centered_step(
    params: Params,
    grads: Params,
    state: dict[str, Any] | None,
    learning_rate: float,
    decay: float,
    eps: float,
) -> tuple[Params, dict[str, Any]]:
    """p − lr·g/√(ms − mg² + ε), ms and mg the running means of g² and g.

    They start at 1 and 0, as in TensorFlow 1, which made the published DQN curves.
    """
    state = state or {"ms": _map(np.ones_like, params), "mg": _map(np.zeros_like, params)}
    ms = _map(lambda ms, g: decay * ms + (1 - decay) * g**2, state["ms"], grads)
    mg = _map(lambda mg, g: decay * mg + (1 - decay) * g, state["mg"], grads)
    step = _map(lambda g, ms, mg: learning_rate * g / np.sqrt(ms - mg**2 + eps), grads, ms, mg)
    return _map(np.subtract, params, step), {"ms": ms, "mg": mg}
