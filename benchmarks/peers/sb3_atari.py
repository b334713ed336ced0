"""Throughput of Stable-Baselines3's DQN on Atari with the paper's network (torch, CPU)."""

import argparse
import json
import time

import ale_py
import gymnasium
import stable_baselines3
import torch
from gymnasium.wrappers import AtariPreprocessing
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecTransposeImage
from torch import nn

FRAME_SKIP = 4


class NatureSame(BaseFeaturesExtractor):
    """Dopamine's network: SAME padding, 7,744 features."""

    def __init__(self, observation_space):
        super().__init__(observation_space, features_dim=7_744)
        self.layers = nn.Sequential(
            nn.Conv2d(4, 32, 8, stride=4, padding=2),
            nn.ReLU(),
            nn.ZeroPad2d((1, 2, 1, 2)),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        )

    def forward(self, observations):
        return self.layers(observations)


def make_env(game: str):
    gymnasium.register_envs(ale_py)
    env = gymnasium.make(f"ALE/{game}-v5", frameskip=1, repeat_action_probability=0.25)
    return AtariPreprocessing(env, noop_max=0, frame_skip=FRAME_SKIP, grayscale_newaxis=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", default="Breakout")
    parser.add_argument("--steps", type=int, default=800, help="timed environment steps")
    parser.add_argument("--capacity", type=int, default=20_000)
    parser.add_argument("--threads", type=int, default=2, help="torch's compute threads")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    envs = VecTransposeImage(VecFrameStack(DummyVecEnv([lambda: make_env(args.game)]), 4))
    agent = stable_baselines3.DQN(
        "CnnPolicy",
        envs,
        learning_rate=5e-5,
        buffer_size=args.capacity,
        optimize_memory_usage=False,
        learning_starts=200,
        batch_size=32,
        gamma=0.99,
        train_freq=4,
        gradient_steps=1,
        target_update_interval=8_000,
        exploration_initial_eps=0.01,
        exploration_final_eps=0.01,
        policy_kwargs={
            "features_extractor_class": NatureSame,
            "net_arch": [512],
            "optimizer_kwargs": {"eps": 3.125e-4, "fused": True},
        },
        verbose=0,
        seed=0,
        device="cpu",
    )
    agent.learn(400, log_interval=None)
    start = time.perf_counter()
    agent.learn(args.steps, log_interval=None, reset_num_timesteps=False)
    seconds = time.perf_counter() - start
    result = {
        "peer": "stable-baselines3",
        "version": stable_baselines3.__version__,
        "env": f"atari/{args.game}",
        "frames_per_second": round(args.steps * FRAME_SKIP / seconds, 1),
        "threads": args.threads,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
