"""Scores made comparable between games. Munchausen RL, Sec. 4 and appendix B."""

import numpy as np
from jaxtyping import Float


def normalised(
    scores: Float[np.ndarray, "*batch games"],
    random: Float[np.ndarray, "games"],
    baseline: Float[np.ndarray, "games"],
) -> Float[np.ndarray, "*batch games"]:
    """0 is random play, 1 the baseline: (a − r)/|b − r|."""
    return (scores - random) / np.abs(baseline - random)


def improvement(
    scores: Float[np.ndarray, "*batch games"],
    random: Float[np.ndarray, "games"],
    baseline: Float[np.ndarray, "games"],
) -> Float[np.ndarray, "*batch games"]:
    """0 is the baseline: (a − b)/|b − r|."""
    return (scores - baseline) / np.abs(baseline - random)
