"""Atari 2600: the paper's 60 games, its two protocols, its numbers and its table of scores.

Modern (Machado et al. 2018, as in Dopamine and the paper): sticky actions 0.25, a lost life ends
nothing. Original (Mnih et al. 2015, the paper's appendix on Asterix): no sticky actions, and a
lost life is a terminal for learning while the game goes on.
"""

import re

from munchausen._src.errors import bare
from munchausen._src.suites.suite import Preset, Protocol, Suite, later, read_scores

# The rows of the paper's table of scores.
# fmt: off
GAMES = (
    "AirRaid", "Alien", "Amidar", "Assault", "Asterix", "Asteroids", "Atlantis", "BankHeist",
    "BattleZone", "BeamRider", "Berzerk", "Bowling", "Boxing", "Breakout", "Carnival", "Centipede",
    "ChopperCommand", "CrazyClimber", "DemonAttack", "DoubleDunk", "ElevatorAction", "Enduro",
    "FishingDerby", "Freeway", "Frostbite", "Gopher", "Gravitar", "Hero", "IceHockey", "Jamesbond",
    "JourneyEscape", "Kangaroo", "Krull", "KungFuMaster", "MontezumaRevenge", "MsPacman",
    "NameThisGame", "Phoenix", "Pitfall", "Pong", "Pooyan", "PrivateEye", "Qbert", "Riverraid",
    "RoadRunner", "Robotank", "Seaquest", "Skiing", "Solaris", "SpaceInvaders", "StarGunner",
    "Tennis", "TimePilot", "Tutankham", "UpNDown", "Venture", "VideoPinball", "WizardOfWor",
    "YarsRevenge", "Zaxxon",
)
# fmt: on

FRAME_SKIP = 4
FRAME_SHAPE = (84, 84)


_BY_BARE_NAME = {bare(game): game for game in GAMES}


def called(name: str) -> str | None:
    """MsPacman for MsPacman, ms_pacman, MsPacman-v5 and MsPacmanNoFrameskip-v4."""
    return _BY_BARE_NAME.get(bare(re.sub(r"(NoFrameskip|Deterministic)?-v\d+$", "", name)))


_EMULATORS = "munchausen._src.suites.atari.emulators"

# As close as the paper comes to the protocol of the first publications (its appendix on Asterix,
# Dopamine's *_original configurations): DQN's numbers, then what others change.
_ORIGINAL = (
    Preset(
        {
            "target_period_steps": 10_000,
            "warmup_steps": 50_000,
            "epsilon": 0.01,
            "epsilon_decay_steps": 1_000_000,
        }
    ),
    Preset({"epsilon": 0.1, "evaluation_epsilon": 0.05}, {"head": "expected"}),
    Preset({"n_step": 1}, {"head": "implicit"}),
    Preset({"warmup_steps": 20_000, "epsilon_decay_steps": 250_000}, {"replay": "prioritised"}),
)

ATARI = Suite(
    name="atari",
    make=later(_EMULATORS, "AtariEnvironments"),
    games=GAMES,
    loop="host",
    presets=(
        # `envs`: measured, see benchmarks/; updates, target copies and ε per step are the paper's.
        # 200 divides an iteration, the warm-up and the target period; so does the 40 below.
        Preset({"envs": 200}),
        # Implicit quantiles are bound by the learner: fewer environments cost them little speed,
        # and an episode then takes fewer steps of the run.
        Preset({"envs": 40}, {"head": "implicit"}),
    ),
    protocols={"modern": Protocol("atari"), "original": Protocol("atari-original", _ORIGINAL)},
    steps=50_000_000,  # 200 iterations of 1M frames
    iteration_steps=250_000,
    checkpoint_seconds=120.0,
    frames_per_step=FRAME_SKIP,
    asynchronous=True,
    title="Atari",
    other_names=("ALE",),
    called=called,
    about="Atari games under the protocol of the first publications: --protocol original",
    action_names=later(_EMULATORS, "action_names"),
    references=read_scores(__name__),
    published="paper, best of 200M frames",
    watch=later(_EMULATORS, "AtariScreen"),
    package="ale_py",
    extra="atari",
    frame_bytes=FRAME_SHAPE[0] * FRAME_SHAPE[1],
    # In a compressed block: the worst of 12 games under random play; their mean was 170.
    frame_bytes_on_disk=850.0,
    wants_gpu=True,
)
