"""The models of questions, and the flags, forms and limits derived from them.

A question is a pydantic model. A field defines its notation on the command line, its limit in the
service and its flag in one place; ``--bytes 1KiB`` and JSON's ``1024`` are the same value.

>>> from synth.ask.questions.notations import size_in_bytes
>>> size_in_bytes("1KiB"), size_in_bytes(1024)
(1024, 1024)
"""
