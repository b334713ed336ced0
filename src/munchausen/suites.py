"""Environments of one's own. What is here is public and stays; everything else is private.

    from munchausen.suites import GYM, EnvironmentSpec, JaxStep, Suite, register

    register(Suite("mine", make=lambda game: Corridor(), games=("corridor",), presets=GYM.presets))

makes `mine/corridor` an environment like any other: for `Agent`, and for every command that is told
`--import` and the module with this line.
"""

from munchausen._src.suites import (
    ATARI,
    GYM,
    HUMAN,
    MINATAR,
    RANDOM,
    SOLVED,
    EnvironmentSpec,
    HostEnvironments,
    HostSteps,
    JaxEnvironment,
    JaxStep,
    Preset,
    Protocol,
    Suite,
    Watched,
    register,
)

__all__ = [
    "ATARI", "GYM", "HUMAN", "MINATAR", "RANDOM", "SOLVED", "EnvironmentSpec",
    "HostEnvironments", "HostSteps", "JaxEnvironment", "JaxStep", "Preset", "Protocol", "Suite",
    "Watched", "register",
]  # fmt: skip
