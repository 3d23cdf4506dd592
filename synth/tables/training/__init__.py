"""Answers about whole training steps, as people read them in a terminal.

>>> from synth.plan.request import Watcher
>>> from synth.tables.training.orders import order
>>> from synth.verbs.answers.training.orders import OrderReply
>>> from synth.verbs.training.orders import OrderQuestion, ordered
>>> asked = OrderQuestion(order="gpipe", stages=2, microbatches=4)
>>> answer = OrderReply.model_validate(ordered(asked, Watcher()).body)
>>> print([*order(answer).renderables][0])
gpipe: 2 ranks, 4 microbatches
"""
