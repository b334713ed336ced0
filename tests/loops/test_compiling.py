import jax
import jax.numpy as jnp

from munchausen.loops.compiling import compiled


def test_the_options_for_a_gpu_are_known_to_this_jax(monkeypatch):
    """XLA reads the name and the value wherever it compiles, and refuses one that it lacks."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert compiled(lambda x: x + 1)(jnp.float32(1)) == 2


def test_the_first_argument_is_used_up_only_where_asked():
    kept, gone = jnp.ones(3), jnp.ones(3)
    compiled(lambda x: x + 1)(kept)
    compiled(lambda x: x + 1, uses_up_first=True)(gone)
    assert (kept.is_deleted(), gone.is_deleted()) == (False, True)
