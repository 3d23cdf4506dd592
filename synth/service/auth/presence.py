"""Limits on the concurrent requests of each team in this server, and on the bytes of their bodies.

A request may wait for its job, or follow it, for hours. Its body stays in memory until the question
is answered. Without limits, one team could exhaust the connections and memory of all teams.

>>> from synth.service.limits import Limits
>>> presence = Presence(Limits(requests_at_once_per_team=1))
>>> visit = presence.enter("red")
>>> presence.enter("red")
Traceback (most recent call last):
    ...
synth.service.errors.RefusalError: your team has 1 requests at once already; wait until some end
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
    """A team's number of current requests, and the bytes of their bodies."""

    requests: int = 0
    body_bytes: int = 0


@dataclass
class Visit:
    """One request of a team, from its authentication until it is answered."""

    limits: Limits
    team: _TeamLoad
    body_bytes: int = 0
    gone: bool = False

    def hold(self, more_bytes: int) -> None:
        """Count bytes of the body. Raises RefusalError if the team exceeds its limit."""
        most_bytes = self.limits.body_bytes_at_once_per_team
        if self.team.body_bytes + more_bytes > most_bytes:
            problem = f"the bodies that your team is sending take more than {most_bytes} bytes"
            raise too_many(problem, 1, "send one body at a time")
        self.team.body_bytes += more_bytes
        self.body_bytes += more_bytes

    def leave(self) -> None:
        """Release the request and its bytes."""
        if not self.gone:
            self.gone = True
            self.team.requests -= 1
            self.team.body_bytes -= self.body_bytes


@dataclass
class Presence:
    """The teams with current requests. Not thread-safe: use it on the event loop only."""

    limits: Limits
    _teams: WeakValueDictionary[str, _TeamLoad] = field(default_factory=WeakValueDictionary)
    """Entries live as long as a visit refers to them."""

    def enter(self, team: str) -> Visit:
        """Begin a request of a team. Raises RefusalError if it has too many."""
        load = self._teams.get(team) or _TeamLoad()
        self._teams[team] = load
        most = self.limits.requests_at_once_per_team
        if load.requests >= most:
            raise too_many(
                f"your team has {most} requests at once already", 1, "wait until some end"
            )
        load.requests += 1
        return Visit(self.limits, load)
