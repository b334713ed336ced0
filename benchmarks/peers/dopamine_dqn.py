"""Throughput of Dopamine's JAX DQN agent on MinAtar Breakout (CPU)."""

import argparse
import functools
import importlib.metadata
import json
import os
import time
from typing import NamedTuple

import gin
import jax
import jax.numpy as jnp
from flax import linen as nn
from minatar_env import MinAtarBreakout, mean_return_last_100


class NetworkOutput(NamedTuple):
    q_values: jax.Array


class MinAtarNetwork(nn.Module):
    """One 3x3 convolution with 16 filters, then 128 units ("hidden") or none ("linear")."""

    num_actions: int
    network: str

    @nn.compact
    def __call__(self, x):
        hidden = self.network == "hidden"
        init = nn.initializers.xavier_uniform()
        x = x[..., 0].astype(jnp.float32)  # a stack of one observation
        x = nn.Conv(16, (3, 3), padding="VALID" if hidden else "SAME", kernel_init=init)(x)
        x = nn.relu(x).reshape(-1)
        if hidden:
            x = nn.relu(nn.Dense(128, kernel_init=init)(x))
        return NetworkOutput(nn.Dense(self.num_actions, kernel_init=init)(x))


def agent_class():
    """Dopamine's own agent class, importable with the newest JAX as well.

    Dopamine imports TensorFlow Probability 0.25, which reads a name that JAX 0.7 removed.
    """
    if not hasattr(jax.interpreters.xla, "pytype_aval_mappings"):
        jax.interpreters.xla.pytype_aval_mappings = jax.core.pytype_aval_mappings
    from dopamine.jax.agents.dqn.dqn_agent import JaxDQNAgent

    return JaxDQNAgent


def make_agent(network: str, seed: int, epsilon_decay_steps: int):
    dqn_agent = agent_class()
    # Settings that Dopamine takes from gin only.
    gin.bind_parameter("create_optimizer.learning_rate", 2.5e-4)
    gin.bind_parameter("create_optimizer.eps", 3.125e-4)
    gin.bind_parameter("ReplayBuffer.batch_size", 32)
    gin.bind_parameter("ReplayBuffer.max_capacity", 100_000)
    gin.bind_parameter("ReplayBuffer.compress", False)  # the faster setting, for more memory
    return dqn_agent(
        num_actions=3,
        observation_shape=(10, 10, 4),
        stack_size=1,
        network=functools.partial(MinAtarNetwork, network=network),
        gamma=0.99,
        min_replay_history=1_000,
        update_period=4,
        target_update_period=1_000,
        epsilon_train=0.01,
        epsilon_decay_period=epsilon_decay_steps,
        seed=seed,
    )


def train(agent, env: MinAtarBreakout, action, steps: int):
    """Runs `steps` environment steps from a game in progress; returns the next action."""
    for _ in range(steps):
        observation, reward, terminated, _, _ = env.step(action)
        if terminated:
            agent.end_episode(reward)
            observation, _ = env.reset()
            action = agent.begin_episode(observation)
        else:
            action = agent.step(reward, observation)
    jax.block_until_ready(agent.online_params)
    return action


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000, help="timed environment steps")
    parser.add_argument("--warmup", type=int, default=5_000, help="untimed steps before them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="cores the process may use")
    parser.add_argument("--network", choices=("hidden", "linear"), default="hidden")
    parser.add_argument("--epsilon-decay-steps", type=int, default=250_000)
    args = parser.parse_args()
    # XLA sizes its thread pool by the cores it may run on, at its first computation.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-args.threads :])

    env = MinAtarBreakout()
    agent = make_agent(args.network, args.seed, args.epsilon_decay_steps)
    action = agent.begin_episode(env.reset(seed=args.seed)[0])
    action = train(agent, env, action, args.warmup)
    start = time.perf_counter()
    train(agent, env, action, args.steps)
    seconds = time.perf_counter() - start

    result = {
        "peer": "dopamine",
        "version": importlib.metadata.version("dopamine-rl"),
        "env": "minatar/breakout",
        "network": args.network,
        "steps": args.steps,
        "steps_per_second": round(args.steps / seconds, 1),
        "mean_return_last_100": mean_return_last_100(env),
        "threads": args.threads,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
