"""Views of answers: tables of the terminal, and reports with drawings.

Both are made from the JSON of an answer and from nothing else, so what people read and what
programs read cannot differ.

>>> from synth.show.terminal.table import TABLES
>>> sorted(TABLES)[:3]
['buckets', 'calibrate', 'check']
"""
