"""The studies behind the figures: the numbers tell what the captions say."""

import numpy as np

from munchausen._src.tabular import studies


def test_errors_average_out():
    study = studies.over_iterations(mdps=20, iterations=60)
    end = {name: losses[:, -10:].mean() for name, losses in study["losses"].items()}
    assert list(end) == list(studies.FAMILY)
    assert end["M-VI (α = 1)"] < 0.5 * end["M-VI (α = 0.9)"] < 0.1 * end["VI"]
    assert study["losses"]["VI"].shape == (20, 60)


def test_policies_change_less():
    study = studies.policy_change(mdps=20, iterations=40)
    divergence = [values[:, -10:].mean() for values in study["divergence"].values()]
    soft, low, munchausen, at_one = divergence
    assert at_one < munchausen < soft < low
    switches = {name: values[:, -10:].mean() for name, values in study["switches"].items()}
    assert switches["M-VI (α = 0.9)"] < 0.3 * switches["VI"]
    assert np.isfinite(divergence).all()


def test_clipping_caps_the_gap():
    study = studies.clipping(mdps=5, iterations=400)
    free, clipped = (study["gaps"][:, list(study["clips"]).index(c)] for c in (-np.inf, -1.0))
    np.testing.assert_allclose(free, study["optimal_gaps"] / 0.1, atol=1e-8)
    # The Munchausen term of the best action is near 0 and of a clipped one α l0, so the clipped
    # gap is about δ + 0.9, with δ the gap of r + γPv; the free one is 10 δ.
    cut = free > 2
    assert cut.any()
    np.testing.assert_allclose(clipped[cut], study["optimal_gaps"][cut] + 0.9, atol=0.1)
