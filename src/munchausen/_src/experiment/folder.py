"""A run is a folder.

config.json      the resolved settings
machine.jsonl    versions and hardware, a line for each time the run was started: from which step,
                 and how many running episodes were cut for it
records.jsonl    one row an iteration and lane
checkpoints/     the newest two
result.json      written at the end
lock             held while a process trains here
"""

import datetime
import fcntl
import json
import os
import platform
import re
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from munchausen._src.errors import UserError, refused, writing
from munchausen._src.experiment.records import (
    CONFIG,
    LOCK,
    MACHINE,
    RESULT,
    read_json,
    records_bytes,
)
from munchausen._src.experiment.settings import Settings, first_difference
from munchausen._src.kernels import machine

_WRITING = ".writing"


class RunFolder:
    """An open run folder, locked against any other process."""

    def __init__(self, path: Path, lock: Any):
        self.path = path
        self._lock = lock

    def close(self) -> None:
        self._lock.close()

    def note_start(self, settings: Settings, step: int, episodes_cut: int = 0) -> None:
        """Writes the settings (a resumed run may have more `steps`) and a line about this start,
        with its step and machine. Deletes an older result, which no longer holds."""
        with writing(self.path):
            (self.path / RESULT).unlink(missing_ok=True)
            write_json(self.path / CONFIG, settings.to_json())
            start = describe_machine() | {"step": step, "episodes_cut": episodes_cut}
            with open(self.path / MACHINE, "a") as file:
                file.write(json.dumps(start) + "\n")

    def check_without_checkpoint(self) -> None:
        """Refuses a finished run; warns if an unfinished one must start again at step 0."""
        if is_finished(self.path):
            raise UserError(
                f"{self.path} is finished, and its checkpoints are gone: it cannot go on; train "
                "again into another --out"
            )
        if records_bytes(self.path):
            warnings.warn(
                f"{self.path} has no checkpoint yet: it begins again at step 0", stacklevel=2
            )

    def write_result(self, result: dict[str, Any]) -> None:
        with writing(self.path):
            write_json(self.path / RESULT, result)


def is_finished(path: Path) -> bool:
    return read_json(path / RESULT).get("status") == "finished"


def default_path(settings: Settings) -> Path:
    """runs/minatar-breakout_m-dqn_seed0, with a number behind it if that is taken."""
    agents = "+".join(dict.fromkeys(lane.agent for lane in settings.lanes))
    seeds = sorted({lane.seed for lane in settings.lanes})
    seed = f"seed{seeds[0]}" if len(seeds) == 1 else f"seeds{seeds[0]}-{seeds[-1]}"
    name = re.sub(r"[^A-Za-z0-9_.+-]", "-", f"{settings.env}_{agents}_{seed}")
    path = Path("runs") / name
    number = 2
    while path.exists():
        path = Path("runs") / f"{name}_{number}"
        number += 1
    return path


def check_free(path: Path) -> None:
    """A new run needs a folder that is not there yet, or empty."""
    if (path / CONFIG).exists():
        if (path / LOCK).exists():
            lock_folder(path).close()  # refused where it is live
        raise UserError(f"{path} already holds a run; add --resume to go on, or name another --out")
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file; name a folder as --out")
    # The lock and half a configuration are what a kill leaves of a run that had not begun.
    if path.exists() and {p.name for p in path.iterdir()} - {LOCK, CONFIG + _WRITING}:
        raise UserError(f"{path} is not empty; name another --out")


def create(path: Path, settings: Settings) -> RunFolder:
    check_free(path)
    with refused(f"write to {path}"):
        path.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(path)
        write_json(path / CONFIG, settings.to_json())
    return RunFolder(path, lock)


def load_settings(path: Path, network: Any = None) -> Settings:
    """The settings of a run; says so if the folder is none."""
    try:
        return Settings.from_json(json.loads((path / CONFIG).read_text()), network)
    except FileNotFoundError:
        raise UserError(
            f"{path} is no run: it has no {CONFIG}; give the folder a `munchausen train` made"
        ) from None
    except NotADirectoryError:
        raise UserError(f"{path} is a file; give the folder a `munchausen train` made") from None
    except KeyError as error:
        raise UserError(f"{path}/{CONFIG} cannot be read: it has no {error}") from error
    except (UserError, OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{path}/{CONFIG} cannot be read: {error}") from error


def reopen(path: Path, asked: Settings) -> RunFolder:
    """Opens a run to go on with it. Its settings must be those asked for."""
    network = asked.config.network
    saved = load_settings(path, None if isinstance(network, str) else network)
    if difference := first_difference(saved, asked):
        raise UserError(f"cannot resume {path} with another configuration: {difference}")
    with refused(f"write to {path}"):
        return RunFolder(path, lock_folder(path))


def write_json(path: Path, data: Any) -> None:
    """Whole or not at all."""
    half = path.with_name(path.name + _WRITING)
    half.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    os.replace(half, path)


def lock_folder(path: Path, program: str = "munchausen train") -> Any:
    """Held by the operating system for as long as the process lives: never stale."""
    file = open(path / LOCK, "w")  # noqa: SIM115  (held as long as the run)
    for attempt in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            if attempt + 1 < _LOCK_ATTEMPTS:
                time.sleep(0.05)
    file.close()
    raise UserError(f"{path} is in use by a running `{program}`; wait for it or name another --out")


_LOCK_ATTEMPTS = 5  # those who ask `is_live` hold it for a moment when they look


_PACKAGES = (
    "munchausen",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "numpy",
    "gymnasium",
    "pgx",
    "pgx-minatar",
    "ale-py",
)


def describe_machine() -> dict[str, Any]:
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        **machine.describe(),
        "versions": versions,
    }
