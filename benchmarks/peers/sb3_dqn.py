"""Throughput of Stable-Baselines3's DQN on MinAtar Breakout (torch, CPU)."""

import argparse
import json
import time

import stable_baselines3
import torch
from minatar_env import MinAtarBreakout, mean_return_last_100
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

EPSILON_FINAL = 0.01


class MinAtarEncoder(BaseFeaturesExtractor):
    """One 3x3 convolution with 16 filters, flattened: padding 0 to 1024, 1 to 1600."""

    def __init__(self, observation_space, padding: int):
        super().__init__(observation_space, features_dim=16 * (8 + 2 * padding) ** 2)
        self.layers = nn.Sequential(
            nn.Conv2d(4, 16, kernel_size=3, padding=padding), nn.ReLU(), nn.Flatten()
        )

    def forward(self, observations):
        return self.layers(observations)


def make_agent(env: MinAtarBreakout, network: str, seed: int, epsilon_decay_steps: int):
    hidden = network == "hidden"
    agent = stable_baselines3.DQN(
        "CnnPolicy",
        # A vectorised environment of our own: SB3 then adds no Monitor wrapper.
        DummyVecEnv([lambda: env]),
        learning_rate=2.5e-4,
        buffer_size=100_000,
        learning_starts=1_000,
        batch_size=32,
        gamma=0.99,
        train_freq=4,
        gradient_steps=1,
        target_update_interval=1_000,
        policy_kwargs={
            "features_extractor_class": MinAtarEncoder,
            "features_extractor_kwargs": {"padding": 0 if hidden else 1},
            "net_arch": [128] if hidden else [],
            "normalize_images": False,
            # The fastest of torch's CPU versions of Adam, by a little.
            "optimizer_kwargs": {"eps": 3.125e-4, "fused": True},
        },
        verbose=0,
        seed=seed,
        device="cpu",
    )
    # SB3's own schedule is a fraction of one `learn` call; ours spans two calls.
    agent.exploration_schedule = lambda _: max(
        EPSILON_FINAL, 1 - (1 - EPSILON_FINAL) * agent.num_timesteps / epsilon_decay_steps
    )
    agent.exploration_rate = 1.0
    return agent


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000, help="timed environment steps")
    parser.add_argument("--warmup", type=int, default=5_000, help="untimed steps before them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="torch's compute threads")
    parser.add_argument("--network", choices=("hidden", "linear"), default="hidden")
    parser.add_argument("--epsilon-decay-steps", type=int, default=250_000)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    env = MinAtarBreakout(layout="CHW")
    agent = make_agent(env, args.network, args.seed, args.epsilon_decay_steps)
    agent.learn(args.warmup, log_interval=None, progress_bar=False)
    steps_before = agent.num_timesteps
    start = time.perf_counter()
    agent.learn(args.steps, log_interval=None, progress_bar=False, reset_num_timesteps=False)
    seconds = time.perf_counter() - start
    steps = agent.num_timesteps - steps_before

    result = {
        "peer": "stable-baselines3",
        "version": stable_baselines3.__version__,
        "env": "minatar/breakout",
        "network": args.network,
        "steps": steps,
        "steps_per_second": round(steps / seconds, 1),
        "mean_return_last_100": mean_return_last_100(env),
        "threads": args.threads,
        "epsilon": round(agent.exploration_rate, 4),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
