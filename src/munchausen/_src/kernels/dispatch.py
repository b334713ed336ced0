"""What is done differently on a CPU and on an accelerator. Each decision is a function with its
reason, and no other file asks JAX which machine this is."""

import jax


def backend() -> str:
    """JAX's name for the kind of device that programs run on: "cpu", "gpu", "tpu"."""
    return jax.default_backend()


def on_accelerator() -> bool:
    return backend() != "cpu"


# How a training is cut into programs.


def lanes_share_a_program() -> bool:
    """Whether runs side by side are a batch axis of one program. On a CPU they take turns: the
    cores are busy with one, and a batch axis turns every matrix product into a slower one."""
    return on_accelerator()


def targets_at_once() -> bool:
    """Whether the targets of several updates are computed in one pass of the frozen network. On a
    CPU they would not stay in its cache, which makes an update 1.5 times slower."""
    return on_accelerator()


def updates_at_once(updates: int) -> int:
    """How many of the updates that are due share a call of a program. On a CPU one, because a
    convolution within a loop takes six to ten times as long as outside of it."""
    return updates if on_accelerator() else min(updates, 1)


def updates_unrolled(updates: int) -> int:
    """How many turns of a loop of updates are written out: an accelerator then launches fewer of
    the tiny kernels that run the loop itself."""
    return max(n for n in (1, 2, 4, 5) if updates % n == 0) if on_accelerator() else 1


# How a network is computed.


def uses_xlas_convolution(inputs_to_an_output: int) -> bool:
    """Whether a convolution is XLA's own, with its gradients. On an accelerator those are slow at
    these sizes. On a CPU they are fast where an output has many inputs (Atari has at least 256),
    and the one of the weights is slow where it has few (MinAtar has at most 90)."""
    return has_many(inputs_to_an_output) and not on_accelerator()


def has_many(inputs_to_an_output: int) -> bool:
    return inputs_to_an_output >= 200


def joins_columns_before_rows() -> bool:
    """Whether shifted images are laid beside each other in two steps: a CPU copies longer
    stretches then and takes 2/3 of the time."""
    return not on_accelerator()


def maps_states() -> bool:
    """Whether a network's last layers are computed state by state, for `sums_few_outputs`. A CPU
    has all states in one product."""
    return on_accelerator()


def sums_few_outputs(outputs: int) -> bool:
    """Whether a state's product with the weights of so few outputs (Atari has at most 18 actions)
    is a sum: as a product it is a kernel that takes longer to start than to run."""
    return on_accelerator() and outputs <= 20


def puts_weights_first(rows: int, weights: int) -> bool:
    """Whether x W' is computed as (W x')'. For the first a CPU's library copies W to have it by
    columns, which shows where W is large (16 MB in Atari's hidden layer) and x has few rows."""
    return not on_accelerator() and rows <= 256 and weights >= 1_000_000


def sums_in_two_steps() -> bool:
    """Whether the gradient of a bias is summed over one axis after the other: in one step XLA gives
    a long and narrow sum to few threads of an accelerator."""
    return on_accelerator()


def multiplies_gates_as_rows() -> bool:
    """Whether features are repeated for each fraction before they are multiplied by its gates. Of a
    product over [states, fractions, features] XLA turns the axes and back on a GPU, 60 MB each on
    Atari."""
    return on_accelerator()
