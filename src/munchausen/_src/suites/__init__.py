from munchausen._src.suites.atari import ATARI
from munchausen._src.suites.gym import GYM, import_by_name, import_module_of, module_of
from munchausen._src.suites.minatar import MINATAR
from munchausen._src.suites.registry import (
    DEFAULT_ENVIRONMENT,
    action_names,
    find,
    frame_bytes,
    frame_bytes_on_disk,
    listings,
    look_up,
    make_host,
    make_jax,
    presets_of,
    register,
    spec_of,
    watch,
)
from munchausen._src.suites.spec import (
    EnvironmentSpec,
    HostEnvironments,
    HostSteps,
    JaxEnvironment,
    JaxStep,
    Watched,
)
from munchausen._src.suites.suite import HUMAN, RANDOM, SOLVED, Listing, Preset, Protocol, Suite

__all__ = [
    "ATARI", "DEFAULT_ENVIRONMENT", "GYM", "HUMAN", "MINATAR", "RANDOM", "SOLVED",
    "EnvironmentSpec", "HostEnvironments", "HostSteps", "JaxEnvironment", "JaxStep", "Listing",
    "Preset", "Protocol", "Suite", "Watched", "action_names", "find", "frame_bytes",
    "frame_bytes_on_disk", "import_by_name", "import_module_of", "listings", "look_up",
    "make_host", "make_jax", "module_of", "presets_of", "register", "spec_of", "watch",
]  # fmt: skip
