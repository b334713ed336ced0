"""The page as text: whole, closed to the outside, and of bounded size."""

import base64
import hashlib
import json
import re

import numpy as np

from munchausen._src.evidence.metrics.reading import read_table
from munchausen._src.evidence.metrics.runs import Run, Table
from munchausen._src.evidence.report.html import make_page
from munchausen._src.evidence.report.results import gather
from munchausen._src.evidence.report.videos import EACH_BYTES
from munchausen._src.experiment.records import CONFIG, MACHINE
from munchausen._src.suites import ATARI
from written_runs import write_run, write_study

HOSTILE = "</script><img src=x onerror=alert(1)>"


def page_of(root, **options):
    results = gather(read_table([root]), resamples=50, **options)
    return make_page(results, root / "report.html", f"A {HOSTILE} $title")


def payload(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])


def test_nothing_hostile_becomes_markup(tmp_path):
    write_study(tmp_path)
    for game in ("breakout", "asterix"):
        write_run(
            tmp_path / game, [[1] * 10], agent=HOSTILE, env=f"minatar/{game}", error=HOSTILE,
            changes={"envs": HOSTILE},
        )  # fmt: skip
    page = page_of(tmp_path)
    assert "<img" not in page
    assert page.count("</script>") == 2  # the data's and the script's own
    assert "<title>A &lt;/script&gt;&lt;img src=x onerror=alert(1)&gt; $title</title>" in page
    assert payload(page)["agents"][-1].startswith(HOSTILE)


def test_games_fields_machines_and_files_are_text_too(tmp_path):
    name = '"><img src=x onerror=alert(1)>'
    for agent in ("dqn", name):
        write_run(tmp_path / f"known {agent[:3]}", [[1, 2], [2, 3]], agent=agent)
        run = write_run(tmp_path / agent[:3], [[1, 2], [2, 3]], agent=agent, env=f"gym/{name}")
        config = json.loads((run / CONFIG).read_text())
        config["config"][name] = 1
        (run / CONFIG).write_text(json.dumps(config))
        (run / MACHINE).write_text(json.dumps({"device": name}) + "\n")
        (run / f"{name}.gif").write_bytes(b"\0")
    page = page_of(tmp_path, baselines=[name])
    assert page.count("<img") == 2  # the animations
    assert "onerror=alert(1)>" not in page
    assert page.count("onerror=alert(1)&gt;") > 10


def test_the_policy_lets_only_the_pages_own_script_run(tmp_path):
    page = page_of(write_study(tmp_path))
    script = re.search(r"<script>(.*?)</script>", page, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)[1]
    assert f"script-src &#x27;sha256-{digest}&#x27;" in policy
    assert "default-src &#x27;none&#x27;" in policy
    addresses = set(re.findall(r"https?://[^\s\"']+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place


def test_numbers_of_the_page(tmp_path):
    data = payload(page_of(write_study(tmp_path)))
    assert data["agents"] == ["dqn", "adam-dqn", "m-dqn"]
    game = data["games"][1]
    assert (game["name"], game["unit"]) == ("breakout", "steps")
    assert game["references"] == {"random": 0.39}
    curve = game["curves"]["m-dqn"]["score"]
    assert len(curve["mean"]) == 10
    assert len(curve["runs"]) == 3
    np.testing.assert_allclose(curve["mean"], np.mean(curve["runs"], axis=0), rtol=2e-3)
    assert all(
        low <= mean <= high
        for low, mean, high in zip(curve["low"], curve["mean"], curve["high"], strict=True)
    )
    (comparison,) = data["comparisons"]
    assert comparison["baseline"] == "dqn"
    assert comparison["estimates"]["dqn"]["mean"][0] == 1
    assert comparison["profiles"]["m-dqn"]["mean"][0] == 1


def test_small_videos_go_in_and_large_ones_are_linked(tmp_path):
    run = write_run(tmp_path / "a b", [[1, 2], [1, 2]])
    (run / "small.mp4").write_bytes(b"\0" * 100)
    (run / "large.mp4").write_bytes(b"\0" * (EACH_BYTES + 1))
    page = page_of(tmp_path)
    assert page.count('src="data:video/mp4;base64,') == 1
    assert 'href="a%20b/large.mp4"' in page
    assert page.count("<video") == 1


def test_videos_do_not_make_the_page_too_large(tmp_path):
    run = write_run(tmp_path / "r", [[1, 2], [1, 2]])
    for number in range(9):
        (run / f"{number}.gif").write_bytes(b"\0" * (EACH_BYTES - 1))
    page = page_of(tmp_path)
    assert len(page) < 12_000_000
    assert 0 < page.count('src="data:image/gif') < 9


def test_one_run_alone_makes_a_page(tmp_path):
    write_run(tmp_path / "r", [[1, 2, 3]])
    page = page_of(tmp_path)
    assert "one run on a game, so there is no interval" in page
    assert "1 run of 1 agent on 1 game" in page


def test_agents_with_no_game_in_common_make_a_page(tmp_path):
    """Nothing can be compared, but the curves are there."""
    write_run(tmp_path / "a", np.arange(6), agent="dqn", env="atari/Pong")
    write_run(tmp_path / "b", np.arange(6), agent="m-iqn", env="minatar/asterix")
    data = payload(page_of(tmp_path))
    assert data["comparisons"] == []
    assert data["agents"] == ["dqn", "m-iqn"]


def test_published_curves_alone_make_a_page(tmp_path):
    rows = [
        {"Iteration": i, "Value": 300.0 * (i + run), "Agent": agent}
        for agent in ("DQN", "Rainbow")
        for run in range(3)
        for i in range(6)
    ]
    (tmp_path / "asterix.json").write_text(json.dumps(rows))
    page = page_of(tmp_path)
    data = payload(page)
    assert [c["baseline"] for c in data["comparisons"]] == ["human", "Rainbow"]
    assert data["games"][0]["unit"] == "frames"
    assert data["games"][0]["steps"][0] == 1_000_000
    assert 'id="settings"' not in page


def test_the_papers_grid_fits_into_twelve_megabytes(tmp_path):
    """60 games × 9 agents × 3 runs × 200 iterations, with every column the page shows."""
    generator = np.random.default_rng(0)
    steps = 250_000 * np.arange(1, 201)
    names = ("score", "loss", "q", "action_gap", "entropy")
    runs = tuple(
        Run(
            f"atari/{game}",
            f"agent-{agent}",
            str(seed),
            steps,
            {name: generator.normal(0, 1e4, 200) for name in names},
            tmp_path,
        )
        for game in ATARI.games
        for agent in range(9)
        for seed in range(3)
    )
    results = gather(Table(runs), baselines=["human"], resamples=50)
    page = make_page(results, tmp_path / "report.html", "large")
    assert len(payload(page)["games"]) == 60
    assert len(page.encode()) < 12_000_000
