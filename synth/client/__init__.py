"""A Python client of the service; it needs httpx (the extra ``client``).

It needs none of the server's packages::

    from synth.client import Client

    with Client("http://127.0.0.1:8000") as client:
        answer = client.ask("top", system="dgx-h100:4", axes={"data": 32}, reduce=["data"])
        print(answer["answers"][0]["program"])

Files are sent as texts, as the service does not read the client's disk. An invalid question raises
the same ``InputError`` as it would locally; any other failure is a ``ServiceError`` with the status
and a hint.

>>> from synth.client import ServiceError
>>> error = ServiceError("too many questions", status=429, body={"hint": "ask again in 2 s"})
>>> print(error, error.status, error.hint)
too many questions 429 ask again in 2 s
"""

try:
    from hierarchies.files.named_texts import named_text
    from synth.client.client import Client, Job, StillRunningError
    from synth.client.replies import Event, ServiceError
except ModuleNotFoundError as error:
    if error.name != "httpx":
        raise
    problem = "synth.client needs httpx: pip install 'collsynth[client]'"
    raise ModuleNotFoundError(problem, name="httpx") from None

__all__ = ["Client", "Event", "Job", "ServiceError", "StillRunningError", "named_text"]
