"""A curl command for every operation of the API, shown in /openapi.json.

>>> print(Curl("http://localhost:8000", keys=False).command("count", "post", "/v1/count"))
curl -s http://localhost:8000/v1/count -H 'Content-Type: application/json' \\
  -d '{"digits": 2}'
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any

from synth.service.http.examples import EXAMPLES
from synth.service.jobs.names import defaults_of

_WIDE = 100
_MOST_CHARACTERS = 4096
_OURS = """\
name = "ours"

[device]
name = "H100"
memory_GB_per_s = 3350
source = "data sheet"

[[level]]
name = "node"
count = 2
domain = "switch"
medium = "infiniband"
bandwidth_GB_per_s = 50
latency_us = 14
ports = 8
through = []
source = "our network plan"

[[level]]
name = "gpu"
count = 8
domain = "switch"
medium = "nvlink"
bandwidth_GB_per_s = 450
latency_us = 3.4
source = "data sheet"
"""
_JOB = "JOB=$({} | grep -oE '/v1/jobs/[0-9a-f]{{32}}')\n"
_ANSWER = "ANSWER=$({} | grep -oiE '/v1/answers/[0-9a-f]{{64}}')\n"


def _own_path(path: str) -> str:
    """Return the path of an example, with names of a team's own."""
    names = {"{name}": "ours", "{machine}": "dgx-a100", "{test}": "all-reduce-2x8"}
    for place, name in names.items():
        path = path.replace(place, name)
    return path


@dataclass(frozen=True)
class Curl:
    """Writes curl commands for a server.

    ``address`` is the server's URL as a shell word. With ``keys``, commands send the caller's key.
    """

    address: str
    keys: bool

    def command(self, operation: str, method: str, path: str) -> str:
        """Return an example command of an operation; for a verb, with its example question."""
        if operation in EXAMPLES:
            return self._asking(operation, EXAMPLES[operation])
        match operation:
            case "look-at-job" | "cancel-job" | "follow-job":
                begun = self._asking("run", EXAMPLES["run"], "-H 'Prefer: respond-async'")
                how = "-sN" if operation == "follow-job" else "-s"
                own = path.replace("/v1/jobs/{job_id}", "$JOB")
                return _JOB.format(begun) + self._plain(method, own, how)
            case "look-at-answer":
                asking = self._asking("systems", EXAMPLES["systems"], "-o /dev/null -D -")
                return _ANSWER.format(asking) + self._plain(method, "$ANSWER")
            case "keep-system":
                body = f" -H 'Content-Type: text/plain' \\\n  --data-binary {quote(_OURS)}"
                return self._plain(method, "/v1/systems/ours") + body
            case "keep-baseline":
                body = " -H 'Content-Type: text/plain' --data-binary @all_reduce.txt"
                return self._plain(method, _own_path(path)) + body
            case "list-jobs":
                return self._plain(method, f"{path}?limit=20&status=done")
        return self._plain(method, _own_path(path))

    def again(self, verb: str, question: Mapping[str, Any]) -> str:
        """Return the command of a question, which omits default values.

        Returns "" if the command would be too long, as with the text of a file.
        """
        usual = defaults_of(verb)
        own = {
            key: value for key, value in question.items() if key not in usual or usual[key] != value
        }
        command = self._asking(verb, own)
        return command if len(command) <= _MOST_CHARACTERS else ""

    def _asking(self, verb: str, question: Mapping[str, Any], options: str = "") -> str:
        body = json.dumps(question)
        if len(body) > _WIDE:
            lines = (f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in question.items())
            body = "{\n" + ",\n".join(lines) + "\n}"
        head = (
            f"curl -s {self._url(f'/v1/{verb}')}{self._key()} -H 'Content-Type: application/json'"
        )
        return f"{head}{options and ' ' + options} \\\n  -d {quote(body)}"

    def _plain(self, method: str, path: str, how: str = "-s") -> str:
        does = "" if method == "get" else f" -X {method.upper()}"
        return f"curl {how}{does} {self._url(path)}{self._key()}"

    def _url(self, path: str) -> str:
        """Return a URL as a shell word; a path that begins with a shell variable is not quoted."""
        return f"{self.address}{path if path.startswith('$') else quote(path)}"

    def _key(self) -> str:
        return ' -H "Authorization: Bearer $COLLSYNTH_KEY"' if self.keys else ""
