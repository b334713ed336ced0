"""What depends on the kind of device, each as a decision with its reason."""

import jax


def on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def lanes_share_a_program() -> bool:
    return not on_cpu()


def targets_at_once() -> bool:
    return not on_cpu()


def updates_at_once(updates: int) -> int:
    return min(updates, 1) if on_cpu() else updates
