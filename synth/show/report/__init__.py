"""Reports, and the drawings that reports and the page of the service share.

A report is one file that has no scripts and loads no other files: it can be attached to a ticket
and opened years later. It has the same tables as the terminal, and drawings in addition. Captions
explain the drawings in words:

>>> from synth.show.report.placement import caption
>>> caption(["data", "model"], ["data"]).partition(". ")[0]
'Each device shows its number and its coordinates on (data, model)'
"""

from synth.show.report.writing import report as report

__all__ = ["report"]
