"""Answers about whole training steps as tables in a terminal.

>>> from synth.collective.ranking.request import Watcher
>>> from synth.show.terminal.training.orders import render_schedule
>>> from synth.ask.training.orders import OrderReply
>>> from synth.ask.training.orders import OrderQuestion, show_schedule
>>> asked = OrderQuestion(order="gpipe", stages=2, microbatches=4)
>>> answer = OrderReply.model_validate(show_schedule(asked, Watcher()).body)
>>> print([*render_schedule(answer).renderables][0])
gpipe: 2 ranks, 4 microbatches
"""
