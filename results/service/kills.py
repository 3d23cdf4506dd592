"""Kill the service's server, and its workers, twenty times each: service.json, README.md.

``python -m results.service.kills server workers``, with SQLite or with ``--store postgresql``.
"""

from __future__ import annotations

import argparse

from results.service.killing import server_kills, worker_kills
from results.service.load import keep
from results.service.stores import STORES, empty

COMMAND = "python -m results.service.kills"
KILLS = 20
MEASURES = {"server": server_kills, "workers": worker_kills}


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASURES))
    given.add_argument("--store", choices=STORES, default=STORES[0])
    given.add_argument("--kills", type=int, default=KILLS)
    given.add_argument("--dry", action="store_true", help="print, and keep nothing")
    told = given.parse_args()
    for name in told.names or MEASURES:
        with empty(told.store) as (store_url, folder):
            figures = MEASURES[name](store_url, folder, told.kills)
        print(name, told.store, figures, flush=True)
        if not told.dry:
            more = "" if told.store == STORES[0] else f" --store {told.store}"
            keep(f"kills-{name}", told.store, figures, f"{COMMAND} {name}{more}")


if __name__ == "__main__":
    main()
