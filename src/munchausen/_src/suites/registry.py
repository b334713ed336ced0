"""One naming scheme for all environments: `minatar/breakout`, `atari/Breakout`,
`gym/CartPole-v1`. What else an environment is called leads to the same listing."""

from dataclasses import dataclass

from munchausen._src.errors import UserError, unknown
from munchausen._src.suites import atari, minatar
from munchausen._src.suites.gym import CLASSIC, GymEnvironments, check_known
from munchausen._src.suites.spec import EnvironmentSpec, HostEnvironments, JaxEnvironment

DEFAULT_ENVIRONMENT = "minatar/breakout"


@dataclass(frozen=True)
class Listing:
    name: str
    suite: str
    loop: str  # device or host
    steps: int  # a run's default length
    iteration_steps: int  # steps between rows of the records
    checkpoint_seconds: float = 30.0  # least time between checkpoints
    asynchronous: bool = False  # whether environments step on threads of their own
    frames_per_step: int = 1  # of the game, where an action is repeated


def _atari(game: str, suite: str) -> Listing:
    # 200 iterations of 1M frames.
    return Listing(
        f"{suite}/{game}",
        suite,
        "host",
        50_000_000,
        250_000,
        120.0,
        asynchronous=True,
        frames_per_step=atari.FRAME_SKIP,
    )


LISTINGS: dict[str, Listing] = (
    {
        f"minatar/{game}": Listing(f"minatar/{game}", "minatar", "device", 500_000, 10_000)
        for game in minatar.GAMES
    }
    | {
        f"gym/{id}": Listing(f"gym/{id}", "classic", "host", steps, 2_000)
        for id, steps in zip(CLASSIC, (50_000, 100_000, 200_000, 200_000), strict=True)
    }
    | {f"atari/{game}": _atari(game, "atari") for game in atari.GAMES}
)

_ORIGINAL = {f"atari-original/{game}": _atari(game, "atari-original") for game in atari.GAMES}
_ROMS = {atari.rom_name(game): game for game in atari.GAMES}


def find(name: str, protocol: str | None = None) -> Listing:
    """The listing of an environment under any of its names. `protocol` is for Atari."""
    listing = _find(name)
    if protocol is None or (protocol == "modern" and listing.suite == "atari"):
        return listing
    if protocol not in atari.PROTOCOLS:
        raise unknown("protocol", protocol, atari.PROTOCOLS)
    if not listing.name.startswith("atari"):
        raise UserError(f"--protocol is for Atari games; {listing.name} has no protocols")
    return _find(f"{atari.PROTOCOLS[protocol]}/{listing.name.split('/')[1]}")


def _find(name: str) -> Listing:
    for listings in (LISTINGS, _ORIGINAL):
        if name in listings:
            return listings[name]
    suite, _, rest = name.rpartition("/")
    if suite in ("atari", "atari-original", "ALE") or not suite:
        if game := _game(rest):
            return _of_game(game, rest, suite)
        if suite:
            raise unknown("environment", name, [f"{suite}/{game}" for game in atari.GAMES])
    id = name.removeprefix("gym/")
    if name.startswith("gym/") or id in CLASSIC:
        check_known(id)
        return LISTINGS.get(f"gym/{id}", Listing(f"gym/{id}", "classic", "host", 100_000, 2_000))
    some = ", ".join([*(x for x in LISTINGS if not x.startswith("atari/")), "atari/Breakout"])
    there_are = f"{some} and 59 more games of Atari (see munchausen envs)"
    raise unknown("environment", name, [*LISTINGS, *atari.GAMES], there_are)


def _game(name: str) -> str | None:
    """MsPacman, ms_pacman, MsPacman-v5 or MsPacmanNoFrameskip-v4 to MsPacman."""
    bare = name.removesuffix("-v5").removesuffix("NoFrameskip-v4")
    return bare if bare in atari.GAMES else _ROMS.get(bare.lower().replace("-", "_"))


def _of_game(game: str, written: str, suite: str) -> Listing:
    if not suite and written.islower() and atari.rom_name(game) in minatar.GAMES:
        raise UserError(
            f"{written} is a game of both Atari and MinAtar; name minatar/{written} or atari/{game}"
        )
    return _find(f"{'atari-original' if suite == 'atari-original' else 'atari'}/{game}")


def make_jax(listing: Listing) -> JaxEnvironment:
    return minatar.MinAtar(listing.name.removeprefix("minatar/"))


def make_host(listing: Listing, count: int) -> HostEnvironments:
    suite, _, name = listing.name.partition("/")
    if suite in atari.PROTOCOLS.values():
        return atari.AtariEnvironments(name, count, protocol=atari.protocol_of(suite))
    return GymEnvironments(listing.name.removeprefix("gym/"), count)


def spec_of(listing: Listing) -> EnvironmentSpec:
    """Without keeping an environment."""
    if listing.loop == "device":
        return make_jax(listing).spec
    batch = make_host(listing, 1)
    batch.close()
    return batch.spec


def action_names(listing: Listing) -> list[str]:
    """What the actions are called, where the environment says so."""
    suite, _, name = listing.name.partition("/")
    if suite in atari.PROTOCOLS.values():
        return atari.action_names(name)
    return [str(i) for i in range(spec_of(listing).actions)]
