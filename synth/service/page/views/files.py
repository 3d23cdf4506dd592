"""The files of a plan by framework: each is a tab of the page and a folder to download."""

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
"""Titles of tabs whose files configure no framework or are in no folder."""
_RUNS_IT = "launch.sh"


@dataclass(frozen=True)
class Folder:
    """The files of one framework.

    ``title`` is the title of the tab. ``written_for`` includes the full version, ``who`` none.
    ``first`` is the file that contains the plan; ``files`` are the answer's files by their path in
    the folder.
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
    """Return the folders of a plan's files, in their order; the launch script is last in each."""
    by_folder: dict[str, dict[str, Mapping[str, str]]] = {}
    for file in files:
        folder, slash, inside = file["name"].partition("/")
        if slash:
            by_folder.setdefault(folder, {})[inside] = file
        else:
            by_folder.setdefault(_LOOSE, {})[folder] = file
    return [_folder(name, inside) for name, inside in by_folder.items()]


def _folder(name: str, inside: Mapping[str, Mapping[str, str]]) -> Folder:
    framework = FRAMEWORKS.get(name)
    written_for = framework.title if framework else _OTHER_TITLES.get(name, name)
    order = sorted(inside, key=lambda file: ("/" in file, file == _RUNS_IT))
    files = {file: inside[file] for file in order}
    return Folder(name, written_for.partition(" (")[0], written_for, order[0], files)


def files_question(
    framework: str, question: Mapping[str, Any], answer: Mapping[str, Any], index: int
) -> dict[str, Any] | None:
    """Return the question of ``train`` that writes a plan of an answer for a framework.

    ``question`` is the question of the answer. Plans count from 0, and the ``why_not`` plan is
    last. Returns None if there is no such plan or framework.
    """
    plans = [*answer["plans"], *filter(None, [answer["why_not"]])]
    if framework not in FRAMEWORKS or index >= len(plans):
        return None
    keys = TrainQuestion.model_fields.keys() - {"placement"}
    return {
        **{key: value for key, value in question.items() if key in keys},
        "sizes": answer["sizes"],
        "plan": plans[index]["plan"],
        "placement": plans[index]["placement"],
        "runtime": runtime_of(framework),
    }


def zip_folder(folder: Folder) -> bytes:
    """Return a folder as a ZIP archive with reproducible bytes."""
    whole = BytesIO()
    with ZipFile(whole, "w", ZIP_DEFLATED) as archive:
        for file, content in folder.files.items():
            archive.writestr(ZipInfo(f"{folder.name}/{file}"), content["text"], ZIP_DEFLATED)
    return whole.getvalue()
