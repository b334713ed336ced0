"""Dopamine's own DQN (TensorFlow, RMSProp, one environment) on an Atari game, beside ours.

    python dopamine_atari.py --game breakout --steps 250000 --seed 0 > records.jsonl

A row for every 25,000 steps: the mean return of the episodes that ended in them, how many, and the
mean since the beginning. The agent, its defaults and its preprocessing are Dopamine's; the loop is
its runner's; only the emulator is handed in: the `gym` of that time cannot load ale-py's games.
"""

import argparse
import json
import os
import random
import time

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import ale_py
import numpy as np
import tensorflow as tf
from ale_py import roms
from gym.spaces import Box, Discrete

np.bool = bool  # Dopamine 3 is older than NumPy 1.24

from dopamine.agents.dqn import dqn_agent  # noqa: E402
from dopamine.discrete_domains import atari_lib  # noqa: E402

CAP_STEPS = 27_000


class Emulator:
    """What Dopamine's preprocessing asks of a gym environment without frame skip, `…-v0`."""

    def __init__(self, game: str, seed: int):
        self.ale = ale_py.ALEInterface()
        self.ale.setInt("random_seed", seed + 1)
        self.ale.setFloat("repeat_action_probability", 0.25)
        self.ale.loadROM(roms.get_rom_path(game))
        self.actions = self.ale.getMinimalActionSet()
        height, width = self.ale.getScreenDims()
        self.observation_space = Box(0, 255, (height, width, 3), np.uint8)
        self.action_space = Discrete(len(self.actions))

    def reset(self) -> None:
        self.ale.reset_game()

    def step(self, action):
        reward = self.ale.act(self.actions[int(action)])
        return None, reward, self.ale.game_over(), {}


def play(agent, env) -> tuple[int, float]:
    """One episode as Dopamine's runner plays it: its steps and its return."""
    steps, total, action = 0, 0.0, agent.begin_episode(env.reset())
    while True:
        observation, reward, _, _ = env.step(action)
        steps, total, reward = steps + 1, total + reward, np.clip(reward, -1, 1)
        if env.game_over or steps == CAP_STEPS:
            agent.end_episode(reward)
            return steps, total
        action = agent.step(reward, observation)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="breakout", help="as ale-py spells it")
    parser.add_argument("--steps", type=int, default=250_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--row-steps", type=int, default=25_000)
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)  # noqa: NPY002  Dopamine draws from it
    tf.compat.v1.disable_v2_behavior()
    tf.compat.v1.set_random_seed(args.seed)
    env = atari_lib.AtariPreprocessing(Emulator(args.game, args.seed))
    session = tf.compat.v1.Session()
    agent = dqn_agent.DQNAgent(session, num_actions=env.action_space.n)
    session.run(tf.compat.v1.global_variables_initializer())
    agent.eval_mode = False

    step, begun, row, returns = 0, time.time(), [], []
    while step < args.steps:
        steps, total = play(agent, env)
        row.append(total)
        returns.append(total)
        if (step + steps) // args.row_steps > step // args.row_steps:
            facts = {"step": step + steps, "score": float(np.mean(row)), "episodes": len(row)}
            facts |= {"mean": float(np.mean(returns)), "seconds": round(time.time() - begun, 1)}
            print(json.dumps(facts), flush=True)
            row = []
        step += steps


if __name__ == "__main__":
    main()
