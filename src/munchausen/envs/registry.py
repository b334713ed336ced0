"""One naming scheme for all environments: `minatar/breakout`, `gym/CartPole-v1`."""

from dataclasses import dataclass

from munchausen.envs.gym import CLASSIC, GymEnvironments
from munchausen.envs.minatar import GAMES, MinAtar
from munchausen.envs.spec import HostEnvironments, JaxEnvironment
from munchausen.errors import unknown

DEFAULT_ENVIRONMENT = "minatar/breakout"


@dataclass(frozen=True)
class Listing:
    name: str
    suite: str
    loop: str  # device or host
    steps: int  # a run's default length
    iteration_steps: int  # steps between rows of the records


LISTINGS: dict[str, Listing] = {
    f"minatar/{game}": Listing(f"minatar/{game}", "minatar", "device", 500_000, 10_000)
    for game in GAMES
} | {
    f"gym/{id}": Listing(f"gym/{id}", "classic", "host", steps, 2_000)
    for id, steps in zip(CLASSIC, (50_000, 100_000, 200_000, 200_000), strict=True)
}


def find(name: str) -> Listing:
    """The listing of an environment under any of its names."""
    if name in LISTINGS:
        return LISTINGS[name]
    bare = name.lower().replace("-", "_")
    if bare in GAMES:
        return LISTINGS[f"minatar/{bare}"]
    id = name.removeprefix("gym/")
    if name.startswith("gym/") or id in CLASSIC:
        import gymnasium

        if id in gymnasium.registry:
            return LISTINGS.get(
                f"gym/{id}", Listing(f"gym/{id}", "classic", "host", 100_000, 2_000)
            )
        raise unknown("environment", name, [f"gym/{id}" for id in gymnasium.registry])
    raise unknown("environment", name, LISTINGS)


def make_jax(listing: Listing) -> JaxEnvironment:
    return MinAtar(listing.name.removeprefix("minatar/"))


def make_host(listing: Listing, count: int) -> HostEnvironments:
    return GymEnvironments(listing.name.removeprefix("gym/"), count)
