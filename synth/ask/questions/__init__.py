"""What may be asked: the models of questions, and the flags, forms and bounds that come of them.

A question is a pydantic model. A field says once how it is typed on a command line, what bounds it
in the service and what its flag is called; ``--bytes 1KiB`` and JSON's ``1024`` are one value.

>>> from synth.ask.questions.notations import size_in_bytes
>>> size_in_bytes("1KiB"), size_in_bytes(1024)
(1024, 1024)
"""
