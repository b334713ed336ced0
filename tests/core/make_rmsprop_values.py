"""Writes rmsprop_values.json: what TensorFlow 1's RMSProp, which made the published DQN curves,
makes of some gradients. In the environment of benchmarks/peers/README.md for TensorFlow:

    cd tests/agent && /tmp/peer-dopamine-tf/bin/python make_rmsprop_values.py > rmsprop_values.json

Gradients lie on both sides of √ε, and are 0 at times, as those of a ReLU network are.
"""

import json
from importlib.metadata import version

import numpy as np
import tensorflow as tf

STEPS, WEIGHTS = 300, 5


def main() -> None:
    random = np.random.default_rng(0)
    gradients = random.normal(size=(STEPS, WEIGHTS)) * np.logspace(-5, -1, WEIGHTS)
    gradients = (gradients * (random.random(gradients.shape) < 0.3)).astype(np.float32)
    v1 = tf.compat.v1
    v1.disable_v2_behavior()
    weights = v1.get_variable("weights", initializer=np.zeros(WEIGHTS, np.float32))
    gradient = v1.placeholder(tf.float32, [WEIGHTS])
    optimizer = v1.train.RMSPropOptimizer(2.5e-4, 0.95, 0.0, 1e-5, centered=True)
    step = optimizer.apply_gradients([(gradient, weights)])
    rows = []
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for row in gradients:
            session.run(step, {gradient: row})
            rows.append(session.run(weights))
    values = {
        "tensorflow": version("tensorflow-cpu"),
        "gradients": [[float(f"{x:.9g}") for x in row] for row in gradients],
        "weights": {str(i + 1): [float(f"{x:.9g}") for x in rows[i]] for i in (0, 9, 99, 299)},
    }
    print(json.dumps(values))


if __name__ == "__main__":
    main()
