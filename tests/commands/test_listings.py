"""`munchausen agents` and `envs`, and every `--help`."""

import json
import re

import pytest

from command_line import munchausen
from munchausen._src import cli
from munchausen._src.agents.config import FIELDS

AGENTS = {
    "dqn": ("expected", 0, 0, 1, "uniform", "rmsprop", 2.5e-4),
    "adam-dqn": ("expected", 0, 0, 1, "uniform", "adam", 5e-5),
    "soft-dqn": ("expected", 0, 0.03, 1, "uniform", "adam", 5e-5),
    "soft-dqn-low": ("expected", 0, 0.003, 1, "uniform", "adam", 5e-5),
    "al": ("expected", 0.9, 0, 1, "uniform", "adam", 5e-5),
    "m-dqn": ("expected", 0.9, 0.03, 1, "uniform", "adam", 5e-5),
    "m-dqn-stochastic": ("expected", 0.9, 0.03, 1, "uniform", "adam", 5e-5),
    "c51": ("categorical", 0, 0, 1, "uniform", "adam", 2.5e-4),
    "m-c51": ("categorical", 0.9, 0.03, 1, "uniform", "adam", 2.5e-4),
    "rainbow": ("categorical", 0, 0, 3, "prioritised", "adam", 6.25e-5),
    "m-rainbow": ("categorical", 0.9, 0.03, 3, "prioritised", "adam", 6.25e-5),
    "qr-dqn": ("quantile", 0, 0, 1, "uniform", "adam", 5e-5),
    "m-qr-dqn": ("quantile", 0.9, 0.03, 1, "uniform", "adam", 5e-5),
    "iqn": ("implicit", 0, 0, 3, "uniform", "adam", 5e-5),
    "iqn-1step": ("implicit", 0, 0, 1, "uniform", "adam", 5e-5),
    "m-iqn": ("implicit", 0.9, 0.03, 3, "uniform", "adam", 5e-5),
    "m-iqn-1step": ("implicit", 0.9, 0.03, 1, "uniform", "adam", 5e-5),
}
AGENT_COLUMNS = ("head", "alpha", "tau", "n_step", "replay", "optimizer", "learning_rate")


class TestListings:
    def test_agents(self):
        result = munchausen("agents", "--json")
        assert result.code == 0
        assert result.err == ""
        rows = json.loads(result.out)
        assert {row["name"]: tuple(row[c] for c in AGENT_COLUMNS) for row in rows} == AGENTS
        assert len(rows) == 17
        # Advantage learning is the limit without a clip; the Munchausen agents clip at −1.
        clips = {row["name"]: row["clip_min"] for row in rows if row["alpha"]}
        assert clips.pop("al") == "-inf"
        assert set(clips.values()) == {-1.0}
        assert all(row["description"] for row in rows)

    def test_agents_as_a_table(self):
        lines = munchausen("agents").out.splitlines()
        assert lines[0].split()[:4] == ["name", "head", "alpha", "tau"]
        assert [line.split()[0] for line in lines[1:]] == list(AGENTS)

    def test_one_agent(self):
        result = munchausen("agents", "m-dqn", "--env", "minatar/breakout", "--json")
        assert result.code == 0
        agent = json.loads(result.out)
        assert agent.keys() == {"name", *FIELDS}
        assert (agent["alpha"], agent["tau"], agent["clip_min"]) == (0.9, 0.03, -1.0)
        assert agent["network"] == "minatar"
        assert agent["stack"] == 1
        paper = json.loads(munchausen("agents", "m-dqn", "--json").out)
        assert paper["network"] == "nature"
        assert (paper["stack"], paper["capacity"], paper["batch_size"]) == (4, 1_000_000, 32)
        text = munchausen("agents", "m-dqn", "--env", "minatar/breakout").out
        for name in FIELDS:
            assert re.search(rf"^  {name} +\S", text, re.MULTILINE), name

    def test_environments(self):
        result = munchausen("envs", "--json")
        assert result.code == 0
        assert result.err == ""
        rows = {row["name"]: row for row in json.loads(result.out)}
        games = ("asterix", "breakout", "freeway", "seaquest", "space_invaders")
        classic = ("CartPole-v1", "Acrobot-v1", "MountainCar-v0", "LunarLander-v3")
        named = {f"minatar/{g}" for g in games} | {f"gym/{id}" for id in classic}
        assert {name for name in rows if not name.startswith("atari/")} == named
        assert len(rows) - len(named) == 60
        for row in rows.values():
            assert row["loop"] == ("device" if row["suite"] == "minatar" else "host")
            assert row["steps"] % row["iteration_steps"] == 0
        table = munchausen("envs").out
        assert all(name in table for name in rows)
        assert "gym/ID" in table

    @pytest.mark.parametrize("command", ["train", "evaluate", "agents", "envs", "theory"])
    def test_help(self, command, capsys):
        with pytest.raises(SystemExit) as done:
            cli.main([command, "--help"])
        assert done.value.code == 0
        text = capsys.readouterr().out
        assert "--json" in text
        if command == "train":
            for name in FIELDS:
                assert "--" + name.replace("_", "-") in text
