from munchausen.envs.registry import (
    DEFAULT_ENVIRONMENT,
    LISTINGS,
    Listing,
    find,
    make_host,
    make_jax,
)
from munchausen.envs.spec import EnvironmentSpec, HostEnvironments, JaxEnvironment

__all__ = [
    "DEFAULT_ENVIRONMENT",
    "LISTINGS",
    "EnvironmentSpec",
    "HostEnvironments",
    "JaxEnvironment",
    "Listing",
    "find",
    "make_host",
    "make_jax",
]
