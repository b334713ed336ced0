"""From folders and files to one table: all of it, once, and nothing mixed silently."""

import fcntl
import gzip
import json

import numpy as np
import pytest

from munchausen._src.errors import UserError
from munchausen._src.evidence.metrics.reading import read_table
from munchausen._src.experiment.records import LOCK, RECORDS
from written_runs import write_run


def test_lanes_of_a_folder_are_runs(tmp_path):
    write_run(tmp_path / "r", [[1, 2, np.nan], [4, 5, 6]], agent="m-dqn", first_seed=7)
    table = read_table([tmp_path])
    assert [(r.game, r.agent, r.seed) for r in table.runs] == [
        ("minatar/breakout", "m-dqn", "7"),
        ("minatar/breakout", "m-dqn", "8"),
    ]
    np.testing.assert_array_equal(table.runs[0].steps, [1000, 2000, 3000])
    np.testing.assert_array_equal(table.runs[0].columns["score"], [1, 2, np.nan])
    assert table.runs[0].folder.status == "finished"
    assert table.notes == ()


def test_folders_at_any_depth_and_named_twice(tmp_path):
    write_run(tmp_path / "a" / "b" / "one", [[1, 2]], agent="dqn")
    write_run(tmp_path / "a" / "two", [[1, 2]], agent="m-dqn")
    table = read_table([tmp_path, tmp_path / "a", tmp_path / "a" / "two"])
    assert len(table.runs) == 2
    assert table.notes == ()


@pytest.mark.parametrize("foreign", [None, "photo.jpg"])
def test_an_empty_or_foreign_folder_is_refused(tmp_path, foreign):
    if foreign:
        (tmp_path / foreign).write_text("x")
    with pytest.raises(UserError, match="no runs in"):
        read_table([tmp_path])


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(UserError, match="is not there"):
        read_table([tmp_path / "nowhere"])


def test_a_torn_last_line_is_dropped_and_said_once(tmp_path):
    folder = write_run(tmp_path / "r", [[1, 2, 3]])
    path = folder / RECORDS
    path.write_bytes(path.read_bytes()[:-20])
    table = read_table([tmp_path])
    assert len(table.runs[0].steps) == 2
    assert [note for note in table.notes if "cut short" in note] == [
        f"{path}: dropped a last line that was cut short"
    ]


def test_damage_in_the_middle_leaves_the_run_out_and_says_so(tmp_path):
    write_run(tmp_path / "good", [[1, 2]])
    bad = write_run(tmp_path / "bad", [[1, 2]], agent="dqn")
    (bad / RECORDS).write_text('{"env": 1\n{"step": 2}\n')
    table = read_table([tmp_path])
    assert [run.agent for run in table.runs] == ["m-dqn"]
    assert "damaged" in table.notes[0]
    assert str(bad) in table.notes[0]


def test_only_damaged_runs_is_an_error(tmp_path):
    bad = write_run(tmp_path / "bad", [[1, 2]])
    (bad / RECORDS).write_text('["no", "row"]\n')
    with pytest.raises(UserError, match="no records to report on"):
        read_table([tmp_path])


