"""Views of answers: tables of the terminal, and reports with drawings.

Both are generated only from the JSON of an answer, so that people and programs read the same.

>>> from synth.show.terminal.table import TABLES
>>> sorted(TABLES)[:3]
['buckets', 'calibrate', 'check']
"""
