"""What `docs/your-own-loop.md` shows runs, and does what the page says."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from munchausen import core
from snippets import lines_of_code, snippet

PAGE = "docs/your-own-loop.md"


def test_munchausen_iqn_on_cartpole_in_40_lines():
    code = snippet(PAGE, "the loop")
    assert lines_of_code(code) <= 40
    seen = {}
    exec(code, seen)
    assert max(np.convolve(seen["returns"], np.full(20, 1 / 20), "valid")) >= 400


def values(seed, dtype):
    """Values with ties and gaps on both sides of the clip, actions, rewards, discounts."""
    random = np.random.default_rng(seed)
    q, q_next = (random.normal(0, 0.5, (64, 4)).round(1).astype(dtype) for _ in range(2))
    actions = random.integers(0, 4, 64)
    return q, actions, random.normal(size=64), random.choice([0.0, 0.99], 64), q_next


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@pytest.mark.usefixtures("float64")
def test_two_lines_make_a_jax_dqn_a_munchausen_dqn():
    """With a network given, the lines of the page make the targets that the core makes; with α and
    τ of 0 they make those of the two lines that they replace."""
    q, actions, rewards, discounts, q_next = values(0, np.float64)

    class Network:
        def apply(self, params, x):
            return params[x]

    names = {
        "jax": jax,
        "core": core,
        "partial": partial,
        "q_network": Network(),
        "target_params": jnp.stack([q, q_next]),
        "observations": 0,
        "next_observations": 1,
        "actions": jnp.asarray(actions),
        "rewards": jnp.asarray(rewards),
        "dones": jnp.asarray(discounts == 0),
        "gamma": 0.99,
    }
    code = snippet(PAGE, "jax")
    exec(code, names)
    backup = jax.vmap(partial(core.backup, core.Regulariser(0.9, 0.03, -1.0)))(
        q, actions, rewards, discounts, q_next
    )
    wanted = jax.vmap(lambda b, q: b.expectation(q))(backup, q_next)
    np.testing.assert_allclose(names["targets"], wanted, atol=1e-6, rtol=0)
    assert np.ptp(names["targets"]) > 1

    before = snippet(PAGE, "dqn")
    assert "core.Regulariser(0.9, 0.03, -1.0)" in code
    exec(
        code.replace("core.Regulariser(0.9, 0.03, -1.0)", "core.Regulariser(0.0, 0.0, -1.0)"), names
    )
    plain = names["targets"]
    exec(before, names)
    np.testing.assert_allclose(plain, names["targets"], atol=1e-6, rtol=0)


@pytest.mark.usefixtures("float64")
def test_the_twin_in_pytorch():
    torch = pytest.importorskip("torch")
    names = {}
    exec(snippet(PAGE, "torch"), names)
    assert lines_of_code(snippet(PAGE, "torch")) <= 20
    for alpha, tau, clip_min in ((0.9, 0.03, -1.0), (0.0, 0.03, -1.0), (0.5, 1.0, -0.2)):
        arrays = values(1, np.float64)
        theirs = names["munchausen_target"](
            *map(torch.as_tensor, arrays), alpha=alpha, tau=tau, clip_min=clip_min
        )
        ours = jax.vmap(partial(core.q_target, core.Regulariser(alpha, tau, clip_min)))(*arrays)
        np.testing.assert_allclose(theirs.numpy(), ours, atol=1e-6, rtol=0)
