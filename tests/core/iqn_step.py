"""Weights, batches and fractions for a few gradient steps of IQN, the same wherever NumPy is."""

import numpy as np

ACTIONS, BATCH, UPDATES = 4, 4, 2
FRACTIONS, TARGET_FRACTIONS, POLICY_FRACTIONS, COSINES = 64, 64, 32, 64
LEARNING_RATE, EPS, DISCOUNT = 5e-5, 3.125e-4, 0.99**3
# Name, and shape as Dopamine keeps it: filters [height, width, in, out], dense [in, out].
SHAPES = {
    "Conv_0": (8, 8, 4, 32),
    "Conv_1": (4, 4, 32, 64),
    "Conv_2": (3, 3, 64, 64),
    "Dense_0": (COSINES, 7744),
    "Dense_1": (7744, 512),
    "Dense_2": (512, ACTIONS),
}
SAMPLES = 20  # elements of each weight that are compared one by one


def weights(seed: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """A kernel and a bias for each layer. The last is large, so that errors lie on both sides of
    the Huber loss's threshold."""
    random = np.random.RandomState(seed)
    drawn = {}
    for name, shape in SHAPES.items():
        limit = np.sqrt(np.sqrt(3) / np.prod(shape[:-1])) * (6 if name == "Dense_2" else 1)
        kernel = random.uniform(-limit, limit, shape).astype(np.float32)
        drawn[name] = kernel, random.uniform(-0.05, 0.05, shape[-1]).astype(np.float32)
    return drawn


def batch(update: int) -> dict[str, np.ndarray]:
    """Of an update: transitions, and the fractions that the networks are asked at."""
    random = np.random.RandomState(100 + update)
    image = (BATCH, 84, 84, 4)
    return {
        "states": random.randint(0, 256, image).astype(np.uint8),
        "next_states": random.randint(0, 256, image).astype(np.uint8),
        "actions": random.randint(0, ACTIONS, BATCH),
        "rewards": random.uniform(-2, 2, BATCH).astype(np.float32),
        "terminals": random.uniform(size=BATCH) < 0.4,
        "policy": random.uniform(size=(BATCH, POLICY_FRACTIONS)).astype(np.float32),
        "target": random.uniform(size=(BATCH, TARGET_FRACTIONS)).astype(np.float32),
        "online": random.uniform(size=(BATCH, FRACTIONS)).astype(np.float32),
    }


def summary(change: np.ndarray) -> dict:
    """Of what the updates changed in an array."""
    flat = change.reshape(-1).astype(np.float64)
    where = np.random.RandomState(7).randint(0, len(flat), SAMPLES)
    return {"norm": float(np.linalg.norm(flat)), "samples": flat[where].tolist()}
