"""The verb that reads other people's descriptions of machines."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hierarchies import InputError
from hierarchies.importers import KINDS, Options, import_texts
from hierarchies.importers.models import MODELS
from synth.plan.request import Watcher
from synth.verbs.answers.importing import ImportReply
from synth.verbs.questions import notations
from synth.verbs.questions.fields import File, Flag, Limited
from synth.verbs.questions.flags import Figure, Names, PerhapsMachine
from synth.verbs.questions.named_texts import MOST_FILES, NamedText, system_of
from synth.verbs.questions.question import Question
from synth.verbs.reply import Reply, reply


class ImportQuestion(Question):
    """Read a topology that another tool wrote, and say what it leaves open.

    ``inside``: a system whose nodes the imported network joins. ``suggested``: suggestions are
    taken as values, unconfirmed.
    """

    kind: Annotated[str, Flag(f"What the files are: {', '.join(KINDS)}", spelled="KIND")]
    files: Annotated[
        list[NamedText],
        Limited.TEXT,
        Flag("The files", spelled="FILE...", file=File.TOPOLOGIES),
    ] = Field(min_length=1, max_length=MOST_FILES)
    nodes: Annotated[Figure | None, Flag("How many such nodes there are")] = None
    gpu: Annotated[str | None, Flag(f"Which GPU it is: {', '.join(MODELS)}")] = None
    keys: Annotated[
        Names,
        Flag("Labels that name the levels, outermost first", ": a,b,c", notation=notations.NAMES),
    ] = Field(default_factory=list)
    inside: Annotated[
        PerhapsMachine,
        Flag("The system whose nodes an imported network joins", spelled="--inside"),
    ] = None
    suggested: Annotated[bool, Flag("Take suggestions as values, marked unconfirmed")] = False

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
