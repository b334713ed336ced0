"""A large replay in checkpoints: blocks of rows, each written once.

A row of the ring never changes once its environment has passed it, so a block of rows that all
environments have passed is written when it is full, compressed, by a thread of its own, and
every later checkpoint only names it with its hash:

    checkpoints/replay/rows-000000001024.zst             full blocks
    checkpoints/step-000000200000/tail-000000002048.zst  those not full yet, as they are

Reading puts blocks into the ring in the order of their rows, so the newest rows win the slots
they share with old ones: the same bits as the ring that was saved.
"""

import hashlib
import json
import os
import queue
import struct
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import zstandard
from safetensors.numpy import load

from munchausen._src.core.replay import Ring

LARGE_BYTES = 128 * 2**20  # rings from this size on are written in blocks
BLOCK_BYTES = 64 * 2**20
CHECKPOINTS, REPLAY = "checkpoints", "replay"
_LEVEL = 1  # consecutive frames lie side by side, so even the fastest level finds them alike
_AHEAD = 4  # blocks that may wait for the writer before training waits too


class Block(NamedTuple):
    """`rows` rows from `first` on, of all lanes and environments, still on the device."""

    first: int
    arrays: dict[str, Any]


class Written(NamedTuple):
    first: int
    sha256: str


class Segments(NamedTuple):
    """The replay of one checkpoint."""

    rows: int  # in a block
    full: list[Written]
    tail: list[Block]


def is_large(ring: Ring) -> bool:
    return int(np.prod(ring.frames.shape)) * ring.frames.dtype.itemsize >= LARGE_BYTES


def ring_rows(ring: Ring) -> int:
    """Of the ring of one lane, or of several that have an axis in front."""
    return ring.frames.shape[ring.head.ndim - 1]


