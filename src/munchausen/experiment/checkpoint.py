"""Checkpoints: safetensors under a manifest with SHA-256, written whole or not at all.

    checkpoints/step-000000200000/state.safetensors   every array that decides the future
                                  manifest.json       its hash, the counters, the records' length

A checkpoint is written beside its place and renamed into it. When one is read, its hashes are
checked; a damaged one is refused by name and the one before it is used. Nothing is unpickled.
"""

import hashlib
import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from munchausen.errors import UserError

CHECKPOINTS = "checkpoints"
KEEP = 2  # the newest, and one to fall back to
FORMAT = 1


class Checkpoint(NamedTuple):
    state: Any
    counters: dict[str, Any]


class DamagedCheckpoint(Exception):
    """A file of the checkpoint is missing, cut or altered."""


def write_checkpoint(folder: Path, step: int, state: Any, counters: dict[str, Any]) -> Path:
    """`counters` is JSON: the step, the records' length, the accounting."""
    parent = folder / CHECKPOINTS
    parent.mkdir(exist_ok=True)
    place = parent / f"step-{step:012d}"
    writing = parent / f".writing-{step:012d}"
    for cut in parent.glob(".writing-*"):  # by a kill
        shutil.rmtree(cut)
    writing.mkdir()
    save_file(flatten(state), writing / "state.safetensors")
    manifest = {
        "format": FORMAT,
        "files": {"state.safetensors": sha256_of(writing / "state.safetensors")},
        "counters": counters,
    }
    manifest["sha256"] = _manifest_hash(manifest)
    (writing / "manifest.json").write_text(json.dumps(manifest, indent=1))
    for path in (*writing.iterdir(), writing):
        _fsync(path)
    if place.exists():  # a resumed run wrote this step before it was cut
        shutil.rmtree(place)
    os.rename(writing, place)
    _fsync(parent)
    for old in list_checkpoints(folder)[:-KEEP]:
        shutil.rmtree(old)
    return place


def read_latest(folder: Path, template: Any) -> Checkpoint | None:
    """The newest checkpoint that is whole, or None if there is none at all."""
    places = list_checkpoints(folder)
    for place in reversed(places):
        try:
            return read_checkpoint(place, template)
        except DamagedCheckpoint as damage:
            warnings.warn(f"{damage}; trying the one before it", stacklevel=2)
    if places:
        raise UserError(f"no checkpoint of {folder} is whole; train again into another --out")
    return None


def read_checkpoint(place: Path, template: Any) -> Checkpoint:
    """Checks every hash, then rebuilds `template`'s structure. Raises DamagedCheckpoint."""
    counters, arrays = read_arrays(place)
    return Checkpoint(unflatten(arrays, template, place), counters)


def read_arrays(place: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        manifest = json.loads((place / "manifest.json").read_text())
        if manifest.pop("sha256") != _manifest_hash(manifest):
            raise DamagedCheckpoint(f"{place}/manifest.json was altered")
        if manifest["format"] != FORMAT:
            raise UserError(f"{place} has format {manifest['format']}; this version reads {FORMAT}")
        if sha256_of(place / "state.safetensors") != manifest["files"]["state.safetensors"]:
            raise DamagedCheckpoint(f"{place}/state.safetensors was cut or altered")
        return manifest["counters"], load_file(place / "state.safetensors")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError) as error:
        raise DamagedCheckpoint(f"{place} is damaged: {error}") from error


def list_checkpoints(folder: Path) -> list[Path]:
    """Oldest first."""
    return sorted((Path(folder) / CHECKPOINTS).glob("step-*"))


def flatten(tree: Any) -> dict[str, np.ndarray]:
    """Arrays by the path of their leaf. Keys become their data, booleans (frames) bits."""
    arrays = {}
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = jax.tree_util.keystr(path)
        if _is_key(leaf):
            leaf = jax.random.key_data(leaf)
        array = np.asarray(leaf)
        if array.dtype == bool:
            name, array = name + _BITS, np.packbits(array)
        arrays[name] = np.require(array, requirements="C")
    return arrays


def unflatten(arrays: dict[str, np.ndarray], template: Any, source: Path) -> Any:
    """`template` (arrays or their shapes) with the values of `arrays`."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(template)
    values = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        packed = leaf.dtype == bool
        array = arrays.get(name + _BITS if packed else name)
        if array is None:
            raise UserError(f"{source} has no {name}: it is of another agent or version")
        if packed:
            size = int(np.prod(leaf.shape))
            array = np.unpackbits(array)[:size].astype(bool)
            array = array.reshape(leaf.shape) if array.size == size else array
        shape, dtype = leaf.shape, leaf.dtype
        if _is_key(leaf):
            data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(shape, dtype))
            shape, dtype = data.shape, data.dtype
        if array.shape != shape or array.dtype != dtype:
            raise UserError(
                f"{source}: {name} is {array.dtype}{list(array.shape)}, this run needs "
                f"{dtype}{list(shape)}: it is of another agent or environment"
            )
        if _is_key(leaf):
            values.append(jax.random.wrap_key_data(jnp.asarray(array)))
        else:
            values.append(array if isinstance(leaf, np.ndarray) else jnp.array(array))
    return jax.tree_util.tree_unflatten(structure, values)


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_BITS = "#bits"


def _manifest_hash(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
