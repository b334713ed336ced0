"""A trained network to play with: out of a run's checkpoint, or from a file of its own."""

import hashlib
import json
import warnings
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from munchausen._src import suites as envs
from munchausen._src.agents.building import new_network
from munchausen._src.agents.over_time import playing_regulariser
from munchausen._src.core.backup import Regulariser
from munchausen._src.errors import UserError
from munchausen._src.experiment.checkpoint import (
    FORMAT,
    DamagedCheckpoint,
    flatten,
    list_checkpoints,
    read_arrays,
    unflatten,
)
from munchausen._src.experiment.folder import is_finished, load_settings
from munchausen._src.experiment.settings import Settings
from munchausen._src.networks import Network
from munchausen._src.suites import EnvironmentSpec

_ONLINE = ".lane.learner.online"  # where a loop's state keeps it


class Policy(NamedTuple):
    settings: Settings
    lane: int
    network: Network
    step: int

    @property
    def regulariser(self) -> Regulariser:
        return playing_regulariser(self.settings.lanes[self.lane].config, self.step)


def environment_spec(settings: Settings) -> EnvironmentSpec:
    return envs.spec_of(settings.listing)


def network_template(settings: Settings) -> Network:
    make = partial(new_network, settings.config, environment_spec(settings))
    return jax.eval_shape(make, jax.random.key(0))


def load_run(path: Path, lane: int = 0, network: Any = None) -> Policy:
    """From the newest whole checkpoint of a run. `network`: the torso, where its name is not
    enough to make it."""
    settings = load_settings(path, network)
    if not 0 <= lane < len(settings.lanes):
        lanes = ", ".join(f"{i} {x.agent} seed {x.seed}" for i, x in enumerate(settings.lanes))
        raise UserError(f"{path} has no lane {lane}; there are: {lanes}")
    for place in reversed(list_checkpoints(path)):
        try:
            counters, arrays = read_arrays(place)
        except DamagedCheckpoint as damage:
            warnings.warn(f"{damage}; trying the one before it", stacklevel=2)
            continue
        online = {
            name.removeprefix(_ONLINE): array if len(settings.lanes) == 1 else array[lane]
            for name, array in arrays.items()
            if name.startswith(_ONLINE)
        }
        weights = unflatten(online, network_template(settings), place)
        return Policy(settings, lane, weights, counters["step"])
    if is_finished(path) and not list_checkpoints(path):
        raise UserError(
            f"{path} is finished and its checkpoints were deleted: there is no agent to load"
        )
    raise UserError(f"{path} has no whole checkpoint yet; let it train on with --resume")


def save_policy(policy: Policy, path: Path) -> None:
    """One safetensors file: the weights, and the settings with a hash of both in its header."""
    arrays = flatten(policy.network)
    about = {
        "format": FORMAT,
        "settings": policy.settings.to_json(),
        "lane": policy.lane,
        "step": policy.step,
    }
    text = json.dumps(about)
    save_file(arrays, path, metadata={"munchausen": text, "sha256": _hash(arrays, text)})


def load_policy(path: Path, network: Any = None) -> Policy:
    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is no saved agent: {error}") from error
    if "munchausen" not in header:
        raise UserError(f"{path} is no saved agent; make one with Agent.save")
    if header.get("sha256") != _hash(arrays, header["munchausen"]):
        raise UserError(f"{path} was altered or damaged; save the agent again")
    try:
        about = json.loads(header["munchausen"])
        settings = Settings.from_json(about["settings"], network)
        lane, step = int(about["lane"]), int(about["step"])
        settings.lanes[lane]
    except UserError as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, RecursionError) as error:
        # Its hash is right, so it was made by somebody, not damaged.
        raise UserError(f"{path} is no saved agent: its settings cannot be read") from error
    if about.get("format") != FORMAT:
        raise UserError(f"{path} has format {about.get('format')}; this version reads {FORMAT}")
    return Policy(settings, lane, unflatten(arrays, network_template(settings), path), step)


def _hash(arrays: dict[str, np.ndarray], about: str) -> str:
    digest = hashlib.sha256(about.encode())
    for name in sorted(arrays):
        array: Any = arrays[name]
        digest.update(f"{name}{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
