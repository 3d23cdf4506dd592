"""Put the service under load: service.json and a section of README.md.

``python -m results.service.load cached uncached jobs`` measures what is named, with SQLite or, with
``--store postgresql``, with PostgreSQL (Debian's package ``postgresql``). Every server is started
by this script, on a free port of this machine's own address, with an empty store in a temporary
folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from results import pages, record
from results.service import promises
from results.service.measuring import cached, jobs, uncached
from results.service.stores import STORES, empty

DATA = Path(__file__).with_name("service.json")
COMMAND = "python -m results.service.load"
NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
Told = dict[str, Any]
MEASURES: dict[str, Callable[[str, Path], Told]] = {
    "cached": cached,
    "uncached": uncached,
    "jobs": jobs,
}


def keep(name: str, store: str, figures: Told, command: str) -> None:
    """Put figures in the place of those of the same name, and write the page."""
    data = record.read(DATA) if DATA.exists() else {"measured": []}
    entry = {"name": name, "store": store, **figures}
    entry |= {**record.origin(command), "machine": record.machine()}
    others = [e for e in data["measured"] if (e["name"], e["store"]) != (name, store)]
    data["measured"] = sorted([*others, entry], key=lambda e: (e["name"], e["store"] != STORES[0]))
    pages.keep(DATA, data, page)


def page(data: Told) -> pages.Page:
    """README.md with its section about the service as the data has it."""
    made = (f"`{entry['command']}` at {record.made_at(entry)}" for entry in data["measured"])
    return pages.page(
        "service",
        measured=data["measured"],
        stores=NAMES,
        met=promises.met,
        most_cached_ms=promises.MOST_CACHED_MS,
        most_beyond_seconds=promises.MOST_BEYOND_SECONDS,
        origins=dict.fromkeys(made),
    )


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASURES))
    given.add_argument("--store", choices=STORES, default=STORES[0])
    given.add_argument("--dry", action="store_true", help="print, and keep nothing")
    told = given.parse_args()
    for name in told.names or MEASURES:
        with empty(told.store) as (store_url, folder):
            figures = MEASURES[name](store_url, folder)
        print(name, told.store, figures, flush=True)
        if not told.dry:
            more = "" if told.store == STORES[0] else f" --store {told.store}"
            keep(name, told.store, figures, f"{COMMAND} {name}{more}")


if __name__ == "__main__":
    main()
