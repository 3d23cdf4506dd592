"""The terms of the page, their meanings, and the pages of the documentation about them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True)
class Term:
    """A word, its meaning in a sentence or two, and the name of a page under ``docs/``."""

    word: str
    means: str
    page: str

    @property
    def anchor(self) -> str:
        """Its anchor on the help page."""
        return self.word.replace(" ", "-")


_ROWS = (
    Term(
        "axis",
        "A dimension of parallelism with a size: with data=8, each of eight devices or groups of "
        "devices has its own samples. The product of all sizes is the number of devices.",
        "placement-and-program",
    ),
    Term(
        "placement",
        "The assignment of each axis's factors to levels of the machine. In the matrix a row is an "
        "axis and a column a level: [[4, 2], [1, 4]] puts data on 4 nodes and 2 GPUs in each.",
        "placement-and-program",
    ),
    Term(
        "level",
        "A kind of unit of the machine, such as node or GPU, and the links that join its units.",
        "describe",
    ),
    Term(
        "collective",
        "An operation of a group of devices on a buffer of each: after an all-reduce every device "
        "has the sum of all buffers, after an all-gather the parts of all.",
        "placement-and-program",
    ),
    Term(
        "program",
        "A sequence of collectives that together compute one collective over all devices: each "
        "names the level whose groups take part. Several programs may run side by side, each on a "
        "share of the payload.",
        "language",
    ),
    Term(
        "inside",
        "The devices of each unit take a step of a program together. “node inside”: those of each "
        "node, in all nodes at once. “root inside”: the whole group of the collective.",
        "language",
    ),
    Term(
        "parallel",
        "Devices at the same position in their units take a step together. “node parallel(root)”: "
        "the first GPUs of all nodes form a group, the second ones the next, and so on, at once. "
        "The brackets name the enclosing unit: root is the whole group of the collective.",
        "language",
    ),
    Term(
        "master",
        "Like parallel, but only the first device of each unit takes part. “node master(root)”: "
        "GPU 0 of every node; the others wait.",
        "language",
    ),
    Term(
        "across",
        "Devices that differ only on the levels in the brackets take a step together. “root "
        "across(pod, gpu)” skips the node level between the two.",
        "language",
    ),
    Term(
        "segments",
        "Equal parts of the payload that pass through the steps of a program one after the other, "
        "so that the steps overlap.",
        "placement-and-program",
    ),
    Term(
        "default",
        "What the runtime (NCCL, RCCL, XLA) chooses by itself: the collective in one step, with "
        "the algorithm and the protocol that its own cost model selects.",
        "placement-and-program",
    ),
    Term(
        "speed-up",
        "The time of the default divided by that of the program. “Tie”: the difference is within "
        "prediction error. “None”: no runtime offers the program.",
        "placement-and-program",
    ),
    Term(
        "question mark",
        "After a speed-up, as in 1.11x?: expected, but within prediction error of the default, so "
        "that only a measurement can decide.",
        "trust",
    ),
    Term(
        "tie",
        "The difference between two programs, or two plans, is within prediction error: either may "
        "be the faster one.",
        "trust",
    ),
    Term(
        "bus bandwidth",
        "As nccl-tests define it: bytes of the payload per second times the share of each byte "
        "that a device must send, 2(n-1)/n for an all-reduce of n devices. It can be compared with "
        "the speed of a link.",
        "sizes",
    ),
    Term(
        "bound",
        "The share of the time that no schedule can avoid, derived from the bytes that must cross "
        "each cut of the machine. At 100% no schedule is faster.",
        "trust",
    ),
    Term(
        "limited by",
        "The level whose links are busy longest, where more bandwidth would help first; or latency "
        "if a program mostly waits for messages.",
        "placement-and-program",
    ),
    Term(
        "proof",
        "Whether z3 proved that the program computes the collective for every size of this "
        "hierarchy. The result may also be unknown.",
        "check",
    ),
    Term(
        "hidden",
        "The share of a collective's time that overlaps with compute. The rest is exposed: the "
        "step waits for it.",
        "whole-job",
    ),
    Term(
        "exposed",
        "The seconds of a step that wait for communication because no compute overlaps with it.",
        "whole-job",
    ),
    Term(
        "pins",
        "Constraints on a plan, such as tensor=8 zero=1. Everything else is searched.",
        "plan-a-step",
    ),
    Term(
        "prices",
        "Predicted seconds. Without a calibration they rest on what such links reach on other "
        "machines; with one, on your own measurements, each with an interval.",
        "trust",
    ),
    Term(
        "calibration",
        "The parameters of a machine fitted to your own runs of nccl-tests.",
        "calibrate",
    ),
)
TERMS: Mapping[str, Term] = {term.word: term for term in _ROWS}
"""All terms by word."""
_STEP = re.compile(r"(?P<what>\S+ )(?P<who>(?:\S+ )?(?P<form>inside|parallel|master|across)\b.*)")


def link_term(word: str, shown: str = "") -> Markup:
    """Return a word as a link to its meaning, which is also its tooltip."""
    term = TERMS[word]
    return Markup('<a class="term" href="/help#{}" title="{}">{}</a>').format(
        term.anchor, term.means, shown or word
    )


def link_once(word: str, shown: str, linked: set[str]) -> Markup:
    """Return ``shown`` as a link to a word's meaning, unless ``linked`` has the word; add it."""
    if word in linked:
        return Markup("{}").format(shown)
    linked.add(word)
    return link_term(word, shown)


def link_step(text: str, linked: set[str]) -> Markup:
    """Return a step of a program, with its group as a link to the meaning of its form.

    Only the first group of each form is a link: ``linked`` collects the forms linked before.
    """
    step = _STEP.fullmatch(text)
    if step is None:
        return Markup("{}").format(text)
    return Markup("{}{}").format(step["what"], link_once(step["form"], step["who"], linked))
