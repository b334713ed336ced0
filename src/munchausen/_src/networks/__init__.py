from munchausen._src.networks.given import (
    TorsoFactory,
    torso_factory,
)
from munchausen._src.networks.layers import INITIALISERS, Convolution, Dense, InitialiserName
from munchausen._src.networks.network import Network, make_network, with_head
from munchausen._src.networks.torsos import TORSOS, ConvolutionSpec, Encoder, Torso

# fmt: off
__all__ = [
    "INITIALISERS", "TORSOS", "Convolution", "ConvolutionSpec", "Dense", "Encoder",
    "InitialiserName", "Network", "Torso", "TorsoFactory", "make_network", "torso_factory",
    "with_head",
]
# fmt: on
