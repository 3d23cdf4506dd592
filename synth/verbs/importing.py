"""The verb that reads other people's descriptions of machines."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hierarchies import InputError
from hierarchies.importers import Options, import_texts
from synth.plan.request import Watcher
from synth.verbs.answers.importing import ImportReply
from synth.verbs.limited import Limited
from synth.verbs.named_texts import MOST_FILES, NamedText, system_of
from synth.verbs.questions import Figure, Names, PerhapsMachine, Question
from synth.verbs.reply import Reply, reply


class ImportQuestion(Question):
    """Files of one kind, and what is known beside them.

    ``inside``: a system whose nodes the imported network joins. ``suggested``: suggestions are
    taken as values, unconfirmed.
    """

    kind: str
    files: Annotated[list[NamedText], Limited.TEXT] = Field(min_length=1, max_length=MOST_FILES)
    nodes: Figure | None = None
    gpu: str | None = None
    keys: Names = Field(default_factory=list)
    inside: PerhapsMachine = None
    suggested: bool = False

    def texts(self) -> dict[str, str]:
        """The texts by name. Raises InputError for a name that is given twice."""
        found: dict[str, str] = {}
        for file in self.files:
            if file.name in found:
                hint = "every file needs a name of its own"
                raise InputError(f"{file.name!r} is given twice", where="files", hint=hint)
            found[file.name] = file.text
        return found


def imported(question: ImportQuestion, watcher: Watcher) -> Reply:
    """What the files say, what they leave open, and the description to be completed."""
    options = Options(question.nodes, question.gpu, tuple(question.keys))
    draft = import_texts(question.kind, question.texts(), options)
    if question.inside is not None:
        draft = draft.around(system_of(question.inside))
    if question.suggested:
        draft = draft.suggested()
    return reply(ImportReply.of(question.kind, draft))
