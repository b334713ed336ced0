"""Presets are the paper's numbers; fields are checked."""

import json
import math
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import munchausen
from munchausen._src.agents import AGENTS, DESCRIPTIONS, override, register_agent, resolve
from munchausen._src.agents.config import FIELDS
from munchausen._src.errors import UserError

# name: head, α, τ, l0, n, replay, optimiser, learning rate, ε (the paper, on Atari)
PAPER = {
    "dqn": ("expected", 0.0, 0.0, None, 1, "uniform", "rmsprop", 2.5e-4, 1e-5),
    "adam-dqn": ("expected", 0.0, 0.0, None, 1, "uniform", "adam", 5e-5, 3.125e-4),
    "soft-dqn": ("expected", 0.0, 0.03, None, 1, "uniform", "adam", 5e-5, 3.125e-4),
    "soft-dqn-low": ("expected", 0.0, 0.003, None, 1, "uniform", "adam", 5e-5, 3.125e-4),
    "al": ("expected", 0.9, 0.0, -math.inf, 1, "uniform", "adam", 5e-5, 3.125e-4),
    "m-dqn": ("expected", 0.9, 0.03, -1.0, 1, "uniform", "adam", 5e-5, 3.125e-4),
    "m-dqn-stochastic": ("expected", 0.9, 0.03, -1.0, 1, "uniform", "adam", 5e-5, 3.125e-4),
    "c51": ("categorical", 0.0, 0.0, None, 1, "uniform", "adam", 2.5e-4, 3.125e-4),
    "m-c51": ("categorical", 0.9, 0.03, -1.0, 1, "uniform", "adam", 2.5e-4, 3.125e-4),
    "rainbow": ("categorical", 0.0, 0.0, None, 3, "prioritised", "adam", 6.25e-5, 1.5e-4),
    "m-rainbow": ("categorical", 0.9, 0.03, -1.0, 3, "prioritised", "adam", 6.25e-5, 1.5e-4),
    "qr-dqn": ("quantile", 0.0, 0.0, None, 1, "uniform", "adam", 5e-5, 3.125e-4),
    "m-qr-dqn": ("quantile", 0.9, 0.03, -1.0, 1, "uniform", "adam", 5e-5, 3.125e-4),
    "iqn": ("implicit", 0.0, 0.0, None, 3, "uniform", "adam", 5e-5, 3.125e-4),
    "iqn-1step": ("implicit", 0.0, 0.0, None, 1, "uniform", "adam", 5e-5, 3.125e-4),
    "m-iqn": ("implicit", 0.9, 0.03, -1.0, 3, "uniform", "adam", 5e-5, 3.125e-4),
    "m-iqn-1step": ("implicit", 0.9, 0.03, -1.0, 1, "uniform", "adam", 5e-5, 3.125e-4),
}

# Every field of every agent on every suite, as it was before suites had records of their own: of
# one agent all, of the others what differs from it.
BEFORE = json.loads(Path(__file__).with_name("presets.json").read_text())


@pytest.mark.parametrize("suite", ["atari", "atari-original", "minatar", "gym"])
@pytest.mark.parametrize("name", AGENTS)
def test_presets_stay_as_they_were(name, suite):
    table = BEFORE[suite]
    wanted = table["adam-dqn"] | table["others"].get(name, {})
    found = asdict(resolve(name, suite))
    assert {k: str(v) if v == -math.inf else v for k, v in found.items()} == wanted


def test_the_17_names():
    assert list(AGENTS) == list(PAPER)
    assert list(DESCRIPTIONS) == list(PAPER)


