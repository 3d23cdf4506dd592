"""The verbs that look at whole training steps: what they are asked, and how they answer.

>>> from synth.plan.request import Watcher
>>> from synth.verbs.training.orders import OrderQuestion, ordered
>>> ordered(OrderQuestion(order="gpipe", stages=2, microbatches=4), Watcher()).body["idle_share"]
0.2
"""
