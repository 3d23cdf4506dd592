"""Searches the fastest plans of whole steps for a model, a batch and a machine.

Each way to shard the inside of a stage is written out once, for two layers. Plans with any number
of layers are composed from these parts, thousands per second (``composing``), and searched in order
of price (``searching``). The best plans are simulated in full (``finalists``), with gradient
``buckets`` where these save time, or with rows chosen for each operation (``operations``).
``planning`` runs all of this, and ``explaining`` holds the result.

>>> from grammar import Goal
>>> from hierarchies import load
>>> from synth.step.search.links import BoundLinks, PricedLinks
>>> from synth.step.search.pins import Pins
>>> from synth.step.sharding import parse_recipe
>>> text = "data=8 tensor=8; batch over data; weights over tensor as Megatron; zero=1"
>>> Pins.parse("tensor=8 zero=1").allow(parse_recipe(text))
True
>>> system, inside, across = load("dgx-h100:8"), (1, 8), (8, 1)
>>> links, least = PricedLinks(system), BoundLinks(system)
>>> seconds = [model.seconds(Goal.ALL_REDUCE, row, 2**26) for model in (links, least)
...            for row in (inside, across)]
>>> seconds[0] < seconds[1], seconds[2] <= seconds[0], seconds[3] <= seconds[1]
(True, True, True)
"""
