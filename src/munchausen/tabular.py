"""The paper's schemes and theorems on MDPs small enough to solve: see `docs/theory.md`.

What is named here is public; symbols of `munchausen._src` may change at any time.
"""

from munchausen._src.tabular import *  # noqa: F403
from munchausen._src.tabular import __all__ as __all__
