"""What writing a block of the replay costs the loop: the time other threads have no interpreter.

    python benchmarks/blocks.py [--blocks 6]

A block of Atari's frames (64 MB) is written as checkpoints write it, and as `safetensors.save` and
one call of zstd would, in turns. Meanwhile a thread wakes every half millisecond; what it comes too
late is time in which the loop could not have gone on either.
"""

import argparse
import hashlib
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import zstandard
from safetensors.numpy import save

from munchausen._src.experiment.segments import Block, write_block

ENVS, ROWS = 200, 47
TICK, LATE = 0.5e-3, 2e-3  # seconds


def simple(path: Path, block: Block) -> str:
    arrays = {k: np.require(np.asarray(x), requirements="C") for k, x in block.arrays.items()}
    data = zstandard.ZstdCompressor(level=1).compress(save(arrays))
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def block() -> Block:
    """A noisy picture for each environment, in which a small thing moves."""
    random = np.random.default_rng(0)
    frames = np.repeat(random.integers(0, 255, (1, ENVS, 1, 84, 84), dtype=np.uint8), ROWS, axis=2)
    frames[:, :, :, 20:] = 0
    for row in range(ROWS):
        frames[:, :, row, 40 + row % 20, 30:34] = 200
    shape = (1, ENVS, ROWS)
    arrays = {
        "frames": jnp.asarray(frames),
        "actions": jnp.zeros(shape, jnp.int32),
        "rewards": jnp.zeros(shape),
        "kinds": jnp.zeros(shape, jnp.uint8),
    }
    return Block(0, jax.block_until_ready(arrays))


def late(stop: threading.Event, found: list[float]) -> None:
    last = time.perf_counter()
    while not stop.is_set():
        time.sleep(TICK)
        now = time.perf_counter()
        if now - last - TICK > LATE:
            found.append(now - last - TICK)
        last = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=6)
    options = parser.parse_args()
    ways: dict[str, Any] = {"as checkpoints do": write_block, "safetensors.save": simple}
    seconds, missed = dict.fromkeys(ways, 0.0), dict.fromkeys(ways, 0.0)
    written = block()
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.blocks):
            for name, write in ways.items():
                stop, found = threading.Event(), []
                thread = threading.Thread(target=late, args=(stop, found))
                thread.start()
                begun = time.perf_counter()
                write(Path(folder) / "block", written)
                seconds[name] += time.perf_counter() - begun
                stop.set()
                thread.join()
                missed[name] += sum(found)
    for name in ways:
        of_block = f"{1e3 * seconds[name] / options.blocks:.0f} ms a block"
        print(f"{name}: {of_block}, {1e3 * missed[name] / options.blocks:.0f} without interpreter")
    ours, theirs = seconds.values()
    print(f"as checkpoints do it is {theirs / ours:.1f} times as fast")


if __name__ == "__main__":
    main()
