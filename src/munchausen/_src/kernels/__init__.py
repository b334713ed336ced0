from munchausen._src.kernels.compiling import compiled

__all__ = ["compiled"]