@pytest.mark.parametrize("name", PAPER)
def test_numbers_of_the_paper(name):
    c = resolve(name, "atari")
    head, alpha, tau, clip_min, n_step, replay, optimizer, rate, eps = PAPER[name]
    assert (c.head, c.alpha, c.tau, c.n_step) == (head, alpha, tau, n_step)
    assert (c.replay, c.optimizer, c.learning_rate, c.optimizer_eps) == (
        replay,
        optimizer,
        rate,
        eps,
    )
    if clip_min is not None:
        assert c.clip_min == clip_min
    stochastic = name == "m-dqn-stochastic"
    assert c.exploration == ("stochastic" if stochastic else "greedy")
    expected = "glorot_uniform" if head == "expected" else "fan_in_uniform"
    assert c.initialiser == expected
    # The training regime all share.
    assert (c.discount, c.capacity, c.warmup_steps, c.batch_size) == (0.99, 1_000_000, 20_000, 32)
    assert (c.update_period_steps, c.target_period_steps) == (4, 8_000)
    assert (c.epsilon, c.epsilon_decay_steps, c.evaluation_epsilon) == (0.01, 250_000, 0.001)
    assert (c.stack, c.clip_rewards, c.network) == (4, True, "nature")
    assert (c.atoms, c.v_min, c.v_max, c.quantiles, c.kappa) == (51, -10, 10, 200, 1)
    assert (c.fractions, c.target_fractions, c.policy_fractions, c.cosines) == (64, 64, 32, 64)


ORIGINAL = {  # warm-up, ε and the steps to it, evaluation ε, n: of the first publications
    "dqn": (50_000, 0.1, 1_000_000, 0.05, 1),
    "iqn": (50_000, 0.01, 1_000_000, 0.001, 1),
    "rainbow": (20_000, 0.01, 250_000, 0.001, 3),
}


@pytest.mark.parametrize("name", ORIGINAL)
def test_numbers_of_the_original_protocol(name):
    c = resolve(name, "atari-original")
    numbers = (c.warmup_steps, c.epsilon, c.epsilon_decay_steps, c.evaluation_epsilon, c.n_step)
    assert numbers == ORIGINAL[name]
    assert c.target_period_steps == 10_000
    # The rest is as ever.
    modern = resolve(name, "atari")
    for field in ("learning_rate", "optimizer_eps", "discount", "capacity", "batch_size"):
        assert getattr(c, field) == getattr(modern, field)


def test_numbers_of_minatar():
    """Revisiting Rainbow's settings, but that an agent keeps its own n."""
    c = resolve("m-dqn", "minatar")
    assert (c.capacity, c.warmup_steps, c.target_period_steps) == (100_000, 1_000, 1_000)
    assert (c.learning_rate, c.optimizer_eps, c.loss, c.stack) == (2.5e-4, 3.125e-4, "mse", 1)
    for name in ("iqn", "m-iqn", "rainbow", "m-rainbow"):
        c = resolve(name, "minatar")
        assert (c.learning_rate, c.n_step, c.v_max) == (1e-4, 3, 100)
        assert (c.fractions, c.target_fractions, c.policy_fractions) == (32, 32, 32)
    assert [resolve(name, "minatar").n_step for name in ("iqn-1step", "m-iqn-1step")] == [1, 1]


@pytest.mark.parametrize("suite", BEFORE)
@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_resolves_on_every_suite(name, suite):
    config = resolve(name, suite)
    assert config.alpha == PAPER[name][1]
    # The first publication of IQN was 1-step.
    published = 1 if suite == "atari-original" and config.head == "implicit" else PAPER[name][4]
    assert config.n_step == published
    config.make_head()


