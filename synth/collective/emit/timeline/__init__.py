"""The activity of devices and links over time, as a trace for viewers and as a drawing.

Both show the simulated run, event by event: what a device waits for, when segments of several steps
overlap, which port is always busy and which port idles. A trace is JSON for ui.perfetto.dev; a
drawing is one SVG without scripts, for a report. The time axis has a few round numbers:

>>> from synth.collective.emit.timeline.names import ticks
>>> [f"{seconds:g}" for seconds in ticks(0.0027)]
['0', '0.001', '0.002']
"""
