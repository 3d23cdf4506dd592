"""Seconds of the work of one device: an operation and a device come in, an estimate comes out.

Always told how it is known: ``measured`` on such a device, ``fitted`` to measurements on it, or by
a ``roofline`` of the rates that devices reach; always with an interval. Collectives are not priced
here but by the planner.

>>> from hierarchies.devices import device_named
>>> from synth.compute import Product, product_estimate
>>> h100 = device_named("H100 SXM5 80 GB")
>>> found = product_estimate(Product(rows=4096, depth=4096, columns=12288), h100)
>>> print(f"{1e6 * found.seconds:.0f} us, {1e6 * found.low:.0f} to {1e6 * found.high:.0f}")
618 us, 495 to 773
>>> found.how
'roofline'
"""

from synth.compute.flops import flops_of as flops_of
from synth.compute.products import Product as Product
from synth.compute.products import product_of as product_of
from synth.compute.roofline import TYPICAL as TYPICAL
from synth.compute.roofline import Estimate as Estimate
from synth.compute.roofline import How as How
from synth.compute.roofline import Rates as Rates
from synth.compute.roofline import bytes_estimate as bytes_estimate
from synth.compute.roofline import estimated as estimated
from synth.compute.roofline import fitted as fitted
from synth.compute.roofline import product_estimate as product_estimate
from synth.compute.section import NOTHING as NOTHING
from synth.compute.section import Section as Section
from synth.compute.section import is_scores as is_scores
from synth.compute.section import scores_of as scores_of
from synth.compute.section import section_estimate as section_estimate
from synth.compute.section import section_parts as section_parts
from synth.compute.section import together as together
