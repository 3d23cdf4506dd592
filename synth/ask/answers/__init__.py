"""What every verb answers, as pydantic models: made from what was found, written, read back.

``docs/json.md`` says in words what the keys mean, ``docs/replies.schema.json`` is their schema. One
model spells an answer, writes it and reads it back, so that no two places can disagree on a key.
Units are in the keys' names: ``seconds``, ``bytes``, ``bandwidth_GB_per_s``.

>>> from synth.ask.table import judge
>>> found = judge("count").validate_json(
...     '{"schema_version": 1, "request": "all-reduce", "digits": 1, "by_length": [0, 2],'
...     ' "instructions": 5, "complete": true}'
... )
>>> found.request, found.by_length
(<Goal.ALL_REDUCE: 'all-reduce'>, [0, 2])
"""
