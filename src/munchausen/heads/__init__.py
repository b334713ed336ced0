from munchausen.heads.base import Estimate, Head, Loss
from munchausen.heads.categorical import Categorical
from munchausen.heads.expected import Expected
from munchausen.heads.implicit import ImplicitQuantile
from munchausen.heads.quantile import Quantile

__all__ = ["Categorical", "Estimate", "Expected", "Head", "ImplicitQuantile", "Loss", "Quantile"]
