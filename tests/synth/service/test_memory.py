"""What a server has in memory after large questions: no more than before them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from patience import until
from server_process import AT_ONCE, resident_bytes, serving, status_of

LARGE_BYTES = 15 * 2**20
MOST_MORE_BYTES = 100 * 2**20
COUNT = 8
"""So many bodies come to 120 MiB: one copy of each that stays would be seen."""
LINE = f"SwitchName=s0 Nodes=n0 #{'x' * 4000}\n"

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def test_large_questions_leave_nothing_in_memory(tmp_path: Path) -> None:
    """Each is a job that fails: an error and its frames must not keep the question."""
    text = LINE * (LARGE_BYTES // len(LINE))
    with serving(f"sqlite:///{tmp_path / 'service.db'}") as (server, client):

        def imported(name: str, text: str) -> None:
            question = {"kind": "slurm", "files": [{"name": name, "text": text}]}
            headers = {"Content-Type": "application/json", **AT_ONCE}
            answer = client.post("/v1/import", content=json.dumps(question), headers=headers)
            assert answer.status_code == 202, answer.text
            assert "s0" in status_of(client, answer.json(), "failed")["problem"]["problem"]

        imported("first", text)
        before = resident_bytes(server.pid)
        for number in range(COUNT):
            imported(f"large{number}", text)
        assert until(lambda: resident_bytes(server.pid) < before + MOST_MORE_BYTES)
