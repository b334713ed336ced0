"""Gymnasium: any environment with discrete actions, by its id there, and presets for the classic
ones.

One is named as Gymnasium names it: `ID`, or `module:ID` where importing a module registers it.
Nothing is imported because a file says so: a run's folder may be somebody else's.
"""

import importlib
import sys

from munchausen._src.errors import UserError, unknown
from munchausen._src.suites.suite import RANDOM, REVISITING_RAINBOW, SOLVED, Preset, Suite, later

CLASSIC = {"CartPole-v1": 50_000, "Acrobot-v1": 100_000, "MountainCar-v0": 200_000,
           "LunarLander-v3": 200_000}  # fmt: skip


def module_of(name: str) -> str:
    """Of `gym/module:ID`; empty where there is none."""
    return name.removeprefix("gym/").rpartition(":")[0]


def import_module_of(name: str) -> None:
    """For those who were given that name by their user."""
    if module := module_of(name):
        import_by_name(module)


def import_by_name(module: str) -> None:
    try:
        importlib.import_module(module)
    except (ImportError, TypeError, ValueError) as error:
        raise UserError(f"cannot import {module!r}: {error}") from error


def check_known(name: str) -> None:
    """Refuses an id, or `module:ID`, that no imported module has registered."""
    import gymnasium

    module, _, id = name.rpartition(":")
    if module and module not in sys.modules:
        raise UserError(
            f"gym/{name} is registered by {module!r}: if you trust that module, --import {module} "
            f"(in Python: import {module})"
        )
    if id not in gymnasium.registry:
        classic = ", ".join(f"gym/{x}" for x in CLASSIC)
        own = "for one of your own, gym/MODULE:ID or --import MODULE"
        known = [f"gym/{x}" for x in gymnasium.registry]
        there_are = f"{classic} and others of Gymnasium; {own}"
        raise unknown("environment", f"gym/{id}", known, there_are)


_ENVIRONMENTS = "munchausen._src.suites.gym.environments"

GYM = Suite(
    name="gym",
    make=later(_ENVIRONMENTS, "GymEnvironments"),
    games=tuple(CLASSIC),
    loop="host",
    # Obando-Ceron & Castro 2021, classic control. An agent's own n stays, as on MinAtar.
    presets=(
        Preset(
            {
                **REVISITING_RAINBOW,
                "network": "mlp",
                "batch_size": 128,
                "capacity": 50_000,
                "warmup_steps": 500,
                "target_period_steps": 100,
                "epsilon_decay_steps": 10_000,
                "envs": 4,
            }
        ),
        # DQN is its optimiser, RMSProp: it keeps its own numbers.
        Preset({"learning_rate": 1e-3, "optimizer_eps": 3.125e-4}, {"optimizer": "adam"}),
    ),
    steps=100_000,
    steps_of=CLASSIC,
    iteration_steps=2_000,
    title="Gymnasium",
    check_game=check_known,
    about="any other of Gymnasium with discrete actions: gym/ID; of your own: gym/MODULE:ID",
    # Random play's: means of 1,000 whole episodes, by `munchausen evaluate RUN --epsilon 1
    # --episodes 1000` (seed 0, 2026-11-15). Solved: Gymnasium's own `reward_threshold`.
    references={
        "CartPole-v1": {RANDOM: 22.3, SOLVED: 475.0},
        "Acrobot-v1": {RANDOM: -498.9, SOLVED: -100.0},
        "MountainCar-v0": {RANDOM: -200.0, SOLVED: -110.0},
        "LunarLander-v3": {RANDOM: -182.1, SOLVED: 200.0},
    },
    watch=later(_ENVIRONMENTS, "GymScreen"),
    core_steps_per_second=1_500.0,
)
