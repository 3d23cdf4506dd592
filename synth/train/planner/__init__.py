"""Plans of whole steps: a model, a batch and a machine come in, the fastest plans go out.

Each way to cut the inside of a stage is written out once, for two layers (``inside``); plans of any
length are composed of that, thousands a second (``composing``), and searched as if all were priced
(``searching``). The best are simulated in full (``finalists``). ``planning`` puts it together.
"""
