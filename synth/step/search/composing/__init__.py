"""Many plans of one model at once: what their parts do, read off two layers, put together.

``reading`` writes the inside of a stage out once for each way to cut it, ``inside`` is what comes
of that, ``staged`` a recipe by its stages and ranks, ``sending`` what links take for gradients and
parameters, ``composer`` seconds and memory, and ``clock`` puts the passes of many plans in the
order of their schedule at once:

>>> from synth.step.search.composing.clock import PassSeconds, time_plans, lay_out_stages
>>> each, links = (1.0, 1.0, 1.0), [0.0, 0.0, 0.0]
>>> plan = PassSeconds(lay_out_stages(4, 4, 1), each, each, (2.0, 2.0, 2.0), (0.0, 0.0, 0.0), links)
>>> time_plans((4, "1f1b", 8, 1), [plan])
[22.0]
"""
