"""Our own runs: a folder each, with one or several lanes."""

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from munchausen._src.evidence.metrics.reference import canonical_game
from munchausen._src.evidence.metrics.runs import Folder, Run
from munchausen._src.experiment.records import (
    CONFIG,
    MACHINE,
    RECORDS,
    RESULT,
    is_live,
    read_action_gaps,
    read_json,
    read_records,
)

_NOT_A_CURVE = ("env", "agent", "seed", "iteration", "step")
_VIDEOS = (".mp4", ".webm", ".gif")


def find_run_folders(root: Path, notes: list[str]) -> list[Path]:
    """Folders with a run's configuration or records, at any depth. Those that cannot be looked
    into are noted."""

    def note(error: OSError) -> None:
        notes.append(f"{error.filename} is left out: it cannot be read ({error.strerror})")

    found = [
        Path(place)
        for place, _, files in os.walk(root, onerror=note)
        if CONFIG in files or RECORDS in files
    ]
    return sorted(found)


def read_run_folder(path: Path, defaults: Mapping[str, Any]) -> tuple[list[Run], list[str]]:
    """The runs of a folder, and what is to be said about it. `defaults`: see `read_table`."""
    notes = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            rows = read_records(path)
            runs = _lanes(rows, path, _read_folder(path, defaults), read_action_gaps(path))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return [], [f"{path} is left out: its records are damaged ({error})"]
        except OSError as error:
            return [], [f"{path} is left out: it cannot be read ({error.strerror})"]
    notes += [str(warning.message) for warning in caught]
    if not runs:
        notes.append(f"{path} is left out: it has no records yet")
    return runs, notes


def _lanes(
    rows: list[dict[str, Any]], path: Path, folder: Folder, gaps: list[dict[str, Any]]
) -> list[Run]:
    lanes: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        lanes.setdefault((row["env"], row["agent"], str(row["seed"])), []).append(row)
    runs = []
    for (env, agent, seed), lane in lanes.items():
        names = [name for name in lane[-1] if name not in _NOT_A_CURVE]
        runs.append(
            Run(
                canonical_game(env),
                str(agent),
                seed,
                np.array([row["step"] for row in lane], dtype=np.int64),
                {name: np.array([row.get(name) for row in lane], dtype=float) for name in names},
                path,
                folder,
                tuple(
                    np.array(row["gaps"], dtype=float)
                    for row in gaps
                    if (row["agent"], str(row["seed"])) == (agent, seed)
                ),
            )
        )
    return runs


def _read_folder(path: Path, defaults: Mapping[str, Any]) -> Folder:
    config = read_json(path / CONFIG)
    if isinstance(config.get("config"), dict):
        config["config"] = {**defaults, **config["config"]}
    result = read_json(path / RESULT)
    status = str(result.get("status") or ("running" if is_live(path) else "stopped"))
    machine = path / MACHINE
    machines = []
    if machine.exists():
        for line in machine.read_text(errors="replace").splitlines():
            try:
                machines.append(dict(json.loads(line)))
            except (ValueError, TypeError):
                continue  # of a start that was cut short
    return Folder(
        path,
        status,
        str(result.get("error", "")),
        config,
        machines,
        tuple(sorted(p for p in path.rglob("*") if p.suffix.lower() in _VIDEOS and p.is_file())),
    )
