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
        "A dimension of parallelism with a size: with data=8 eight devices, or groups of "
        "devices, each have other samples. Sizes multiply to the number of devices.",
        "placement-and-program",
    ),
    Term(
        "placement",
        "Which factor of which axis lies on which level of the machine. In the matrix a row is an "
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
        "What a group of devices does together with a buffer of each: an all-reduce leaves the sum "
        "of all with everybody, an all-gather the parts of all.",
        "placement-and-program",
    ),
    Term(
        "program",
        "The collectives, step by step, that stand for one collective over all: each names the "
        "level whose groups take part. Several programs may run side by side, each on a share.",
        "language",
    ),
    Term(
        "inside",
        "Which devices take a step of a program together. “node inside”: those of each node; all "
        "nodes do it at once, each for itself. “root inside”: all of the group that the collective "
        "is over.",
        "language",
    ),
    Term(
        "parallel",
        "Devices at the same place of their units take a step together. “node parallel(root)”: the "
        "first GPUs of all nodes are a group, the second ones the next, and so on, at once. In the "
        "brackets stands within what: root, all of the group that the collective is over.",
        "language",
    ),
    Term(
        "master",
        "As parallel, but of each unit the first device alone takes part. “node master(root)”: "
        "GPU 0 of every node; the others wait.",
        "language",
    ),
    Term(
        "across",
        "Devices that differ on the levels in the brackets, and on no other, take a step together. "
        "“root across(pod, gpu)” leaves out the node between the two.",
        "language",
    ),
    Term(
        "segments",
        "Equal parts of the payload that follow each other through the steps of a program, so that "
        "its steps overlap.",
        "placement-and-program",
    ),
    Term(
        "default",
        "What the runtime (NCCL, RCCL, XLA) would choose by itself: the plain collective in one "
        "step, by the algorithm and the protocol that its own model takes.",
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
        "Behind a speed-up, as in 1.11x?: expected, but within prediction error of the default, so "
        "that a run decides.",
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
        "As nccl-tests count it: bytes of the payload a second, times what a device must send of "
        "each, 2(n-1)/n for an all-reduce of n devices. It can be compared with a link's speed.",
        "sizes",
    ),
    Term(
        "bound",
        "The share of the time that no schedule can avoid, by counting what must cross each cut "
        "of the machine. At 100% nothing can be faster.",
        "trust",
    ),
    Term(
        "limited by",
        "The level whose links are busy longest, so that more bandwidth there would help first; or "
        "latency, where a program waits for messages most of the time.",
        "placement-and-program",
    ),
    Term(
        "proof",
        "Whether z3 proved that the program computes what is asked, for every size of this "
        "hierarchy. Unknown is a third answer.",
        "check",
    ),
    Term(
        "hidden",
        "The share of a collective's time that compute runs beside. What is left is exposed: a "
        "step waits for it.",
        "whole-job",
    ),
    Term(
        "exposed",
        "The seconds of a step that wait for communication, since no compute runs beside it.",
        "whole-job",
    ),
    Term(
        "pins",
        "What a plan must have: tensor=8 zero=1. All that is not pinned is searched.",
        "plan-a-step",
    ),
    Term(
        "prices",
        "Predicted seconds. Before a calibration they are what such links reach on other machines; "
        "then what your own measurements say, each with an interval.",
        "trust",
    ),
    Term(
        "calibration",
        "The numbers of a machine fitted to your own runs of nccl-tests.",
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


def link_once(word: str, shown: str, told: set[str]) -> Markup:
    """Return ``shown`` as a link to a word's meaning, unless ``told`` has the word; add it."""
    if word in told:
        return Markup("{}").format(shown)
    told.add(word)
    return link_term(word, shown)


def link_step(text: str, told: set[str]) -> Markup:
    """Return a step of a program, with its group as a link to the meaning of its form.

    Only the first group of each form is a link: ``told`` collects the forms linked before.
    """
    step = _STEP.fullmatch(text)
    if step is None:
        return Markup("{}").format(text)
    return Markup("{}{}").format(step["what"], link_once(step["form"], step["who"], told))
