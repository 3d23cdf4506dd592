"""Which question it was, and which code answered it: the key that an answer is kept under.

Two spellings of one question have the same key, so that ``1GiB`` finds the answer to 1073741824;
another version of the code that answers has other keys, so that nobody gets an answer that today's
code would not give. How a table is drawn is no part of it: that changes no answer.

>>> from synth.verbs.identity.canonical import key_of
>>> from synth.verbs.questions.question import asked
>>> from synth.verbs.table import VERBS
>>> given = {"system": "dgx-h100", "axes": {"data": 32}, "reduce": ["data"]}
>>> one, other, third = (
...     key_of("top", asked(VERBS["top"].question, {**given, "bytes": size}))
...     for size in ("1GiB", 1073741824, "1GB")
... )
>>> one == other, one == third
(True, False)
"""
