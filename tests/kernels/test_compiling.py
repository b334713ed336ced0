"""How programs are compiled: options for a GPU, what they use up, how exact their products are."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import pytest

from munchausen._src.agents import override, resolve
from munchausen._src.kernels import compiling
from munchausen._src.kernels.compiling import compiled
from munchausen._src.loops.lane import make_steps
from munchausen._src.suites import EnvironmentSpec

TF32 = "tf32"


@pytest.fixture(autouse=True)
def asked_anew():
    compiling.known_options.cache_clear()
    yield
    compiling.known_options.cache_clear()


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_the_options_are_known_to_this_jax(monkeypatch, device):
    """XLA reads the name and the value wherever it compiles, and refuses one that it lacks."""
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    assert compiling.known_options(device) == compiling.OPTIONS[device] != {}
    assert compiled(lambda x: x + 1, TF32)(jnp.float32(1)) == 2


def test_a_device_without_options_compiles(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert compiled(lambda x: x + 1, TF32)(jnp.float32(1)) == 2


@pytest.mark.parametrize(
    ("name", "value"), [("xla_gone", True), ("xla_cpu_experimental_ynn_fusion_type", "GONE")]
)
def test_an_option_that_a_later_jax_drops_is_left_out(monkeypatch, name, value):
    monkeypatch.setitem(compiling.OPTIONS["cpu"], name, value)
    with pytest.warns(UserWarning, match=f"no option {name}={value}"):
        assert compiled(lambda x: x + 1, TF32)(jnp.float32(1)) == 2
    assert name not in compiling.known_options("cpu")


def test_the_first_argument_is_used_up_only_where_asked():
    kept, gone = jnp.ones(3), jnp.ones(3)
    compiled(lambda x: x + 1, TF32)(kept)
    compiled(lambda x: x + 1, TF32, uses_up_first=True)(gone)
    assert (kept.is_deleted(), gone.is_deleted()) == (False, True)


@pytest.mark.parametrize("agent", ["m-dqn", "m-iqn"])
@pytest.mark.parametrize(("precision", "whole"), [("tf32", False), ("float32", True)])
@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_precision_is_that_of_every_product(monkeypatch, agent, precision, whole, device):
    """Of the network and of its gradients, whichever way a device has its convolutions."""
    monkeypatch.setattr(jax, "default_backend", lambda: device)
    config = override(resolve(agent, "atari"), {"precision": precision})
    spec = EnvironmentSpec("game", (84, 84), "uint8", 4, truncates=True, scale=1 / 255)
    steps = make_steps(config, spec, munchausen=True)
    frames = jnp.zeros((config.envs, 84, 84), jnp.uint8)
    regulariser = config.regulariser
    lane = jax.eval_shape(steps.init, jax.random.key(0), regulariser, frames)
    t = jax.ShapeDtypeStruct((), jnp.int32)
    for program in (partial(steps.learn, updates=1), steps.act):
        text = compiled(program, config.precision).lower(lane, t).as_text()
        products = re.findall(r"stablehlo\.(?:dot_general|convolution)\b.*", text)
        assert len(products) >= 4
        exact = [line for line in products if line.count("HIGHEST") == 2]
        assert len(exact) == (len(products) if whole else 0)
