"""Settings of runs that were made before this version can be read."""

from pathlib import Path

import pytest

from munchausen._src.experiment.folder import load_settings
from munchausen._src.experiment.settings import Settings

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("suite", ["minatar", "atari"])
def test_published_runs_can_still_be_read(suite):
    runs = [path.parent for path in sorted((RESULTS / suite).glob("*/config.json"))]
    assert runs
    for run in runs:
        settings = load_settings(run)
        assert settings.config.precision == "tf32"
        assert Settings.from_json(settings.to_json()) == settings
