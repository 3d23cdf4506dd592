"""The service: the verbs over HTTP, with jobs that survive, for many people and one instance.

A question that takes long becomes a job: written to the store before it is accepted, carried out in
separate processes, watched through events, and found again after a crash. Input from strangers is
read strictly, and limited before any work is done: JSON that two parsers could read differently is
refused.

>>> from synth.service.strict_json import json_of
>>> json_of(b'{"system": "dgx-h100"}')
{'system': 'dgx-h100'}
>>> json_of(b'{"k": 1, "k": 2}')
Traceback (most recent call last):
    ...
synth.service.errors.RefusalError: body: the key 'k' is given twice; give it once
"""
