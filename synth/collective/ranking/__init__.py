"""One collective on one system: from a request to ranked, proved and explained answers.

For every placement, the search finds the best programs and prices them with overlapping segments
and with the payload split over several programs. The k best are proved, and compared with the
runtime's own price and a lower bound. The ranking is exact: whatever was skipped has a lower bound
above the last answer. ``complete`` is False in a report that was stopped early.

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
