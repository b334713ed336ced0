"""Programs compiled once are kept in a folder of the user's for the next run of the same kind."""

import contextlib
import os
from pathlib import Path

MOST_BYTES = 4 * 10**9  # a program is up to 20 MB; JAX itself never deletes one
_ENTRIES = "*-cache"  # as JAX names them


def use_program_cache() -> None:
    """Tells JAX to keep its programs in the folder `MUNCHAUSEN_CACHE_DIR`, or nowhere if that is
    empty. Where it is not set they go to the user's cache, unless JAX was given a folder."""
    import jax

    folder = os.environ.get("MUNCHAUSEN_CACHE_DIR")
    if folder is None:
        if jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
            return
        home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
        folder = str(home / "munchausen" / "jax")
    if folder:
        prune(Path(folder), MOST_BYTES)
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def prune(folder: Path, most_bytes: int) -> None:
    """Deletes the programs that were not used for longest until the rest is small enough. A
    process that misses one compiles it again."""
    entries = []
    for path in folder.glob(_ENTRIES):
        with contextlib.suppress(OSError):  # another process was faster
            found = path.stat()
            entries.append((max(found.st_atime, found.st_mtime), found.st_size, path))
    excess = sum(size for _, size, _ in entries) - most_bytes
    for _, size, path in sorted(entries):
        if excess <= 0:
            return
        with contextlib.suppress(OSError):
            path.unlink()
            excess -= size
