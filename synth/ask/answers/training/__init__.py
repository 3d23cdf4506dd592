"""What the verbs answer that look at whole training steps.

>>> from synth.step.schedules import Durations, Transfers, gpipe, time_schedule
>>> from synth.ask.answers.training.orders import OrderReply
>>> order, durations = gpipe(ranks=2, microbatches=1), Durations(1, 2)
>>> found = time_schedule(order, durations.on(order))
>>> OrderReply.of("gpipe", order, found, durations, Transfers()).idle_share
0.5
"""
