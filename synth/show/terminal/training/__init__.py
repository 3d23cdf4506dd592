"""Answers about whole training steps, as people read them in a terminal.

>>> from synth.collective.ranking.request import Watcher
>>> from synth.show.terminal.training.orders import order
>>> from synth.ask.answers.training.orders import OrderReply
>>> from synth.ask.training.orders import OrderQuestion, ordered
>>> asked = OrderQuestion(order="gpipe", stages=2, microbatches=4)
>>> answer = OrderReply.model_validate(ordered(asked, Watcher()).body)
>>> print([*order(answer).renderables][0])
gpipe: 2 ranks, 4 microbatches
"""
