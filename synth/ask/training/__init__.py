"""The verbs about whole training steps: their questions, and the functions that answer them.

>>> from synth.collective.ranking.request import Watcher
>>> from synth.ask.training.orders import OrderQuestion, show_schedule
>>> asked = OrderQuestion(order="gpipe", stages=2, microbatches=4)
>>> round(show_schedule(asked, Watcher()).body["idle_share"], 6)
0.2
"""
