"""Sections of the page whose code is gone; each file of figures names a commit that has it.

``python -m results.archive`` writes these sections from the figures on disk.
"""

from __future__ import annotations

from results import pages, record

SECTIONS = ("certificates", "fusion", "joint", "kernels", "learned", "rules")


def page(section: str) -> pages.Page:
    """README.md with one section as its figures have it."""
    return pages.page(section, data=record.read(pages.HERE / section / f"{section}.json"))


if __name__ == "__main__":
    for name in SECTIONS:
        page(name).write()
