from munchausen._src.core.heads.base import Estimate, Head, Loss
from munchausen._src.core.heads.categorical import Categorical
from munchausen._src.core.heads.expected import Expected
from munchausen._src.core.heads.implicit import ImplicitQuantile
from munchausen._src.core.heads.quantile import Quantile

__all__ = ["Categorical", "Estimate", "Expected", "Head", "ImplicitQuantile", "Loss", "Quantile"]
