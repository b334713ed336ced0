"""Scores to hold a result against: random play, and what others have published.

Random scores were measured with `munchausen evaluate RUN --epsilon 1 --episodes 10000`
(seed 0). Published ones carry their source; where there is none, there is none.
"""

from typing import NamedTuple


class Published(NamedTuple):
    score: float
    what: str


RANDOM: dict[str, float] = {}

PUBLISHED: dict[tuple[str, str], Published] = {}

# Gymnasium's own `reward_threshold`: the mean return at which a task counts as solved.
SOLVED = {
    "gym/CartPole-v1": 475.0,
    "gym/Acrobot-v1": -100.0,
    "gym/MountainCar-v0": -110.0,
    "gym/LunarLander-v3": 200.0,
}


def published(env: str, agent: str) -> Published | None:
    if (env, agent) in PUBLISHED:
        return PUBLISHED[env, agent]
    if env in SOLVED:
        return Published(SOLVED[env], "Gymnasium calls it solved")
    return None
