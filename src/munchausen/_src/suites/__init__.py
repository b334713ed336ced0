from munchausen._src.suites.gym import import_by_name, import_module_of, module_of
from munchausen._src.suites.registry import (
    DEFAULT_ENVIRONMENT,
    LISTINGS,
    Listing,
    action_names,
    find,
    make_host,
    make_jax,
    spec_of,
)
from munchausen._src.suites.spec import EnvironmentSpec, HostEnvironments, JaxEnvironment

__all__ = [
    "DEFAULT_ENVIRONMENT",
    "LISTINGS",
    "EnvironmentSpec",
    "HostEnvironments",
    "JaxEnvironment",
    "Listing",
    "action_names",
    "find",
    "import_by_name",
    "import_module_of",
    "make_host",
    "make_jax",
    "module_of",
    "spec_of",
]