@pytest.mark.parametrize("suite", ["atari", "atari-original"])
@pytest.mark.parametrize("name", AGENTS)
def test_environments_at_once_on_atari_keep_the_papers_rhythm(name, suite):
    """An iteration, the warm-up and the target period are whole rounds; half of a round makes
    whole updates, so that two batches can take turns."""
    c = resolve(name, suite)
    assert c.envs == (40 if c.head == "implicit" else 200)
    for steps in (250_000, c.warmup_steps, c.target_period_steps):
        assert steps % c.envs == 0
    assert c.envs // 2 % c.update_period_steps == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"alpha": 1.5}, "alpha must be in [0, 1]"),
        ({"alpha": "x"}, "alpha must be a number"),
        ({"alpha": True}, "alpha must be a number"),
        ({"tau": -0.1}, "tau must be at least 0"),
        ({"tau": float("nan")}, "tau"),
        ({"clip_min": 0.5}, "clip_min must be at most 0"),
        ({"n_step": 0}, "n_step must be at least 1"),
        ({"n_step": 1.5}, "n_step must be a whole number"),
        ({"batch_size": 200, "capacity": 100}, "batch_size 200 is larger than capacity 100"),
        ({"epsilon": 2}, "epsilon must be in [0, 1]"),
        ({"discount": 1.1}, "discount must be in [0, 1]"),
        ({"envs": 6}, "do not divide one another"),
        ({"network": "minatr"}, "did you mean 'minatar'"),
        ({"head": "quantil"}, "did you mean 'quantile'"),
        ({"alhpa": 0.5}, "did you mean 'alpha'"),
        ({"exploration": "stochastic", "tau": 0}, "needs --tau above 0"),
        ({"v_min": 5.0, "v_max": 1.0}, "v_min 5 must be below v_max 1"),
        ({"warmup_steps": 2}, "warmup_steps 2 is too short"),
        ({"clip_rewards": "maybe"}, "clip_rewards must be true or false"),
    ],
)
def test_bad_fields_are_named(changes, words):
    with pytest.raises(UserError) as error:
        override(resolve("m-dqn", "minatar"), changes)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_text_is_understood_as_the_command_line_gives_it():
    changes = {"alpha": "0.5", "n_step": "3", "clip_min": "-inf", "capacity": "50_000"}
    config = override(resolve("m-dqn", "minatar"), changes | {"clip_rewards": "true"})
    assert (config.alpha, config.n_step, config.clip_min) == (0.5, 3, -math.inf)
    assert (config.capacity, config.clip_rewards) == (50_000, True)


def test_every_field_has_help():
    for field in FIELDS.values():
        assert field.metadata["help"]


@given(st.sampled_from(list(FIELDS)), st.text(max_size=8) | st.floats() | st.integers())
def test_any_value_is_taken_or_refused_in_words(name, value):
    try:
        override(resolve("m-dqn", "minatar"), {name: value})
    except UserError as error:
        assert str(error)


@pytest.fixture
def registered():
    """Names to register agents under; they are gone afterwards."""
    names = ["m-dqn-3step", "plain"]
    yield names
    for name in names:
        AGENTS.pop(name, None)
        DESCRIPTIONS.pop(name, None)


def test_an_agent_of_ones_own(registered):
    three, plain = registered
    munchausen.register_agent(three, {"n_step": 3}, "M-DQN, 3-step", base="m-dqn")
    munchausen.register_agent(plain, {"batch_size": 64})
    for suite in BEFORE:
        wanted = override(resolve("m-dqn", suite), {"n_step": 3})
        assert resolve(three, suite) == wanted
    assert DESCRIPTIONS[three] == "M-DQN, 3-step"
    assert resolve(plain, "atari") == override(resolve("adam-dqn", "atari"), {"batch_size": 64})
    with pytest.raises(UserError, match="there is an agent 'M-DQN-3step' already"):
        register_agent("M-DQN-3step", {})


@pytest.mark.parametrize(
    ("name", "fields", "base", "said"),
    [
        ("m-dqn", {}, None, "there is an agent 'm-dqn' already"),
        ("a,b", {}, None, "a word without commas"),
        ("", {}, None, "a word without commas"),
        ("new", {"n_stp": 3}, None, "did you mean 'n_step'"),
        ("new", {"n_step": 0}, None, "n_step must be at least 1"),
        ("new", {"n_step": "two"}, None, "n_step must be a whole number"),
        ("new", {}, "mdqn", "did you mean 'm-dqn'"),
    ],
)
def test_an_agent_that_cannot_be(name, fields, base, said):
    with pytest.raises(UserError, match=said):
        register_agent(name, fields, base=base)
    assert list(AGENTS) == list(PAPER)
