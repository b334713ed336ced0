"""Environments that are nothing but a specification."""

from munchausen._src.suites import EnvironmentSpec


def vectors(size: int, actions: int) -> EnvironmentSpec:
    return EnvironmentSpec("test", (size,), "float32", actions, truncates=True)


def atari(actions: int) -> EnvironmentSpec:
    return EnvironmentSpec("test", (84, 84), "uint8", actions, truncates=True, scale=1 / 255)
