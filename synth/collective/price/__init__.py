"""The predicted seconds of a schedule on a system, with reasons, intervals and lower bounds.

The price of a step is a line: seconds that wait for messages plus seconds per byte on the busiest
link. A price keeps its reasons: which level limits it and how busy the others are. The runtime's
default is priced by the same lines, and a lower bound that no schedule can beat follows from
counting what must cross each cut. For 1 GiB on two nodes:

>>> from hierarchies import Axis, Reduction, load, placements
>>> from hierarchies.units import format_duration
>>> from synth.collective.price.bound import bound
>>> from synth.collective.price.defaults import defaults
>>> from synth.collective.price.step_prices import Simulator
>>> system = load("dgx-h100:2")
>>> [placement] = placements(system.hierarchy, [Axis("data", 16)])
>>> reduction = Reduction(placement, ("data",))
>>> found = defaults(Simulator(system), reduction, payload_bytes=2**30)
>>> {name: format_duration(seconds) for name, seconds in found.seconds.items()}
{'ring': '5.19 ms', 'tree': '4.86 ms', 'nvls_tree': '2.73 ms'}
>>> least = bound(system, reduction, payload_bytes=2**30)
>>> format_duration(least.seconds), least.level
('2.68 ms', 'node')
"""
