"""Scores to hold a result against: random play, and what others have published.

Random scores are means of 1,000 whole episodes, by `munchausen evaluate RUN --epsilon 1
--episodes 1000` (seed 0, 2026-11-15). Published ones carry their source; where there is none,
there is none.
"""

from typing import NamedTuple


class Published(NamedTuple):
    score: float
    what: str


RANDOM: dict[str, float] = {
    "minatar/asterix": 0.50,
    "minatar/breakout": 0.39,
    "minatar/freeway": 0.39,
    "minatar/seaquest": 0.11,
    "minatar/space_invaders": 3.95,
    "gym/CartPole-v1": 22.3,
    "gym/Acrobot-v1": -498.9,
    "gym/MountainCar-v0": -200.0,
    "gym/LunarLander-v3": -182.1,
}

# A public report of one seed at 1M steps, the average of its evaluations.
PUBLISHED: dict[tuple[str, str], Published] = {
    ("minatar/breakout", "dqn"): Published(14.0, "published, at 1M"),
    ("minatar/breakout", "m-dqn"): Published(20.5, "published, at 1M"),
}

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
        return Published(SOLVED[env], "counts as solved")
    return None
