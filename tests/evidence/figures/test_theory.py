"""The theory's figures are drawn, one file each, from small arrays of the right shapes."""

import numpy as np
import pytest

from munchausen._src.evidence.figures import theory

RANDOM = np.random.default_rng(0)
K, M = 10, 3


def some(*shape):
    return RANDOM.uniform(0.1, 1.0, shape)


def by_scheme(*shape):
    return {name: some(*shape) for name in ("VI", "soft VI", "AL", "M-VI")}


ITERATIONS = np.arange(1, K + 1)
STUDIES = {
    "averaging": (
        {"iterations": ITERATIONS, "losses": by_scheme(M, K), "discount": 0.9},
        {"horizons": np.array([2.0, 4.0]), "losses": by_scheme(2, M), "iterations": K},
    ),
    "action_gap": (
        {
            "alphas": np.array([0.0, 0.5]),
            "measured": some(M, 2),
            "line": np.linspace(0, 0.9, 5),
            "right": some(5),
            "printed": some(5),
        },
    ),
    "bounds": (
        {
            "iterations": ITERATIONS,
            "short_iterations": ITERATIONS,
            "discount": 0.8,
            **{
                name: some(M, K)
                for name in (
                    *("truth", "main text", "component-wise", "truth below one", "corollary 2"),
                )
            },
        },
    ),
    "clipping": (
        {
            "clips": np.array([-np.inf, -1.0]),
            "alpha": 0.9,
            "optimal_gaps": some(M, 4, 2),
            "gaps": some(M, 2, 4, 2),
            "exact_losses": some(M, 2),
            "noisy_losses": some(M, 2),
        },
    ),
    "policy_change": (
        {"iterations": ITERATIONS, "divergence": by_scheme(M, K), "switches": by_scheme(M, K)},
    ),
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_picture(name, tmp_path):
    path = tmp_path / "figure.png"
    getattr(theory, name)(*STUDIES[name], path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert 5_000 < path.stat().st_size < 150_000
