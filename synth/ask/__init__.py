"""The verbs by family: a pydantic model for each question, and the function that answers it.

A verb is a row of ``VERBS``: the model of its question, and a function that returns its answer as
JSON. Command line and service use the same table, so both report the same errors in the same words.
A question is self-contained: it contains the texts of files, and no verb reads a disk.

>>> from synth.collective.ranking.request import Watcher
>>> from synth.ask.questions.question import parse_question
>>> from synth.ask.table import VERBS
>>> verb = VERBS["count"]
>>> reply = verb.answer(parse_question(verb.question, {"digits": 2, "max_steps": 3}), Watcher())
>>> reply.outcome.name, reply.body["by_length"]
('OK', [1, 4, 24])
"""
