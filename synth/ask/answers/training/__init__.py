"""The answers of the verbs ``plan`` and ``simulate`` for whole training steps.

>>> from synth.ask.answers.training.planned import thin_front
>>> thin_front([1.0, 2.0])
[1.0, 2.0]
"""
