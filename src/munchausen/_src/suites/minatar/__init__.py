"""MinAtar: five games of 10 × 10 in JAX, with the numbers of Obando-Ceron and Castro 2021."""

from munchausen._src.suites.suite import REVISITING_RAINBOW, Preset, Suite, later, read_scores

MINATAR = Suite(
    name="minatar",
    make=later("munchausen._src.suites.minatar.games", "MinAtar"),
    games=("asterix", "breakout", "freeway", "seaquest", "space_invaders"),
    # Obando-Ceron & Castro 2021 (Revisiting Rainbow), with the network of MinAtar's authors.
    # An agent's own n stays: `iqn` and `m-iqn` are the paper's, 3-step; theirs, 1-step, are
    # `iqn-1step` and `m-iqn-1step`. Their Huber loss on Asterix alone is not taken over.
    # `envs`: measured, see benchmarks/; updates, target copies and ε per step are the same.
    presets=(
        Preset(
            {
                **REVISITING_RAINBOW,
                "network": "minatar",
                "capacity": 100_000,
                "warmup_steps": 1_000,
                "target_period_steps": 1_000,
                "envs": 100,
            }
        ),
        # DQN is its optimiser, RMSProp: it keeps its own numbers.
        Preset({"learning_rate": 2.5e-4, "optimizer_eps": 3.125e-4}, {"optimizer": "adam"}),
        # Theirs for distributional agents.
        Preset(
            {"learning_rate": 1e-4},
            {"optimizer": "adam", "head": ("categorical", "quantile", "implicit")},
        ),
    ),
    title="MinAtar",
    references=read_scores(__name__),
    published="mean of 10 seeds, 500k",
    package="pgx_minatar",
    extra="minatar",
    frame_bytes=10 * 10 * 10,  # at most: games have 4 to 10 channels of booleans
    frame_bytes_on_disk=2 * 10 * 10 * 10 / 8,  # as bits, in both checkpoints
    core_steps_per_second=4_500.0,
)
