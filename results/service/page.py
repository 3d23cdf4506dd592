"""The generated part of the results page about the service, from ``data/service.json``."""

from __future__ import annotations

from typing import Any

from record import table

Told = dict[str, Any]
MOST_CACHED_MS, MOST_BEYOND_SECONDS, MOST_JOBS = 20.0, 1.0, 1000
STORES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_MEMORY = "server_first_MiB", "server_peak_MiB", "server_last_MiB"


def section(data: Told) -> str:
    """The text between the markers."""
    parts = [_promises(data["measured"]), _latencies(data["measured"]), _jobs(data["measured"])]
    return "\n\n".join([*filter(None, [*parts, _kills(data["measured"])]), _origins(data)])


def met(entry: Told) -> bool:
    """Whether a measurement holds what is promised."""
    match entry["name"]:
        case "cached":
            return bool(entry["p99_ms"] <= MOST_CACHED_MS and not entry["errors"])
        case "uncached":
            in_time = entry["difference_max_s"] <= MOST_BEYOND_SECONDS
            return bool(in_time and entry["same_bytes"])
        case "jobs":
            done = entry["statuses"] == {"done": MOST_JOBS}
            return done and not any(entry[key] for key in ("lost", "twice", "logged_twice"))
    done = entry["statuses"] == {"done": entry["accepted"]}
    return done and not any(entry[key] for key in ("lost", "unended", "twice", "undone", "wrong"))


def _promises(measured: list[Told]) -> str:
    rows = [[*_promise(entry), _told(met(entry))] for entry in measured]
    for entry in reversed(measured):
        if "stored" in entry:
            told = entry["stored"]
            what = f"the same, by a server started anew, from its store ({told['requests']:,})"
            figure = f"{told['p99_ms']:.1f} ms, {told['errors']} errors"
            good = told["p99_ms"] <= MOST_CACHED_MS and not told["errors"]
            place = sum(one["name"] == "cached" for one in measured)
            row = [what, STORES[entry["store"]], figure, f"{MOST_CACHED_MS:.0f} ms", _told(good)]
            rows.insert(place, row)
    return table(["what", "store", "figure", "promised", "met"], rows)


def _told(good: bool) -> str:
    return "yes" if good else "**no**"


def _promise(entry: Told) -> list[str]:
    store = STORES[entry["store"]]
    match entry["name"]:
        case "cached":
            what = f"cached answer at {entry['per_second']:.0f} requests/s, p99"
            figure = f"{entry['p99_ms']:.1f} ms, {entry['errors']} errors"
            return [what, store, figure, f"{MOST_CACHED_MS:.0f} ms"]
        case "uncached":
            what = (
                f"uncached `top dgx-h100:4` beyond the command line's time, worst of {_many(entry)}"
            )
            figure = (
                f"{entry['difference_max_s']:+.2f} s (median {entry['difference_median_s']:+.2f})"
            )
            return [what, store, figure, f"{MOST_BEYOND_SECONDS:.0f} s"]
        case "jobs":
            done = entry["statuses"].get("done", 0)
            what = f"{entry['submitted']:,} jobs submitted at once"
            figure = f"{done:,} done, {entry['lost']} lost, {entry['twice']} twice"
            return [what, store, figure, "all finish, none lost"]
    whom = "the server" if entry["name"] == "kills-server" else "a worker"
    done = entry["statuses"].get("done", 0)
    what = f"kill -9 of {whom}, {entry['kills']} times: jobs accepted meanwhile"
    figure = (
        f"{entry['accepted']} accepted, {done} done, {entry['lost']} lost, "
        f"{entry['twice']} twice, {entry['wrong']} wrong"
    )
    return [what, store, figure, "nothing lost, nothing twice"]


def _many(entry: Told) -> int:
    return int(entry["questions"])


def _latencies(measured: list[Told]) -> str:
    rows = []
    for entry in measured:
        told = {"cached": entry, "jobs": entry.get("stored")}.get(entry["name"])
        if told:
            what = "remembered by the server" if entry["name"] == "cached" else "from the store"
            keys = ("p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms")
            figures = [f"{told[key]:.1f}" for key in keys]
            many = f"{told['requests']:,} ({told['errors']} errors)"
            rows.append([what, STORES[entry["store"]], many, *figures])
    return table(["answers, ms", "store", "requests", "p50", "p90", "p99", "p99.9", "max"], rows)


def _jobs(measured: list[Told]) -> str:
    lines = []
    for entry in measured:
        if entry["name"] == "uncached":
            lines.append(
                f"* Uncached, {STORES[entry['store']]}: {entry['service_median_s']:.2f} s by the "
                f"service, {entry['command_median_s']:.2f} s by the command line (medians of "
                f"{_many(entry)} questions, each put to both; {entry['ratio']:.2f}x); the first "
                f"question of all took the service {entry['service_first_s']:.2f} s. "
                f"{'All' if entry['same_bytes'] else '**Not all**'} answers were the same bytes."
            )
        if entry["name"] == "jobs":
            first, peak, last = (entry[key] for key in _MEMORY)
            lines.append(
                f"* Jobs, {STORES[entry['store']]}: accepted in {entry['accepted_s']:.1f} s, done "
                f"after {entry['finished_s']:.0f} s; the server's resident memory was {first:.0f} "
                f"MiB before, {peak:.0f} at most, {last:.0f} in the end, that of its workers "
                f"{entry['workers_peak_MiB']:.0f} at most, "
                f"{entry['workers_last_MiB']:.0f} in the end."
            )
    return "\n".join(lines)


def _kills(measured: list[Told]) -> str:
    lines = []
    for entry in measured:
        if entry["name"] == "kills-server":
            lines.append(
                f"* Server, {STORES[entry['store']]}: a job was under way at "
                f"{entry['under_way']} of {entry['kills']} kills; "
                f"jobs begun again: {entry['begun_again']}; "
                f"{entry['broken_requests']} requests broke off; {entry['left_behind']} processes "
                f"were left behind."
            )
        if entry["name"] == "kills-workers":
            lines.append(
                f"* Workers, {STORES[entry['store']]}: what a worker that is killed had under way "
                f"is handed to another by its server; jobs that had to be queued again for it: "
                f"{entry['begun_again']}."
            )
    return "\n".join(lines)


def _origins(data: Told) -> str:
    told = dict.fromkeys(
        f"`{entry['command']}` at commit {entry['commit']}, {entry['date']}, "
        f"{entry['machine']['processor']}, {entry['machine']['cores']} cores, "
        f"Python {entry['machine']['python']}"
        for entry in data["measured"]
    )
    return f"Made by {'; '.join(told)}."
