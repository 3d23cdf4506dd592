"""The verdict above an answer as the page shows it: what there is to choose from, and its lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra server")

from synth.service.page.rendering import render
from synth.show.report.rendering import style
from synth.show.terminal.deciding import FIGURES, EmittedFile, ToDo
from synth.show.terminal.verdict import BY_SIZE, Verdict

SET = "NCCL_ALGO=allreduce:Tree,allgather:Ring,reducescatter:Ring NCCL_PROTO=allreduce:Simple"
TO_RUN = ToDo(0, "1 MiB", "Run", f"{SET} run\nrun", SET, "1.20x", "1.10x to 1.30x", "3 ms")
FILE = EmittedFile("torch", "collsynth_torch.py")
TO_PASTE = ToDo(2, "8 MiB", "Paste", "import", f"{FILE.name}; {SET}", "1.50x", file=FILE)
TO_SET = ToDo(1, "4 MiB", "Set for all ranks", SET, SET, "1.50x")


def shown(base: str = "", tabs: Sequence[str] = (), **given: Any) -> str:
    told: dict[str, Any] = {"headline": "Do this", "lines": [], "of": "sizes"}
    told |= {"to_do": [TO_RUN, TO_SET], "decides": "run in turn"}
    view = SimpleNamespace(verdict=Verdict(**told | given), tabs=tabs)
    return render("verdict.html", view=view, base=base, index=2)


def test_on_a_telephone_long_lines_to_set_wrap(browser: Any) -> None:
    """They went 67 px beyond the card, which then scrolled sideways."""
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.set_content(
        f"<style>{style()}</style><main>{shown(to_do=[TO_RUN, TO_SET, TO_PASTE])}</main>"
    )
    widths = (
        "[...document.querySelectorAll('.choices, pre')].map(at => at.scrollWidth - at.clientWidth)"
    )
    assert not any(page.evaluate(widths))
    page.close()


def test_a_card_without_content_has_no_label() -> None:
    """What is only set has no range, and nothing that it is to be under."""
    run, only_set = shown().partition("<tbody>")[2].partition("</tbody>")[0].split("</tr>")[:2]
    assert re.findall(r'data-heading="([^"]+)"', run) == [*FIGURES]
    assert re.findall(r'data-heading="([^"]+)"', only_set) == ["expected"]


def test_each_command_is_a_line_of_its_own_and_is_copied_as_it_is() -> None:
    """Two commands in one box looked like one that wraps."""
    first = shown().partition("<pre")[2].partition("<code>")[2].partition("</code>")[0]
    assert re.findall(r"<span>([^<]*)</span>", first) == TO_RUN.lines.splitlines(keepends=True)
    assert re.sub(r"<[^>]*>", "", first) == TO_RUN.lines


def test_what_goes_by_size_leads_to_where_it_is_made_if_it_can_be() -> None:
    said, link = f"at all sizes; by size: {BY_SIZE}", 'href="/answers/x/code/nccl-tuner?answer=2"'
    page = shown("/answers/x", ["nccl-tuner"], lines=[said])
    assert f"by size: <a {link}>{BY_SIZE}</a></bdi>" in page
    for page in (shown(lines=[said]), shown("/answers/x", ["torch"], lines=[said])):
        assert f"<bdi>{said}</bdi>" in page