def test_status_of_runs(tmp_path):
    write_run(tmp_path / "a", [[1]], agent="dqn", status="diverged", error="NaN at step 5")
    write_run(tmp_path / "b", [[1]], agent="al", status=None)
    live = write_run(tmp_path / "c", [[1]], agent="m-dqn", status=None)
    with open(live / LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folders = {run.agent: run.folder for run in read_table([tmp_path]).runs}
    assert {agent: folder.status for agent, folder in folders.items()} == {
        "dqn": "diverged",
        "al": "stopped",
        "m-dqn": "running",
    }
    assert folders["dqn"].error == "NaN at step 5"


def test_changed_presets_get_names_of_their_own(tmp_path):
    write_run(tmp_path / "a", [[1]], changes={"alpha": 0.5, "envs": 8})
    write_run(tmp_path / "b", [[1]], changes={"envs": 8})
    write_run(tmp_path / "c", [[1]], agent="dqn", changes={"envs": 8})
    table = read_table([tmp_path])
    assert table.agents == ["dqn", "m-dqn", "m-dqn (alpha 0.5)"]
    assert table.notes == ("all runs were made with envs 8",)


def test_other_settings_of_one_name_are_kept_apart_and_said(tmp_path):
    """As when a preset changed between two versions."""
    write_run(tmp_path / "a", [[1], [2]], learning_rate=1e-4)
    write_run(tmp_path / "b", [[3]], first_seed=5, learning_rate=3e-4)
    table = read_table([tmp_path])
    assert table.agents == ["m-dqn", "m-dqn (learning_rate 0.0003)"]
    assert "differ in learning_rate: they are kept apart" in table.notes[0]


def test_what_a_run_said_nothing_of_is_what_it_was(tmp_path):
    """Products were in tf32 before the configuration had a word for it."""
    defaults = {"precision": "tf32", "n_step": 7}
    write_run(tmp_path / "a", [[1.0]])
    write_run(tmp_path / "b", [[2.0]], first_seed=1, precision="tf32")
    table = read_table([tmp_path], defaults=defaults)
    assert {run.folder.config["config"]["precision"] for run in table.runs} == {"tf32"}
    assert {run.folder.config["config"]["n_step"] for run in table.runs} == {1}  # as they say
    assert {run.agent for run in table.runs} == {"m-dqn"}
    assert not table.notes
    write_run(tmp_path / "c", [[3.0]], first_seed=2, precision="float32")
    assert {run.agent for run in read_table([tmp_path], defaults=defaults).runs} == {
        "m-dqn",
        "m-dqn (precision float32)",
    }


def test_one_seed_in_two_folders_counts_once(tmp_path):
    write_run(tmp_path / "short", [[1, 2]])
    write_run(tmp_path / "long", [[1, 2, 3]])
    table = read_table([tmp_path])
    assert [run.length for run in table.runs] == [3000]
    assert "the same seed is no further evidence" in table.notes[0]


def dopamine_rows():
    """As published: the runs of an agent one after the other, none numbered."""
    return [
        {"Iteration": i, "Value": 100.0 * run + i, "Agent": agent}
        for agent in ("DQN", "Rainbow")
        for run in range(3)
        for i in range(4)
    ]


@pytest.mark.parametrize("name", ["asterix.json", "dopamine_asterix.json"])
def test_dopamine_json(tmp_path, name):
    (tmp_path / name).write_text(json.dumps(dopamine_rows()))
    table = read_table([tmp_path / name])
    assert table.games == ["atari/Asterix"]
    assert [(r.agent, r.seed) for r in table.runs] == [
        (agent, str(run)) for agent in ("DQN", "Rainbow") for run in range(3)
    ]
    np.testing.assert_array_equal(table.runs[1].columns["score"], [100, 101, 102, 103])
    # A score stands at the end of its iteration, which is 1M frames.
    np.testing.assert_array_equal(table.runs[1].steps, 250_000 * np.arange(1, 5))


@pytest.mark.parametrize(
    ("game", "steps"), [("Pong", 250), ("atari-original/Pong", 250), ("minatar/breakout", 1_000)]
)
def test_frames_of_a_file_are_those_of_its_game(tmp_path, game, steps):
    """An action of Atari is repeated for four frames."""
    (tmp_path / "x.csv").write_text(f"game,agent,run,frames,score\n{game},dqn,0,1000,5\n")
    [run] = read_table([tmp_path / "x.csv"]).runs
    assert run.steps.tolist() == [steps]


def test_a_folder_of_published_files(tmp_path):
    (tmp_path / "asterix.json").write_text(json.dumps(dopamine_rows()))
    (tmp_path / "spaceinvaders.json").write_text(json.dumps(dopamine_rows()))
    assert read_table([tmp_path]).games == ["atari/Asterix", "atari/SpaceInvaders"]


@pytest.mark.parametrize("text", ["{}", "[1]", '[{"Iteration": 0}]', "not json"])
def test_other_json_is_refused(tmp_path, text):
    (tmp_path / "asterix.json").write_text(text)
    with pytest.raises(UserError, match=r"Dopamine's format|has no rows"):
        read_table([tmp_path / "asterix.json"])


@pytest.mark.parametrize("name", ["tetris", "atari"])
def test_json_of_no_game_is_refused(tmp_path, name):
    (tmp_path / f"{name}.json").write_text(json.dumps(dopamine_rows()))
    with pytest.raises(UserError, match="no Atari game"):
        read_table([tmp_path / f"{name}.json"])


@pytest.mark.parametrize(
    ("header", "time", "steps"),
    [
        ("game,agent,run,iteration,score", (0, 1), (250_000, 500_000)),
        ("Game,Agent,Seed,Step,Score", (10, 20), (10, 20)),
        ("game,agent,run,frames,score", (400, 800), (100, 200)),
    ],
)
def test_csv(tmp_path, header, time, steps):
    text = f"{header}\nPong,x,0,{time[1]},2.5\nPong,x,0,{time[0]},-1\n"
    with gzip.open(tmp_path / "curves.csv.gz", "wt") as file:
        file.write(text)
    (run,) = read_table([tmp_path / "curves.csv.gz"]).runs
    assert (run.game, run.agent, run.seed) == ("atari/Pong", "x", "0")
    np.testing.assert_array_equal(run.steps, steps)
    np.testing.assert_array_equal(run.columns["score"], [-1, 2.5])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("game,agent,run,score\n", "no column step or frames or iteration"),
        ("", "no header"),
        ("game,agent,run,step,score\nPong,x,0,ten,1\n", "line 2"),
        ("game,agent,run,step,score\n", "no rows"),
    ],
)
def test_a_bad_csv_is_refused(tmp_path, text, said):
    (tmp_path / "c.csv").write_text(text)
    with pytest.raises(UserError, match=said):
        read_table([tmp_path / "c.csv"])


def test_ours_and_published_in_one_table(tmp_path):
    (tmp_path / "pong.csv").write_text("game,agent,run,step,score\nPong,DQN,0,1000,5\n")
    write_run(tmp_path / "runs" / "r", [[1]], agent="dqn", env="atari/Pong")
    table = read_table([tmp_path / "runs", tmp_path / "pong.csv"])
    assert table.games == ["atari/Pong"]
    assert sorted(table.agents) == ["DQN", "dqn"]  # never one
    assert table.agent("DQN") == "DQN"
    with pytest.raises(UserError, match="unknown agent 'rainbow'"):
        table.agent("rainbow")
