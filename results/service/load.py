"""Put the service under load: data/service.json and a section of README.md.

``python results/service/load.py cached uncached jobs`` measures what is named, with SQLite or, with
``--store postgresql``, with PostgreSQL (Debian's package ``postgresql``). Every server is started
by this script, on a free port of this machine's own address, with an empty store in a temporary
folder.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import record
from service.measuring import cached, jobs, uncached
from service.page import section
from service.stores import STORES, empty

FILE = "service.json"
COMMAND = "python results/service/load.py"
Told = dict[str, Any]
MEASURES: dict[str, Callable[[str, Path], Told]] = {
    "cached": cached,
    "uncached": uncached,
    "jobs": jobs,
}


def keep(name: str, store: str, figures: Told, command: str) -> None:
    """Put figures in the place of those of the same name, and write the page."""
    data = record.read(FILE) if (record.DATA / FILE).exists() else {"measured": []}
    entry = {"name": name, "store": store, **figures}
    entry |= {**record.origin(command), "machine": record.machine()}
    others = [e for e in data["measured"] if (e["name"], e["store"]) != (name, store)]
    data["measured"] = sorted([*others, entry], key=lambda e: (e["name"], e["store"] != STORES[0]))
    record.write(FILE, data)
    record.README.write_text(page(data), encoding="utf-8")


def page(data: Told) -> str:
    """README.md with its section about the service as the data has it."""
    return record.replaced(record.README.read_text(encoding="utf-8"), "service", section(data))


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
