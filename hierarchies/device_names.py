"""Names of accelerators: a driver's name beside that of a description.

Names have many spellings (``NVIDIA H100 80GB HBM3``, ``H100 SXM5 80 GB``). All contain the model,
and most the form, which decides whether there are NVLinks at all:

>>> model_words("NVIDIA H100 80GB HBM3") & model_words("H100 SXM5 80 GB")
frozenset({'H100'})
>>> sorted(model_words("Blackwell B200 (GB200)")), model_words("a GPU")
(['GB200'], frozenset())
>>> cards = "NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB", "NVIDIA L40S"
>>> tuple(map(form_factor, cards))
('PCIE', 'SXM4', '')
"""

from __future__ import annotations

import re

_MODEL = re.compile(r"\b(?:[A-Z]{1,2}\d{1,4}[A-Z]?|\d{4})\b")
_IN_BRACKETS = re.compile(r"\(([^()]*)\)")
_FORM = re.compile(r"(?<![A-Z])(SXM\d?|PCIE|NVL|OAM|DGXS|FHHL|MXM)(?![A-Z])")
_BARE_SXM = frozenset(("H100", "H200", "H800", "H20"))
"""Models whose driver names include the form (``H100 PCIe``, ``H200 NVL``), except SXM."""


def model_words(name: str) -> frozenset[str]:
    """Returns the words of a device's name that may be its model; empty if none looks like one.

    A name in brackets is the driver's name of the chip.
    """
    inner = _IN_BRACKETS.search(name)
    return frozenset((inner and _MODEL.findall(inner[1])) or _MODEL.findall(name))


def form_factor(name: str) -> str:
    """Returns the form in a device's name (``SXM4``, ``PCIE``, ``NVL``); "" if it has none."""
    found = _FORM.search(name.upper())
    return found[1] if found else ""


def is_same_device(logged: str, described: str) -> bool:
    """Whether a driver's name in a log may be a described device's; True if either is unclear.

    Memory sizes of one model differ, but its links do not.
    """
    if not (model_words(logged) and model_words(described)):
        return True
    given = form_factor(logged) or ("SXM" if model_words(logged) & _BARE_SXM else "")
    longer, shorter = sorted((given, form_factor(described)), key=len, reverse=True)
    return bool(model_words(logged) & model_words(described)) and longer.startswith(shorter)
