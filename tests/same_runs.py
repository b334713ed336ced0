"""Whether two runs came to the same, bit for bit."""

import json
from pathlib import Path

from safetensors.numpy import load_file

from munchausen._src.experiment.checkpoint import list_checkpoints
from munchausen._src.experiment.records import read_records

# Columns that depend on the clock of the machine; all others are a function of the seed.
TIMING = ("steps_per_second", "frames_per_second", "seconds")


class Crash(BaseException):
    """Stands for the loss of the process: nothing may catch it."""


def newest(run: Path) -> str | None:
    """The name of the newest checkpoint, while another process may be writing the next."""
    return max((p.name for p in list_checkpoints(run)), default=None)


def facts(run: Path) -> tuple[dict, dict, list]:
    """All that a run came to, without what the clock decides: every array of its last state
    (parameters, target, optimiser, replay, environments, keys), its counters, its records."""
    place = list_checkpoints(run)[-1]
    state = {
        name: (array.dtype.str, array.shape, array.tobytes())
        for name, array in load_file(place / "state.safetensors").items()
    }
    counters = json.loads((place / "manifest.json").read_text())["counters"]
    del counters["seconds"], counters["records_bytes"]  # a clock's digits are more or fewer
    rows = [{k: v for k, v in row.items() if k not in TIMING} for row in read_records(run)]
    return state, counters, rows


def assert_identical(run: Path, other: Path) -> None:
    (state, counters, rows), (state_2, counters_2, rows_2) = facts(run), facts(other)
    assert newest(run) == newest(other)
    assert state.keys() == state_2.keys()
    assert [name for name in state if state[name] != state_2[name]] == []
    assert counters == counters_2
    assert rows == rows_2
