"""The files of a plan by framework: a tab of the page each, and a folder to download."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from synth.ask.training.configured import runtime_of
from synth.ask.training.trained import TrainQuestion
from synth.step.frameworks import FRAMEWORKS

_LOOSE = "in-full"
_OTHER_TITLES = {"mscclpp": "MSCCL++", _LOOSE: "Plan in full"}
"""What tabs of files are called that no framework is configured by, nor lie in a folder."""
_RUNS_IT = "launch.sh"


@dataclass(frozen=True)
class Folder:
    """What one framework takes.

    ``title``: what it is called in a tab, ``files_question``: with all of its version, and ``who``:
    without; ``first``: the file that says the plan; ``files``: as the answer has them, by what they
    are called inside of the folder.
    """

    name: str
    title: str
    written_for: str
    first: str
    files: Mapping[str, Mapping[str, str]]

    @property
    def who(self) -> str:
        return self.title.partition(" ")[0] if self.name in FRAMEWORKS else self.title


def folders(files: Sequence[Mapping[str, str]]) -> Sequence[Folder]:
    """The folders of a plan's files, in their order; how it is started comes last in each."""
    found: dict[str, dict[str, Mapping[str, str]]] = {}
    for one in files:
        folder, slash, inside = one["name"].partition("/")
        if slash:
            found.setdefault(folder, {})[inside] = one
        else:
            found.setdefault(_LOOSE, {})[folder] = one
    return [_folder(name, inside) for name, inside in found.items()]


def _folder(name: str, inside: Mapping[str, Mapping[str, str]]) -> Folder:
    known = FRAMEWORKS.get(name)
    written_for = known.title if known else _OTHER_TITLES.get(name, name)
    order = sorted(inside, key=lambda file: ("/" in file, file == _RUNS_IT))
    files = {file: inside[file] for file in order}
    return Folder(name, written_for.partition(" (")[0], written_for, order[0], files)


def files_question(
    framework: str, asked: Mapping[str, Any], answer: Mapping[str, Any], index: int
) -> dict[str, Any] | None:
    """The question of ``train`` whose answer is a plan of an answer as files of a framework.

    ``asked`` is the question of the answer; plans count from 0, last the one asked why not. None
    where there is no such plan or framework.
    """
    plans = [*answer["plans"], *filter(None, [answer["why_not"]])]
    if framework not in FRAMEWORKS or index >= len(plans):
        return None
    known = TrainQuestion.model_fields.keys() - {"placement"}
    return {
        **{key: value for key, value in asked.items() if key in known},
        "sizes": answer["sizes"],
        "plan": plans[index]["plan"],
        "placement": plans[index]["placement"],
        "runtime": runtime_of(framework),
    }


def zip_folder(folder: Folder) -> bytes:
    """The folder as one file to download; the same bytes each time."""
    whole = BytesIO()
    with ZipFile(whole, "w", ZIP_DEFLATED) as made:
        for file, one in folder.files.items():
            made.writestr(ZipInfo(f"{folder.name}/{file}"), one["text"], ZIP_DEFLATED)
    return whole.getvalue()
