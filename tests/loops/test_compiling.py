import jax
import jax.numpy as jnp
import pytest

from munchausen.loops import compiling
from munchausen.loops.compiling import compiled


@pytest.fixture(autouse=True)
def asked_anew():
    compiling.known_options.cache_clear()
    yield
    compiling.known_options.cache_clear()


def test_the_options_for_a_gpu_are_known_to_this_jax(monkeypatch):
    """XLA reads the name and the value wherever it compiles, and refuses one that it lacks."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert compiling.known_options() == compiling.GPU_OPTIONS
    assert compiled(lambda x: x + 1)(jnp.float32(1)) == 2


def test_an_option_that_a_later_jax_drops_is_left_out(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setitem(compiling.GPU_OPTIONS, "xla_gpu_gone", True)
    with pytest.warns(UserWarning, match="no option xla_gpu_gone"):
        assert compiled(lambda x: x + 1)(jnp.float32(1)) == 2
    assert "xla_gpu_gone" not in compiling.known_options()


def test_the_first_argument_is_used_up_only_where_asked():
    kept, gone = jnp.ones(3), jnp.ones(3)
    compiled(lambda x: x + 1)(kept)
    compiled(lambda x: x + 1, uses_up_first=True)(gone)
    assert (kept.is_deleted(), gone.is_deleted()) == (False, True)
