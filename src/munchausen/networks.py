"""Networks to build with: a torso of your own, or a whole network for `munchausen.core.Learner`.

    class Torso(eqx.Module):
        convolution: eqx.nn.Conv2d

        def __init__(self, observation_shape, *, key):
            self.convolution = eqx.nn.Conv2d(observation_shape[-1], 16, 3, key=key)

        def __call__(self, observation):  # float32, scaled; channels are last
            return jax.nn.relu(self.convolution(observation.transpose(2, 0, 1)))

    network = make_network(Torso, (10, 10, 4), outputs=6, key=key)

What is named here is public; everything else is private and may change.
"""

from munchausen._src.networks import (
    TORSOS,
    Convolution,
    ConvolutionSpec,
    Dense,
    Encoder,
    Network,
    Torso,
    make_network,
    torso_factory,
    with_head,
)

# fmt: off
__all__ = [
    "TORSOS", "Convolution", "ConvolutionSpec", "Dense", "Encoder", "Network", "Torso",
    "make_network", "torso_factory", "with_head",
]
# fmt: on
