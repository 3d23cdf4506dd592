"""The section about DDP's buckets says what was measured, and what is measured is DDP's own."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest

from results import pages, record
from results.ddp import __main__ as ddp
from results.ddp.judged import BEST, NEAR, USUAL, figures
from results.ddp.measure import backward_of


def test_the_section_about_ddp_is_made_from_its_data() -> None:
    data = record.read(ddp.REPORT)
    assert ddp.page(data) == pages.README.read_text(encoding="utf-8")


def test_ours_is_never_slower_than_the_default_beyond_noise() -> None:
    data = record.read(ddp.REPORT)
    assert data["slower"] == 0
    assert data["off"]["ours_near"] == sum(
        abs(row["ways"][BEST]["gain"] - row["ways"][BEST]["predicted_gain"]) <= NEAR
        for row in data["rows"]
    )
    assert all(row["ways"][USUAL]["gain"] == 0 for row in data["rows"])


def test_ddp_filled_the_buckets_that_were_asked_for() -> None:
    for path in ddp.DATA.glob("*.json"):
        for model in record.read(path)["models"]:
            upto = backward_of(model).upto_bytes
            for name, way in model["ways"].items():
                asked = [upto[b] - upto[a] for a, b in pairwise((0, *way["ends"]))]
                if name != BEST:
                    assert way["buckets_bytes"] == asked, (path, model["name"], name)
                    continue
                # by the file, whose order is that of parameters: a bias may be in the next bucket
                assert sum(way["buckets_bytes"]) == upto[-1]
                assert len(way["buckets_bytes"]) == len(asked), (path, model["name"])


@pytest.mark.slow
def test_what_is_kept_about_ddp_is_what_the_data_gives() -> None:
    fresh = json.loads(json.dumps(figures(ddp.DATA)))
    kept = record.read(ddp.REPORT)
    assert list(record.differences({name: kept[name] for name in fresh}, fresh)) == []
