"""One naming scheme for all environments: `minatar/breakout`, `atari/Breakout`,
`gym/CartPole-v1`. Other names of an environment lead to the same listing."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from munchausen._src.errors import UserError, install_line, nearest, unknown
from munchausen._src.suites.atari import ATARI
from munchausen._src.suites.gym import GYM
from munchausen._src.suites.minatar import MINATAR
from munchausen._src.suites.spec import (
    EnvironmentSpec,
    HostEnvironments,
    JaxEnvironment,
    Watched,
)
from munchausen._src.suites.suite import Listing, Preset, Suite

DEFAULT_ENVIRONMENT = "minatar/breakout"

SUITES: dict[str, Suite] = {}


def register(suite: Suite) -> Suite:
    """Makes the games of a suite known as `suite/game`, to commands and to `Agent` alike."""
    there = {name.lower() for known in SUITES.values() for name in _names(known)}
    for name in _names(suite):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
            raise UserError(f"a suite's name is letters, digits, '_', '.' and '-', not {name!r}")
        if name.lower() in there:
            raise UserError(f"there is a suite {name!r} already; give this one another name")
    SUITES[suite.name] = suite
    return suite


def _names(suite: Suite) -> list[str]:
    """All that may stand before a slash."""
    return list(dict.fromkeys([suite.name, *suite.prefixes, *suite.other_names]))


def listings() -> list[Listing]:
    """The games of all suites, each under its usual protocol."""
    return [
        Listing(suite, game, next(iter(suite.protocols), None))
        for suite in SUITES.values()
        for game in suite.games
    ]


def look_up(name: str) -> Listing | None:
    """What a canonical name leads to; whether there is such a game is not asked, so that facts can
    be had of results alone. None where nobody registered the suite."""
    prefix, _, game = name.partition("/")
    for suite in SUITES.values():
        if prefix in suite.prefixes:
            return Listing(suite, game, suite.prefixes[prefix])
    return None


def presets_of(prefix: str) -> tuple[Preset, ...]:
    """Of a suite, or of one of its protocols: what stands before the slash of a name."""
    if listing := look_up(prefix):
        return listing.presets
    raise unknown("suite", prefix, [x for suite in SUITES.values() for x in suite.prefixes])


def find(name: str, protocol: str | None = None) -> Listing:
    """The listing of an environment under any of its names."""
    listing = _find(name)
    if protocol is None:
        return listing
    if not listing.suite.protocols:
        titles = [suite.title or suite.name for suite in SUITES.values() if suite.protocols]
        raise UserError(
            f"--protocol is for {' and '.join(titles)} games; {listing.name} has no protocols"
        )
    if protocol not in listing.suite.protocols:
        raise unknown("protocol", protocol, listing.suite.protocols)
    return Listing(listing.suite, listing.game, protocol)


def _find(name: str) -> Listing:
    prefix, slash, rest = name.partition("/")
    found = [
        Listing(suite, game, suite.prefixes.get(prefix, next(iter(suite.protocols), None)))
        for suite in SUITES.values()
        if (prefix in _names(suite) or not slash)
        and (game := _game(suite, rest if slash else name, anything=bool(slash)))
    ]
    if len(found) > 1:
        names = " or ".join(listing.name for listing in found)
        raise UserError(f"{name} is a game of several suites; name {names}")
    if found:
        return found[0]
    known = [listing.name for listing in listings()]
    for suite in SUITES.values():
        own = [f"{prefix}/{game}" for game in suite.games]
        if prefix in _names(suite) and nearest(name, own):
            known = own
    bare = [listing.game for listing in listings() if listing.suite.called]
    raise unknown("environment", name, known + bare * (not slash), _some())


def _game(suite: Suite, name: str, *, anything: bool) -> str | None:
    """The suite's name for a game; with `anything` also of those it does not list."""
    game = suite.game_called(name)
    if game is None and anything and suite.check_game:
        suite.check_game(name)
        return name
    return game


def _some() -> str:
    """Of small suites all games."""
    few = []
    for suite in SUITES.values():
        names = [listing.name for listing in listings() if listing.suite is suite]
        more = f" and {len(names) - 1} more games of {suite.title or suite.name}"
        few += names if len(names) <= 10 else [names[0] + more]
    return ", ".join(few) + " (see munchausen envs); one of your own needs --import MODULE"


def make_jax(listing: Listing) -> JaxEnvironment:
    env = _call(listing, listing.suite.make)
    if not isinstance(env, JaxEnvironment):
        raise UserError(
            f"{listing.name} is made as {type(env).__name__}, which is no JaxEnvironment: it needs "
            "`spec`, `init(key)` and `step(state, action, key)`"
        )
    return env


def make_host(listing: Listing, count: int) -> HostEnvironments:
    return _call(listing, listing.suite.make, count)


def watch(listing: Listing, seed: int) -> Watched:
    """A game on the host, to be looked at."""
    if listing.suite.watch is None:
        raise UserError(f"{listing.name} cannot be watched: its suite has no `watch`")
    return _call(listing, listing.suite.watch, seed)


def action_names(listing: Listing) -> list[str]:
    """What the actions are called, where the suite says so."""
    if listing.suite.action_names is not None:
        return list(_call(listing, listing.suite.action_names))
    return [str(i) for i in range(spec_of(listing).actions)]


def spec_of(listing: Listing) -> EnvironmentSpec:
    """Without keeping an environment."""
    if listing.suite.loop == "device":
        return make_jax(listing).spec
    batch = make_host(listing, 1)
    batch.close()
    return batch.spec


@cache
def frame_bytes(listing: Listing) -> int:
    """Of one frame in a replay."""
    return listing.suite.frame_bytes or spec_of(listing).frame_bytes


@cache
def frame_bytes_on_disk(listing: Listing) -> float:
    """Of one frame in a run's folder: by default as it is, in both checkpoints."""
    if listing.suite.frame_bytes_on_disk is not None:
        return listing.suite.frame_bytes_on_disk
    spec = spec_of(listing)
    return 2 * spec.frame_bytes / (8 if spec.frame_dtype == "bool" else 1)


def _call(listing: Listing, function: Callable[..., Any], *arguments: Any) -> Any:
    """A suite's own function, for a game of it."""
    options = {"protocol": listing.protocol} if listing.protocol else {}
    try:
        return function(listing.game, *arguments, **options)
    except ImportError as error:
        if listing.suite.extra is None:
            raise UserError(f"{listing.name} cannot be made: {error}") from error
        line = install_line(listing.suite.extra)
        raise UserError(f"{listing.name} needs an extra: {line}") from error


for _suite in (MINATAR, GYM, ATARI):
    register(_suite)
