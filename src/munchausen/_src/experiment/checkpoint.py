"""Checkpoints: safetensors under a manifest with SHA-256, written whole or not at all.

    checkpoints/step-000000200000/state.safetensors   every array that decides the future
                                  manifest.json       its hash, the counters, the records' length

A large replay is kept in blocks beside it (see `segments`), which the manifest names by hash.

A checkpoint is written beside its place and renamed into it. When one is read, its hashes are
checked; a damaged one is refused by name and the one before it is used. Nothing is unpickled.
"""

import contextlib
import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import zstandard
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from munchausen._src.core.replay import Ring
from munchausen._src.errors import UserError
from munchausen._src.experiment.segments import (
    CHECKPOINTS,
    REPLAY,
    Segments,
    Written,
    block_path,
    fill,
    fsync,
    most_bytes,
    read_block,
    write_block,
)

STATE, MANIFEST = "state.safetensors", "manifest.json"
KEEP = 2  # the newest, and one to fall back to
FORMAT = 3  # 3: weights as equinox has them, and no axis of lanes for a single one


class Checkpoint(NamedTuple):
    state: Any
    counters: dict[str, Any]
    segments: list[Written]  # the full blocks of its replay, if that is kept in blocks


class DamagedCheckpoint(Exception):
    """A file of the checkpoint is missing, cut or altered."""


def write_checkpoint(
    folder: Path,
    step: int,
    state: Any,
    counters: dict[str, Any],
    segments: Segments | None = None,
) -> Path:
    """`counters` is JSON: the step, the records' length, the accounting. With `segments`, the
    replay is in blocks of its own and `state` is without it."""
    parent = folder / CHECKPOINTS
    parent.mkdir(exist_ok=True)
    place = parent / _name(step)
    writing = parent / f".writing-{step:012d}"
    for cut in parent.glob(".writing-*"):  # by a kill
        shutil.rmtree(cut)
    writing.mkdir()
    try:
        save_file(flatten(state), writing / STATE)
    except SafetensorError as error:  # a full disk is an OSError everywhere else
        raise OSError(f"{writing / STATE}: {error}") from error
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "files": {STATE: sha256_of(writing / STATE)},
        "counters": counters,
    }
    if segments is not None:
        manifest["replay"] = {
            "rows": segments.rows,
            "full": segments.full,
            "tail": [
                (block.first, write_block(block_path(writing, block.first, "tail"), block))
                for block in segments.tail
            ],
        }
    manifest["sha256"] = _manifest_hash(manifest)
    (writing / MANIFEST).write_text(json.dumps(manifest, indent=1))
    for path in (*writing.iterdir(), writing):
        fsync(path)
    if place.exists():  # a resumed run wrote this step before it was cut
        shutil.rmtree(place)
    os.rename(writing, place)
    fsync(parent)
    for old in list_checkpoints(folder)[:-KEEP]:
        shutil.rmtree(old)
    return place


def read_latest(folder: Path, template: Any, *, segmented: bool = False) -> Checkpoint | None:
    """The newest checkpoint that is whole, or None if there is none at all."""
    places = list_checkpoints(folder)
    for place in reversed(places):
        try:
            return read_checkpoint(place, template, segmented=segmented)
        except DamagedCheckpoint as damage:
            warnings.warn(f"{damage}; trying the one before it", stacklevel=2)
    if places:
        raise UserError(f"no checkpoint of {folder} is whole; train again into another --out")
    return None


def set_aside_after(folder: Path, step: int) -> None:
    """Renames checkpoints after `step`, which could not be read. The run takes those steps again
    and must not return to the old ones if they become readable later."""
    for place in list_checkpoints(folder):
        if place.name > _name(step):
            aside = place.with_name(f"unreadable-{place.name}")
            if aside.exists():
                shutil.rmtree(aside)
            os.rename(place, aside)


def read_checkpoint(place: Path, template: Any, *, segmented: bool = False) -> Checkpoint:
    """Checks every hash, then rebuilds `template`'s structure. Raises DamagedCheckpoint."""
    manifest = read_manifest(place)
    arrays = _read_state(place, manifest)
    if not segmented:
        return Checkpoint(unflatten(arrays, template, place), manifest["counters"], [])
    ring = template.lane.replay.ring
    blocks = _read_blocks(place, manifest, most_bytes(ring))
    state = unflatten(arrays, without_replay(template), place)
    frames, actions, rewards, kinds = (jnp.zeros(x.shape, x.dtype) for x in ring[:-1])
    empty = Ring(frames, actions, rewards, kinds, state.lane.replay.ring)
    with _damage(place):
        full = fill(empty, blocks)
    return Checkpoint(_with_ring(state, full), manifest["counters"], named_blocks(place))


def without_replay(state: Any) -> Any:
    """A loop's state with only the head of its ring left."""
    return _with_ring(state, state.lane.replay.ring.head)


def _with_ring(state: Any, ring: Any) -> Any:
    lane = state.lane
    return state._replace(lane=lane._replace(replay=lane.replay._replace(ring=ring)))


def named_blocks(place: Path) -> list[Written]:
    """The full blocks of the replay that a checkpoint names."""
    return [Written(*x) for x in read_manifest(place).get("replay", {"full": []})["full"]]


def full_blocks(folder: Path) -> set[int]:
    """First rows of those that any checkpoint names."""
    found = set()
    for place in list_checkpoints(folder):
        with contextlib.suppress(DamagedCheckpoint):
            found |= {block.first for block in named_blocks(place)}
    return found


def read_arrays(place: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The counters and the state, without a replay kept in segments."""
    manifest = read_manifest(place)
    return manifest["counters"], _read_state(place, manifest)


def read_manifest(place: Path) -> dict[str, Any]:
    with _damage(place):
        manifest = json.loads((place / MANIFEST).read_text())
        if manifest.pop("sha256") != _manifest_hash(manifest):
            raise DamagedCheckpoint(f"{place / MANIFEST} was altered")
        if not isinstance(manifest["counters"], dict):
            raise TypeError("its counters are none")
    if manifest["format"] != FORMAT:
        raise UserError(f"{place} has format {manifest['format']}; this version reads {FORMAT}")
    return manifest


def _read_state(place: Path, manifest: dict[str, Any]) -> dict[str, np.ndarray]:
    with _damage(place):
        if sha256_of(place / STATE) != manifest["files"][STATE]:
            raise DamagedCheckpoint(f"{place / STATE} was cut or altered")
        return load_file(place / STATE)


def _read_blocks(
    place: Path, manifest: dict[str, Any], most: int
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Yields the blocks oldest first, one at a time: all at once would need the memory of a second
    replay. File names are made here from whole numbers, never taken from the manifest."""
    with _damage(place):
        replay = manifest["replay"]
        full = [(int(f), block_path(place.parent / REPLAY, int(f)), h) for f, h in replay["full"]]
        tail = [(int(f), block_path(place, int(f), "tail"), h) for f, h in replay["tail"]]
        for first, path, digest in sorted(full + tail):
            yield first, read_block(path, digest, most)


@contextlib.contextmanager
def _damage(place: Path):
    """What a damaged file makes go wrong, as one error."""
    wrong = (OSError, ValueError, KeyError, TypeError, AttributeError, SafetensorError)
    wrong += (OverflowError, RecursionError)  # numbers and nesting that nobody writes
    try:
        yield
    except (*wrong, zstandard.ZstdError) as error:
        raise DamagedCheckpoint(f"{place} is damaged: {error}") from error


def _name(step: int) -> str:
    return f"step-{step:012d}"


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
