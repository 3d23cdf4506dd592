"""What of each team is under way in this server: requests that are answered, and their bodies.

A request may wait for its job, or follow one for hours, and a body stays in memory until its
question is answered. Without bounds a team could use up the connections and the memory of all.

>>> from synth.service.limits import Limits
>>> presence = Presence(Limits(requests_at_once_per_team=1))
>>> visit = presence.enter("red")
>>> presence.enter("red")
Traceback (most recent call last):
    ...
synth.service.errors.RefusalError: 1 requests of your team are being answered; let some end
>>> visit.leave()
>>> presence.enter("red").leave()
"""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from synth.service.errors import too_many
from synth.service.limits import Limits


@dataclass
class _TeamLoad:
    """How many requests of a team are under way, and what their bodies come to."""

    requests: int = 0
    body_bytes: int = 0


@dataclass
class Visit:
    """One request of a team, from when its caller is known until it is answered."""

    limits: Limits
    team: _TeamLoad
    body_bytes: int = 0
    gone: bool = False

    def hold(self, more_bytes: int) -> None:
        """Count bytes of its body. Raises RefusalError where all of the team's are too many."""
        most = self.limits.body_bytes_at_once_per_team
        if self.team.body_bytes + more_bytes > most:
            problem = f"what your team sends at this moment comes to more than {most} bytes"
            raise too_many(problem, 1, "send one body after the other")
        self.team.body_bytes += more_bytes
        self.body_bytes += more_bytes

    def leave(self) -> None:
        """End it: what it held is free again."""
        if not self.gone:
            self.gone = True
            self.team.requests -= 1
            self.team.body_bytes -= self.body_bytes


@dataclass
class Presence:
    """The teams that are here. On the event loop only."""

    limits: Limits
    _teams: WeakValueDictionary[str, _TeamLoad] = field(default_factory=WeakValueDictionary)
    """Each as long as there is a visit."""

    def enter(self, team: str) -> Visit:
        """Begin a request of a team. Raises RefusalError where it has too many under way."""
        found = self._teams.get(team) or _TeamLoad()
        self._teams[team] = found
        most = self.limits.requests_at_once_per_team
        if found.requests >= most:
            raise too_many(f"{most} requests of your team are being answered", 1, "let some end")
        found.requests += 1
        return Visit(self.limits, found)
