"""Atari against an independent transcription of the protocol on the raw emulator."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from raw_ale import RawAtari

from munchausen._src.errors import UserError
from munchausen._src.suites import find, make_host
from munchausen._src.suites.atari import ATARI, GAMES, emulators
from munchausen._src.suites.atari.emulators import AtariEnvironments, AtariScreen, rom_name

STICKY = {"modern": 0.25, "original": 0.0}
# Of several kinds: lives and none, fire to start, flicker, negative rewards, paddles.
SOME = (
    "Asterix",
    "Boxing",
    "Breakout",
    "Freeway",
    "MontezumaRevenge",
    "MsPacman",
    "Pong",
    "Qbert",
    "Seaquest",
    "SpaceInvaders",
)


def compare(game, protocol, steps, seed=7):
    """Frames, rewards, ends and lost lives of a random game, step by step."""
    envs = AtariEnvironments(game, 1, protocol=protocol)
    raw = RawAtari(rom_name(game), seed, sticky=STICKY[protocol])
    assert envs.spec.actions == len(raw.actions)
    np.testing.assert_array_equal(envs.reset([seed])[0], raw.reset())
    random = np.random.default_rng(seed)
    lives, episodes = raw.lives, 0
    for _ in range(steps):
        action = random.integers(0, envs.spec.actions)
        envs.send(np.array([action]))
        step = envs.receive()
        frame, reward, over, cut = raw.step(action)
        assert step.reward[0] == reward
        assert step.over[0] == over
        assert not step.truncated[0]
        assert not cut
        lost = raw.lives < lives
        assert step.terminated[0] == (over or (protocol == "original" and lost))
        if over:
            episodes += 1
            frame = raw.reset()
        lives = raw.lives
        np.testing.assert_array_equal(step.frame[0], frame)
    envs.close()
    return episodes


@pytest.mark.parametrize("protocol", ("modern", "original"))
@pytest.mark.parametrize("game", SOME)
def test_pixels_rewards_and_ends(game, protocol):
    compare(game, protocol, 250)


def test_over_the_end_of_a_game():
    assert compare("Breakout", "modern", 700) >= 2
    assert compare("Breakout", "original", 700) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ("modern", "original"))
@pytest.mark.parametrize("game", GAMES)
def test_pixels_of_every_game(game, protocol):
    compare(game, protocol, 1_000)


def test_the_limit_of_steps_is_a_truncation(monkeypatch):
    monkeypatch.setattr(emulators, "CAP_FRAMES", 200)
    envs = AtariEnvironments("Pong", 2)
    raw = [RawAtari("pong", seed, sticky=0.25, cap_frames=200) for seed in (1, 2)]
    envs.reset([1, 2])
    for game in raw:
        game.reset()
    for t in range(1, 51):
        envs.send(np.array([2, 3]))
        step = envs.receive()
        wanted = [game.step(action) for game, action in zip(raw, (2, 3), strict=True)]
        assert (step.final_frame is not None) == (t == 50)
    assert step.truncated.all()
    assert step.over.all()
    assert not step.terminated.any()
    # The outcome is kept, and the frame is the first of the next episode.
    np.testing.assert_array_equal(step.final_frame, [frame for frame, *_ in wanted])
    np.testing.assert_array_equal(step.frame, [game.reset() for game in raw])
    envs.close()


@pytest.mark.parametrize(
    "actions", (np.array([0, 99]), np.array([-1, 0]), np.array([0]), np.array([0, 1, 2]))
)
def test_an_invalid_action_does_not_hang(actions):
    envs = AtariEnvironments("Pong", 2)
    envs.reset([0, 1])
    with pytest.raises(ValueError, match="takes 2 actions from 0 to 5"):
        envs.send(actions)
    envs.send(np.array([0, 5]))  # and the environment is still usable
    assert envs.receive().frame.shape == (2, 84, 84)
    envs.close()


def test_the_twin_in_colour_plays_the_same_game():
    game = AtariScreen("Breakout", 3)
    game.reset()
    random = np.random.default_rng(0)
    for _ in range(200):
        action = random.integers(0, 4, 1)
        step = game.step(action)
        # The same game, at another size: where it is bright there, it is bright here.
        small = game.screen().mean(axis=-1)[:, :].reshape(42, 5, 80, 2).mean(axis=(1, 3))
        large = step.frame[0].reshape(42, 2, 84)[:, :, :].mean(axis=1)
        large = np.stack([np.interp(np.linspace(0, 83, 80), range(84), row) for row in large])
        assert np.corrcoef(small.ravel(), large.ravel())[0, 1] > 0.9
    assert game.screen().shape == (210, 160, 3)
    game.close()


def test_all_games_by_all_their_names():
    assert len(set(GAMES)) == 60
    for game in GAMES:
        wanted = find(f"atari/{game}")
        assert (wanted.name, wanted.steps, wanted.suite.iteration_steps) == (
            f"atari/{game}",
            50_000_000,
            250_000,
        )
        rom = rom_name(game)
        names = [game, f"ALE/{game}-v5", f"{game}NoFrameskip-v4", f"atari/{rom}", f"ALE/{game}"]
        if rom not in ("asterix", "breakout", "freeway", "seaquest", "space_invaders"):
            names.append(rom)
        assert {find(name) for name in names} == {wanted}


def test_a_name_of_two_suites_is_asked_about():
    with pytest.raises(UserError, match="name minatar/breakout or atari/Breakout"):
        find("breakout")


def test_protocols():
    listing = find("Asterix", "original")
    assert (listing.name, listing.suite) == ("atari-original/Asterix", ATARI)
    assert (listing.prefix, listing.protocol, listing.steps) == (
        "atari-original",
        "original",
        50_000_000,
    )
    assert find(listing.name) == listing
    assert find("Asterix", "modern").name == "atari/Asterix"
    with pytest.raises(UserError, match="did you mean 'original'"):
        find("Asterix", "orignal")
    with pytest.raises(UserError, match="for Atari games"):
        find("minatar/asterix", "original")


def test_an_unknown_game_names_the_nearest():
    with pytest.raises(UserError, match="atari/Breakout"):
        find("atari/Brekout")


def test_without_the_extra_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py.vector_env", None)
    with pytest.raises(UserError, match=r"pip install '.*\[atari\]'"):
        make_host(find("atari/Pong"), 1)


@pytest.mark.skipif(sys.platform != "linux", reason="priorities are those of a whole process")
def test_emulators_make_way_for_the_threads_that_feed_the_device():
    def priorities():
        found = {}
        for path in Path("/proc/self/task").iterdir():
            task = int(path.name)
            with suppress(ProcessLookupError):  # a thread may end while they are counted
                found[task] = os.getpriority(os.PRIO_PROCESS, task)
        return found

    before = priorities()
    envs = AtariEnvironments("Pong", 2)
    after = priorities()
    envs.close()
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    emulators = [nice for task, nice in after.items() if task not in before]
    assert emulators
    assert set(emulators) == {min(usual + 10, 19)}
    assert all(after[task] == nice for task, nice in before.items() if task in after)
