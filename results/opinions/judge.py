"""SimGrid as a judge of messages on links: one problem a line in, one verdict a line out.

Run by an interpreter that has simgrid (Debian: ``apt-get install python3-simgrid``); uses that and
the standard library, and nothing of ours. SimGrid is set to be a fluid model and no more: every
message gets its max-min fair share of the links of its route, nothing is lost to headers, windows
or traffic the other way.

A problem is a JSON object:

* ``links``: bytes per second of each;
* ``routes``: ``[from, to, [links]]``, ends being numbers of devices; two may join the same ends;
* ``messages``: ``[route, bytes, seconds, after, behind, mark]``. A message is put on its way when
  all ``after`` have arrived and ``behind`` (-1: none) has left its sender; it arrives so many
  ``seconds`` after it has left. Route -1 needs no link.

The verdict: ``seconds`` when the last one arrives, ``marks`` the same for each mark, ``arrivals``
for each message if the problem has ``"arrivals": true``.
"""

import json
import os
import sys
from heapq import heappop, heappush
from typing import Any

import simgrid

UNITS_PER_SECOND = 10**6
PARTS_PER_BYTE = 2**10
"""SimGrid counts whole bytes, and takes moments closer than a nanosecond for one: its second is
our microsecond, its byte a part of ours."""
NEVER = -1.0
SETTINGS = (
    "network/model:CM02",
    "network/crosstraffic:0",
    "network/latency-factor:1",
    "network/bandwidth-factor:1",
    "network/weight-S:0",
    "network/TCP-gamma:0",
    "network/loopback-lat:0",
)


class Judge:
    """Follows the messages of one problem; one actor starts and ends them all."""

    def __init__(self, problem: dict[str, Any]) -> None:
        self.messages: list[Any] = problem["messages"]
        count = len(self.messages)
        self.waiting = [len(m[3]) + (m[4] >= 0) for m in self.messages]
        self.freed_by_arrival: list[list[int]] = [[] for _ in range(count)]
        self.freed_by_leaving: list[list[int]] = [[] for _ in range(count)]
        for number, message in enumerate(self.messages):
            for other in message[3]:
                self.freed_by_arrival[other].append(number)
            if message[4] >= 0:
                self.freed_by_leaving[message[4]].append(number)
        self.arrivals = [NEVER] * count
        self.on_the_wire: list[Any] = []
        self.numbers: list[int] = []
        self.in_flight: list[tuple[float, int]] = []
        self.ends = self.platform(problem)

    def platform(self, problem: dict[str, Any]) -> list[list[Any]]:
        """The two hosts of each route; devices have as many hosts as routes between two of them."""
        zone = simgrid.NetZone.create_full_zone("network")
        links = []
        for number, bytes_per_second in enumerate(problem["links"]):
            bandwidth = bytes_per_second * PARTS_PER_BYTE / UNITS_PER_SECOND
            links.append(zone.create_link(f"link{number}", bandwidth).set_latency(0.0).seal())
        hosts: dict[Any, Any] = {}
        ends: list[list[Any]] = []
        seen: dict[Any, int] = {}
        for here, there, crossed in problem["routes"]:
            way = seen[here, there] = seen.get((here, there), -1) + 1
            pair = []
            for place in ((here, way, "out"), (there, way, "in")):
                if place not in hosts:
                    hosts[place] = zone.create_host("-".join(map(str, place)), 1.0).seal()
                pair.append(hosts[place])
            used = [simgrid.LinkInRoute(links[link]) for link in crossed]
            zone.add_route(pair[0].netpoint, pair[1].netpoint, None, None, used, False)
            ends.append(pair)
        self.first = zone.create_host("judge", 1.0).seal()
        zone.seal()
        return ends

    def run(self) -> None:
        """The actor."""
        clock = simgrid.Engine.instance
        self.begin([n for n, waiting in enumerate(self.waiting) if not waiting])
        while self.on_the_wire or self.in_flight:
            if not self.on_the_wire:
                simgrid.this_actor.sleep_until(self.in_flight[0][0])
                done = -1
            elif self.in_flight:
                left = max(0.0, self.in_flight[0][0] - clock.clock)
                done = simgrid.Comm.wait_any_for(self.on_the_wire, left) if left else -1
            else:
                done = simgrid.Comm.wait_any(self.on_the_wire)
            if done >= 0:
                number = self.numbers[done]
                self.on_the_wire[done] = self.on_the_wire[-1]
                self.numbers[done] = self.numbers[-1]
                self.on_the_wire.pop()
                self.numbers.pop()
                self.left(number)
            while self.in_flight and self.in_flight[0][0] <= clock.clock:
                self.arrived(heappop(self.in_flight)[1])

    def begin(self, ready: list[int]) -> None:
        """Put messages on their way."""
        for number in ready:
            route, size, *_ = self.messages[number]
            parts = round(size * PARTS_PER_BYTE)
            if route < 0 or not parts:
                self.left(number)
                continue
            here, there = self.ends[route]
            comm = simgrid.Comm.sendto_async(here, there, parts)
            self.on_the_wire.append(comm)
            self.numbers.append(number)

    def left(self, number: int) -> None:
        seconds = self.messages[number][2]
        now = simgrid.Engine.instance.clock
        if seconds:
            heappush(self.in_flight, (now + seconds * UNITS_PER_SECOND, number))
        else:
            self.arrived(number)
        self.free(self.freed_by_leaving[number])

    def arrived(self, number: int) -> None:
        self.arrivals[number] = simgrid.Engine.instance.clock / UNITS_PER_SECOND
        self.free(self.freed_by_arrival[number])

    def free(self, numbers: list[int]) -> None:
        ready = []
        for number in numbers:
            self.waiting[number] -= 1
            if not self.waiting[number]:
                ready.append(number)
        self.begin(ready)


def verdict(problem: dict[str, Any]) -> dict[str, Any]:
    """Judge one problem; once in a process, as SimGrid has one engine."""
    options = ["judge", "--log=root.thresh:error", *(f"--cfg={one}" for one in SETTINGS)]
    engine = simgrid.Engine(options)
    judge = Judge(problem)
    simgrid.Actor.create("judge", judge.first, judge.run)
    engine.run()
    if NEVER in judge.arrivals:
        raise ValueError("some messages wait for each other")
    marks: dict[int, float] = {}
    for message, seconds in zip(judge.messages, judge.arrivals, strict=True):
        marks[message[5]] = max(marks.get(message[5], 0.0), seconds)
    told: dict[str, Any] = {
        "seconds": max(judge.arrivals, default=0.0),
        "marks": sorted(marks.items()),
    }
    if problem.get("arrivals"):
        told["arrivals"] = judge.arrivals
    return told


def main() -> None:
    for line in sys.stdin:
        if os.fork() == 0:
            print(json.dumps(verdict(json.loads(line))), flush=True)
            os._exit(0)
        _, status = os.wait()
        if status:
            print(json.dumps({"error": status}), flush=True)


if __name__ == "__main__":
    main()
