"""The answers of all verbs as pydantic models: built from results, written, and read back.

``docs/json.md`` explains the keys, ``docs/replies.schema.json`` is their schema. The same model
builds an answer, writes it and reads it back, so that no two places can disagree about a key.
Units are in the keys' names: ``seconds``, ``bytes``, ``bandwidth_GB_per_s``.

>>> from synth.ask.table import judge
>>> found = judge("count").validate_json(
...     '{"schema_version": 1, "request": "all-reduce", "digits": 1, "by_length": [0, 2],'
...     ' "instructions": 5, "complete": true}'
... )
>>> found.request, found.by_length
(<Goal.ALL_REDUCE: 'all-reduce'>, [0, 2])
"""
