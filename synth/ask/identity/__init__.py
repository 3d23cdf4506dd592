"""The key of a stored answer, which identifies the question and the code that answered it.

Two spellings of one question have the same key: ``1GiB`` finds the answer to 1073741824. When the
code that answers changes, all keys change, so an answer of older code is not found. Code that only
draws tables is excluded, because it changes no answer.

>>> from synth.ask.identity.canonical import key_of
>>> from synth.ask.questions.question import parse_question
>>> from synth.ask.table import VERBS
>>> given = {"system": "dgx-h100", "axes": {"data": 32}, "reduce": ["data"]}
>>> one, other, third = (
...     key_of("top", parse_question(VERBS["top"].question, {**given, "bytes": size}))
...     for size in ("1GiB", 1073741824, "1GB")
... )
>>> one == other, one == third
(True, False)
"""
