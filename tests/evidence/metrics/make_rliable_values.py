"""What rliable says of a small fixed set of scores, stored for `test_rliable.py`.

rliable 1.2.0 does not import beside pandas 3, so it has an environment of its own:

    uv venv ../rliable && uv pip install --python ../rliable/bin/python rliable 'pandas<2.3'
    ../rliable/bin/python tests/metrics/make_rliable_values.py > tests/metrics/rliable_values.json
"""

import json
from importlib.metadata import version

import numpy as np
from rliable import library, metrics

REPS = 50_000
generator = np.random.default_rng(20)
# Five runs on eleven games, from far below 1 to far above; 55 runs are not a multiple of 4.
level = np.geomspace(0.1, 8.0, 11)
scores = {
    "a": np.round(level * generator.lognormal(0.0, 0.3, (5, 11)), 4),
    "b": np.round(level * generator.lognormal(0.1, 0.5, (5, 11)), 4),
}
scores["b"][0, 0] = scores["a"][0, 0]  # a tie, which counts half

statistics = {
    "mean": metrics.aggregate_mean,
    "median": metrics.aggregate_median,
    "iqm": metrics.aggregate_iqm,
    "optimality_gap": metrics.aggregate_optimality_gap,
}
values, intervals = {}, {}
for name, function in statistics.items():
    points, limits = library.get_interval_estimates(
        scores,
        lambda x, function=function: np.array([function(x)]),
        reps=REPS,
        random_state=np.random.RandomState(1),
    )
    values[name] = {agent: float(point[0]) for agent, point in points.items()}
    intervals[name] = {agent: limit[:, 0].tolist() for agent, limit in limits.items()}
points, limits = library.get_interval_estimates(
    {"b,a": (scores["b"], scores["a"])},
    metrics.probability_of_improvement,
    reps=REPS,
    random_state=np.random.RandomState(1),
)
levels = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
profiles, _ = library.create_performance_profile(scores, np.array(levels), reps=10)
print(
    json.dumps(
        {
            "made_with": {name: version(name) for name in ("rliable", "arch", "numpy", "scipy")},
            "resamples": REPS,
            "scores": {agent: x.tolist() for agent, x in scores.items()},
            "values": values,
            "intervals": intervals,
            "improvement": {
                "value": float(points["b,a"]),
                "interval": np.ravel(limits["b,a"]).tolist(),
            },
            "levels": levels,
            "profiles": {agent: x.tolist() for agent, x in profiles.items()},
        }
    )
)
