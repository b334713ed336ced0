"""Settings: what lanes share, how a run begins, and runs that were made before this version."""

import dataclasses
import json
from pathlib import Path

import pytest

from munchausen._src.agents.config import AgentConfig
from munchausen._src.core.schedules import Linear
from munchausen._src.errors import UserError
from munchausen._src.experiment.folder import load_settings
from munchausen._src.experiment.settings import (
    REGULARISER,
    Settings,
    as_begun,
    first_difference,
    make_settings,
)

RESULTS = Path(__file__).parents[2] / "results"
PUBLISHED = sorted(path.parent for path in RESULTS.glob("**/config.json"))


def make(agents=("m-dqn",), *, steps=1_000, seeds=(0,), **changes):
    return make_settings(
        list(agents), "minatar/breakout", steps=steps, seeds=list(seeds), changes=changes
    )


def test_there_are_published_runs():
    assert {"minatar", "atari"} <= {run.relative_to(RESULTS).parts[0] for run in PUBLISHED}
    unsaid = [r for r in PUBLISHED if "precision" not in (r / "config.json").read_text()]
    assert unsaid
    assert len(unsaid) < len(PUBLISHED)


@pytest.mark.parametrize("run", PUBLISHED, ids=lambda run: str(run.relative_to(RESULTS)))
def test_published_runs_can_still_be_read(run):
    settings = load_settings(run)
    written = json.loads((run / "config.json").read_text())
    assert settings.config.precision == written["config"].get("precision", "tf32")
    assert Settings.from_json(settings.to_json()) == settings
    # Nothing is lost or changed but what has got a name since.
    again = settings.to_json()
    shared = {k: v for k, v in written["config"].items() if k not in REGULARISER}
    assert again["config"] == {"precision": "tf32"} | shared  # α, τ and l0 are the lanes' alone
    assert again["lanes"] == written["lanes"]
    assert again["changes"] == written["changes"]


def test_a_field_of_a_newer_version(tmp_path):
    data = make().to_json()
    data["config"]["dueling"] = True
    (tmp_path / "config.json").write_text(json.dumps(data))
    with pytest.raises(UserError, match=r"config\.json cannot be read: .*no field dueling"):
        load_settings(tmp_path)


def test_the_regulariser_is_each_lanes_own():
    settings = make(["adam-dqn", "al", "m-dqn"], seeds=[0, 1])
    assert [lane.config.regulariser for lane in settings.lanes] == [
        (0.0, 0.0, -1.0),
        (0.0, 0.0, -1.0),
        (0.9, 0.0, float("-inf")),
        (0.9, 0.0, float("-inf")),
        (0.9, 0.03, -1.0),
        (0.9, 0.03, -1.0),
    ]
    first, last = settings.lanes[0].config, settings.lanes[-1].config
    assert settings.config == first
    same = {name: getattr(first, name) for name in REGULARISER}
    assert dataclasses.replace(last, **same) == first
    assert "config" not in {field.name for field in dataclasses.fields(Settings)}
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_a_schedule_is_the_same_for_all_lanes(monkeypatch):
    settings = make(["adam-dqn", "m-dqn"], tau="linear:0.1:0.01")
    assert {lane.config.tau for lane in settings.lanes} == {Linear(0.1, 0.01)}
    # As an agent of a user's may say in its preset.
    from munchausen._src.agents import presets

    own = {**presets.MUNCHAUSEN, "tau": Linear(0.1, 0.01)}
    monkeypatch.setitem(presets.AGENTS, "mine", own)
    with pytest.raises(UserError, match=r"share a program: they differ in tau \(0.03 and linear"):
        make(["m-dqn", "mine"])


class TestBegun:
    def test_schedules_get_the_runs_length_once(self):
        settings = make(learning_rate="linear:1e-3:1e-5", tau="linear:0.1:0.01:50")
        begun = settings.begun()
        assert begun.config.learning_rate == Linear(1e-3, 1e-5, 1_000)
        assert begun.config.tau == Linear(0.1, 0.01, 50)
        longer = dataclasses.replace(begun, steps=9_000)
        assert longer.begun() == longer
        assert make(alpha=0.5).begun() == make(alpha=0.5)

    def test_the_length_is_written(self):
        data = make(learning_rate="linear:1e-3:1e-5").begun().to_json()
        assert data["config"]["learning_rate"] == "linear:0.001:1e-5:1000"
        assert data["changes"] == {"learning_rate": "linear:0.001:1e-5:1000"}
        read = Settings.from_json(json.loads(json.dumps(data)))
        assert read.to_json() == data
        # What was changed says it again for a longer run, and is the same.
        again = make(steps=9_000, **dict(read.changes)).begun()
        assert first_difference(read, again) is None

    def test_of_every_lane(self):
        settings = make(["adam-dqn", "m-dqn"], tau="linear:0.1:0.01").begun()
        assert [lane["tau"] for lane in settings.to_json()["lanes"]] == ["linear:0.1:0.01:1000"] * 2

    def test_asked_for_again(self):
        saved = Linear(1.0, 0.1, 500)
        assert as_begun(Linear(1.0, 0.1), saved) == saved
        assert as_begun(Linear(1.0, 0.2), saved) == Linear(1.0, 0.2)
        assert as_begun(Linear(1.0, 0.1, 600), saved) == Linear(1.0, 0.1, 600)
        assert as_begun(Linear(1.0, 0.1), 0.3) == Linear(1.0, 0.1)
        assert as_begun(0.3, saved) == 0.3

    def test_another_schedule_is_another_configuration(self):
        one, other = make(tau="linear:0.1:0.01").begun(), make(tau="linear:0.1:0.02").begun()
        difference = first_difference(one, other)
        assert difference is not None
        assert "tau: the run has linear:0.1:0.01:1000" in difference


def test_changes_are_kept_as_values():
    settings = make(alpha="0.5", n_step="3")
    assert settings.changes == (("alpha", 0.5), ("n_step", 3))
    assert isinstance(settings.config, AgentConfig)
