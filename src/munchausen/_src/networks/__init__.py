from munchausen._src.networks.network import TORSOS, Network, Torso, make_network

__all__ = ["TORSOS", "Network", "Torso", "make_network"]