def block_rows(ring: Ring) -> int:
    """Rows in a block."""
    rows = ring_rows(ring)
    row_bytes = ring.frames.size * ring.frames.dtype.itemsize // rows
    # At most a quarter of the ring: a block is taken before its first row is overwritten.
    return max(1, min(rows // 4, BLOCK_BYTES // row_bytes))


def most_bytes(ring: Ring) -> int:
    """Of a block of this ring, before it is compressed."""
    row_bytes = sum(x.size * x.dtype.itemsize for x in ring[:-1]) // ring_rows(ring)
    return block_rows(ring) * row_bytes + 2**16


@partial(jax.jit, static_argnames="rows")
def _take(ring: Ring, first: jax.Array, rows: int) -> dict[str, jax.Array]:
    if ring.head.ndim == 1:  # a single lane; blocks have lanes first
        ring = jax.tree.map(lambda x: x[None], ring)
    slots = (first + jnp.arange(rows)) % ring.frames.shape[1]
    arrays = {name: jnp.take(getattr(ring, name), slots, axis=1) for name in _FIELDS}
    # Consecutive frames of one environment side by side.
    return {name: jnp.moveaxis(x, 1, 2) for name, x in arrays.items()}


@partial(jax.jit, donate_argnums=0)
def _put(ring: Ring, first: jax.Array, arrays: dict[str, jax.Array]) -> Ring:
    rows = arrays["kinds"].shape[2]
    slots = (first + jnp.arange(rows)) % ring_rows(ring)
    single = ring.head.ndim == 1
    values = {}
    for name in _FIELDS:
        kept, new = getattr(ring, name), jnp.moveaxis(arrays[name], 2, 1)
        values[name] = kept.at[slots].set(new[0]) if single else kept.at[:, slots].set(new)
    return ring._replace(**values)


_FIELDS = ("frames", "actions", "rewards", "kinds")
_DTYPES = {"uint8": "U8", "bool": "BOOL", "int32": "I32", "float32": "F32"}  # safetensors' names


class SegmentWriter:
    """Follows a ring and writes its full blocks in the background, in order."""

    def __init__(self, folder: Path, ring: Ring, written: list[Written]):
        """`written`: the blocks that the checkpoint names; later ones are written again."""
        self.folder = folder / CHECKPOINTS / REPLAY
        for cut in self.folder.glob("*.writing"):  # by a kill
            cut.unlink()
        self.rows = block_rows(ring)
        self.written = list(written)
        self._next = written[-1].first + self.rows if written else 0
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue(_AHEAD)
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="checkpoints", daemon=True)
        self._thread.start()

    def follow(self, ring: Ring, passed: int) -> None:
        """Takes the blocks that have become full: all environments are past row `passed`."""
        while self._next + self.rows <= passed:
            block = Block(self._next, _take(ring, jnp.int32(self._next), self.rows))
            self.submit(partial(self._write_full, block))
            self._next += self.rows

    def tail(self, ring: Ring) -> list[Block]:
        """The blocks that are not full yet, up to the furthest environment."""
        last = int(jnp.max(ring.head))
        return [
            Block(first, _take(ring, jnp.int32(first), self.rows))
            for first in range(self._next, last + 1, self.rows)
        ]

    def submit(self, job: Callable[[], None]) -> None:
        self.check()
        self._jobs.put(job)

    def check(self) -> None:
        """Raises what went wrong in the background."""
        if self._failed is not None:
            raise self._failed

    def wait(self) -> None:
        self._jobs.join()
        self.check()

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()

    def segments(self, tail: list[Block], oldest: int) -> Segments:
        """Of a ring whose oldest row is `oldest`, and the `tail` taken of it."""
        return Segments(self.rows, [w for w in self.written if w.first + self.rows > oldest], tail)

    def prune(self, needed: set[int]) -> None:
        """Deletes full blocks that no checkpoint names."""
        newest = self.written[-1].first if self.written else -1
        for path in self.folder.glob("rows-*.zst"):
            first = int(path.stem.removeprefix("rows-"))
            if first not in needed and first <= newest:
                path.unlink()
        self.written = [w for w in self.written if w.first in needed or w.first == newest]

    def _write_full(self, block: Block) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = block_path(self.folder, block.first)
        writing = path.with_suffix(".writing")
        digest = write_block(writing, block)
        os.replace(writing, path)
        fsync(self.folder)  # its name too, before a checkpoint vouches for it
        self.written.append(Written(block.first, digest))

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                # After a failure nothing more is written: a later file could hide the gap.
                if self._failed is None:
                    job()
            except BaseException as error:
                self._failed = error
            finally:
                self._jobs.task_done()
        self._jobs.task_done()


def fsync(path: Path) -> None:
    """A file's contents, or a folder's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def block_path(folder: Path, first: int, kind: str = "rows") -> Path:
    return folder / f"{kind}-{first:012d}.zst"


def write_block(path: Path, block: Block) -> str:
    """Writes and returns the SHA-256 of what was written.

    `safetensors.save` copies 64 MB twice while it holds Python's interpreter lock, which stops the
    training loop for 35 to 55 ms a block, twice a second on a fast machine. So its format is
    written here, and the arrays are compressed without a copy.
    """
    arrays = {k: np.require(np.asarray(x), requirements="C") for k, x in block.arrays.items()}
    header = _header(arrays)
    size = len(header) + sum(x.nbytes for x in arrays.values())
    compressor = zstandard.ZstdCompressor(level=_LEVEL).compressobj(size=size)
    parts = [compressor.compress(header)]
    parts += [compressor.compress(x.data.cast("B")) for x in arrays.values()]
    data = b"".join([*parts, compressor.flush()])
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return hashlib.sha256(data).hexdigest()


def _header(arrays: dict[str, np.ndarray]) -> bytes:
    """What safetensors has in front of these arrays."""
    entries, end = {}, 0
    for name, x in arrays.items():
        begin, end = end, end + x.nbytes
        dtype = _DTYPES[x.dtype.name]
        entries[name] = {"dtype": dtype, "shape": x.shape, "data_offsets": [begin, end]}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def read_block(path: Path, sha256: str, most: int = 2**32) -> dict[str, np.ndarray]:
    """Raises ValueError if the file is not the one that was written, or claims to decompress to
    more than `most` bytes: that memory would be allocated before anything else is checked."""
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"{path} was cut or altered")
    if not 0 <= zstandard.frame_content_size(data) <= most:
        raise ValueError(f"{path} is larger than a block of this replay")
    return load(zstandard.ZstdDecompressor().decompress(data))


def fill(ring: Ring, blocks: Iterable[tuple[int, dict[str, np.ndarray]]]) -> Ring:
    """A ring with these blocks in their slots. They come oldest first."""
    for first, arrays in blocks:
        ring = _put(ring, jnp.int32(first), {k: jnp.asarray(x) for k, x in arrays.items()})
    return ring
