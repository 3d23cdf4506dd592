"""Which operations are one kernel, and which gradients are summed as one, searched together.

``jointly`` walks among plans by backtracking: what is fused longer is sent later, so that neither
is best by itself (after DisCo, arXiv 2209.12769). ``least`` is what nothing it may meet goes below.
Of all sums together no bucket is below the fewest seconds an element, which of a latency and a rate
is that of the largest:

>>> from synth.train.fusion.bounds import NEAR, cheapest
>>> 1.05 / NEAR <= cheapest(lambda size: 5.0 + size, 1, 100) <= 1.05
True
"""

from synth.train.fusion.bounds import growing, least
from synth.train.fusion.space import Fusions, alone, jointly, sectioned

__all__ = ["Fusions", "alone", "growing", "jointly", "least", "sectioned"]
