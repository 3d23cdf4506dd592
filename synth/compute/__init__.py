"""Seconds of one device's work: an estimate for an operation and a device.

An estimate always states its provenance: ``measured`` on a device of this kind, or a
``roofline`` of the rates that devices reach. It always has an interval.
Collectives are priced in ``synth.collective``, not here.

>>> from hierarchies.devices import device_named
>>> from synth.compute import MatrixProduct, product_estimate
>>> h100 = device_named("H100 SXM5 80 GB")
>>> found = product_estimate(MatrixProduct(rows=4096, depth=4096, columns=12288), h100)
>>> print(f"{1e6 * found.seconds:.0f} us, {1e6 * found.low:.0f} to {1e6 * found.high:.0f}")
618 us, 495 to 773
>>> found.how
'roofline'
"""

from synth.compute.flops import flops_of as flops_of
from synth.compute.products import MatrixProduct as MatrixProduct
from synth.compute.products import product_of as product_of
from synth.compute.roofline import Estimate as Estimate
from synth.compute.roofline import Provenance as Provenance
from synth.compute.roofline import bytes_estimate as bytes_estimate
from synth.compute.roofline import estimate_operation as estimate_operation
from synth.compute.roofline import product_estimate as product_estimate
from synth.compute.section import NOTHING as NOTHING
from synth.compute.section import Section as Section
from synth.compute.section import is_scores as is_scores
from synth.compute.section import scores_of as scores_of
from synth.compute.section import section_estimate as section_estimate
from synth.compute.section import section_parts as section_parts
from synth.compute.section import sum_estimates_of_section as sum_estimates_of_section
