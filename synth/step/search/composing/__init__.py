"""Prices many plans of one model at once, composed of what their parts do in two layers.

``reading`` writes the inside of a stage out once for each way to cut it, and ``inside`` is what it
reads; ``staged`` is a recipe by its stages and ranks, ``sending`` seconds of gradients and
parameters, ``composer`` seconds and memory, and ``clock`` times the passes of many plans at once in
the order of their schedule:

>>> from synth.step.search.composing.clock import PassSeconds, time_plans, lay_out_stages
>>> each, links = (1.0, 1.0, 1.0), [0.0, 0.0, 0.0]
>>> plan = PassSeconds(lay_out_stages(4, 4, 1), each, each, (2.0, 2.0, 2.0), (0.0, 0.0, 0.0), links)
>>> time_plans((4, "1f1b", 8, 1), [plan])
[22.0]
"""
