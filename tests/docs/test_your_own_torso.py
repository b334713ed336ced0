"""The torso of `docs/your-own-loop.md`: it trains, is saved, loads in another process, resumes."""

import json
import subprocess
import sys

import pytest

from snippets import lines_of_code, snippet

SMALL = ["--envs", "4", "--warmup-steps", "200", "--epsilon-decay-steps", "200"]
IN_ANOTHER_PROCESS = """
import sys
from munchausen import Agent
{before}
agent = Agent.load(sys.argv[1], **{{{options}}})
print(agent.evaluate(episodes=2, seed=3).returns.tolist(), type(agent._policy().network.torso))
"""


@pytest.fixture
def folder(tmp_path):
    code = snippet("docs/your-own-loop.md", "torso")
    assert lines_of_code(code) <= 10
    (tmp_path / "my_torso.py").write_text(code)
    return tmp_path


def run(folder, *arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def train(folder, *arguments):
    return run(folder, "-m", "munchausen", "train", *arguments, "--json")


def test_on_the_command_line_and_in_another_process(folder):
    named = ["--import", "my_torso"]
    first = train(
        folder, "m-iqn", "--env=gym/CartPole-v1", "--network=my_torso:Torso", *named, *SMALL,
        *("--steps", "400", "--out", "run"),
    )  # fmt: skip
    assert first.returncode == 0, first.stderr
    assert json.loads((folder / "run/config.json").read_text())["config"]["network"] == (
        "my_torso:Torso"
    )
    longer = ["--resume", "--out", "run", "--steps", "600"]
    refused = train(folder, *longer)
    assert refused.returncode == 2
    assert "--import my_torso" in refused.stderr
    resumed = train(folder, *longer, *named)
    assert resumed.returncode == 0, resumed.stderr
    assert "resumed at step 400" in resumed.stderr
    code = IN_ANOTHER_PROCESS.format(before="import my_torso", options="")
    loaded = run(folder, "-c", code, "run")
    assert loaded.returncode == 0, loaded.stderr
    assert "OnlyArrays" in loaded.stdout or "Torso" in loaded.stdout


def test_an_object_in_python(folder):
    """A module without a name to import: it is given again when it is loaded."""
    make = "from my_torso import Torso\nimport jax\nmine = Torso((4,), key=jax.random.key(7))\n"
    learn = make + (
        "from munchausen import Agent\n"
        "agent = Agent('m-dqn', 'gym/CartPole-v1', network=mine, envs=4, warmup_steps=200)\n"
        "agent.learn(400).save('agent.safetensors')\n"
        "print(agent.evaluate(episodes=2, seed=3).returns.tolist(), 'Torso')\n"
    )
    learned = run(folder, "-c", learn)
    assert learned.returncode == 0, learned.stderr
    code = IN_ANOTHER_PROCESS.format(before=make, options="'network': mine")
    loaded = run(folder, "-c", code, "agent.safetensors")
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.split("]")[0] == learned.stdout.split("]")[0]
    code = IN_ANOTHER_PROCESS.format(before="", options="")
    lost = run(folder, "-c", code, "agent.safetensors")
    assert "give it again as Agent(…, network=…)" in lost.stderr
