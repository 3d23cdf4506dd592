"""Reports, and the drawings that reports and the page of the service share.

A report is one file without scripts, which loads nothing: it can be attached to a ticket and opened
years later. It says what the terminal says, from the same tables, and adds drawings. What stands
for what in them is said in words, too:

>>> from synth.show.report.placement import caption
>>> caption(["data", "model"], ["data"]).partition(". ")[0]
'Each device shows its number and its coordinates on (data, model)'
"""

from synth.show.report.writing import report as report

__all__ = ["report"]
