"""Shared by all tests: compiled programs are kept, so that a second run of the suite is quick."""

import os
import sys
import tempfile
from pathlib import Path

import jax
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for `oracle`

# Tests compile for longer than they compute, so LLVM is asked for less: 12 minutes become 10 on two
# cores. `XLA_FLAGS= uv run pytest` compiles as users have it.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")  # read at first use

_CACHE = os.environ.setdefault(
    "MUNCHAUSEN_CACHE_DIR", str(Path(tempfile.gettempdir()) / "munchausen-test-cache")
)
# Some machines are told to keep no compiled modules. Then every process that a test starts would
# compile JAX's and ours anew, 3 s of the 4 that it takes to import them.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(Path(_CACHE) / "modules")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or it was -B
jax.config.update("jax_compilation_cache_dir", _CACHE)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@pytest.fixture
def key():
    return jax.random.key(7)


@pytest.fixture
def with_draws(monkeypatch):
    """Jits a function; the fractions that implicit quantiles draw in it are a second result."""
    from munchausen._src.core.heads import implicit

    drawn, draw = [], implicit.draw_fractions

    def spy(key, batch, count):
        drawn.append(draw(key, batch, count))
        return drawn[-1]

    monkeypatch.setattr(implicit, "draw_fractions", spy)

    def with_draws(function):
        def run(*arguments):
            drawn.clear()
            result = function(*arguments)
            return result, list(drawn)

        return jax.jit(run)

    return with_draws
