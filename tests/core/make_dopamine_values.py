"""Writes dopamine_values.json: what Dopamine's own IQN makes of the updates in iqn_step.py.

In an environment of its own, set up as in benchmarks/peers/README.md:

    cd tests/agent && /tmp/peer-dopamine/bin/python make_dopamine_values.py > dopamine_values.json

Dopamine draws its fractions within the network. Here a key is the fractions themselves, and
`jax.random` takes them out again; all else is Dopamine's, untouched.
"""

import json
import sys
import types
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np
from iqn_step import (
    ACTIONS,
    BATCH,
    COSINES,
    DISCOUNT,
    EPS,
    FRACTIONS,
    LEARNING_RATE,
    POLICY_FRACTIONS,
    TARGET_FRACTIONS,
    UPDATES,
    batch,
    summary,
    weights,
)


class Absent(types.ModuleType):
    """Stands for what Dopamine imports for other agents."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(name)

    def __call__(self, *_, **__):
        return self


for name in ("", ".substrates", ".substrates.jax"):
    sys.modules["tensorflow_probability" + name] = Absent("tensorflow_probability" + name)
sys.modules["dopamine.jax.continuous_networks"] = Absent("continuous_networks")
import dopamine.jax  # noqa: E402

dopamine.jax.continuous_networks = sys.modules["dopamine.jax.continuous_networks"]
from dopamine.jax import networks  # noqa: E402
from dopamine.jax.agents.dqn import dqn_agent  # noqa: E402
from dopamine.jax.agents.implicit_quantile import implicit_quantile_agent  # noqa: E402

POLICY_END = POLICY_FRACTIONS
TARGET_END = POLICY_END + TARGET_FRACTIONS


def split(key, num=2):
    """Of all fractions of a batch, one row a transition: each transition's; of one transition's:
    the policy's and the target's."""
    if key.ndim == 2:
        return [key, key] if num == 2 else key
    return key, key[:POLICY_END], key[POLICY_END:TARGET_END]


def uniform(key, shape):
    whole = key.shape[0] == TARGET_END + FRACTIONS
    return (key[TARGET_END:] if whole else key).reshape(shape)


def parameters(drawn):
    layers = {k: {"kernel": jnp.asarray(w), "bias": jnp.asarray(b)} for k, (w, b) in drawn.items()}
    return {"params": layers}


def main():
    network = networks.ImplicitQuantileNetwork(num_actions=ACTIONS, quantile_embedding_dim=COSINES)
    online, target = parameters(weights(0)), parameters(weights(1))
    before = jax.tree.map(np.asarray, online)
    optimizer = dqn_agent.create_optimizer("adam", learning_rate=LEARNING_RATE, eps=EPS)
    state = optimizer.init(online)
    jax.random.split, jax.random.uniform = split, uniform
    losses = []
    for update in range(UPDATES):
        x = batch(update)
        fractions = np.concatenate([x["policy"], x["target"], x["online"]], axis=1)
        assert fractions.shape[0] == BATCH
        _, state, online, loss = implicit_quantile_agent.train(
            network,
            online,
            target,
            optimizer,
            state,
            x["states"],
            x["actions"],
            x["next_states"],
            x["rewards"],
            x["terminals"],
            FRACTIONS,
            TARGET_FRACTIONS,
            POLICY_FRACTIONS,
            DISCOUNT,
            False,
            1.0,
            jnp.asarray(fractions),
        )
        losses.append(float(loss))
    changes = {
        name: {
            kind: summary(np.asarray(x) - before["params"][name][kind]) for kind, x in of.items()
        }
        for name, of in online["params"].items()
    }
    versions = {name: version(name) for name in ("dopamine-rl", "jax", "flax", "optax")}
    json.dump({"versions": versions, "losses": losses, "changes": changes}, sys.stdout, indent=1)


main()
