"""One collective on one system: from a request to ranked, proved and explained answers.

The whole path: every placement, the best programs on each, their prices with segments that overlap
and with the payload split over several programs, and of the k best the proof, the runtime's own
price and the bound. The ranking is exact: what was not looked at has a lower bound above the last
answer shown. With a report that was stopped early, ``complete`` says so.

>>> from hierarchies import Axis, load
>>> from synth.collective.ranking.planner import answers
>>> from synth.collective.ranking.request import Request
>>> from synth.collective.semantics.programs import Language
>>> request = Request((Axis("data", 16),), ("data",), k=1, language=Language(1), segments=(1,))
>>> report = answers(load("dgx-h100:2"), request)
>>> [answer] = report.answers
>>> print(answer.candidate.program, answer.verdict, report.complete)
all-reduce root inside Proved(sizes=None) True
>>> answer.bound.seconds <= answer.candidate.seconds <= answer.baseline_seconds
True
"""
