"""The verb that reads other people's descriptions of machines."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from hierarchies import InputError
from hierarchies.importers import KINDS, Draft, ImportOptions, import_texts, wrap_network
from hierarchies.importers.models import MODELS
from synth.ask.answers.importing import ImportReply
from synth.ask.questions import notations
from synth.ask.questions.fields import CostLimit, File, Flag
from synth.ask.questions.flags import Figure, Names, OptionalMachine
from synth.ask.questions.named_texts import MOST_FILES, NamedText, system_of
from synth.ask.questions.question import Question
from synth.ask.reply import Reply, reply
from synth.collective.ranking.request import Watcher


class ImportQuestion(Question):
    """Read a topology that another tool wrote, and say what it leaves open.

    ``inside``: a system whose nodes the imported network joins. ``suggested``: suggestions are
    taken as values, unconfirmed.
    """

    kind: Annotated[str, Flag(f"What the files are: {', '.join(KINDS)}", spelled="KIND")]
    files: Annotated[
        list[NamedText],
        CostLimit.TEXT,
        Flag("Files", spelled="FILE...", file=File.TOPOLOGIES),
    ] = Field(min_length=1, max_length=MOST_FILES)
    nodes: Annotated[Figure | None, Flag("Number of such nodes")] = None
    gpu: Annotated[str | None, Flag(f"Which GPU it is: {', '.join(MODELS)}")] = None
    keys: Annotated[
        Names,
        Flag("Labels that name the levels, outermost first", ": a,b,c", notation=notations.NAMES),
    ] = Field(default_factory=list)
    inside: Annotated[
        OptionalMachine,
        Flag("System whose nodes an imported network joins", spelled="--inside"),
    ] = None
    suggested: Annotated[bool, Flag("Use suggestions as values, marked unconfirmed")] = False

    def texts(self) -> dict[str, str]:
        """The texts by name. Raises InputError for a name that is given twice."""
        found: dict[str, str] = {}
        for file in self.files:
            if file.name in found:
                hint = "every file needs a name of its own"
                raise InputError(f"{file.name!r} is given twice", where="files", hint=hint)
            found[file.name] = file.text
        return found

    def options(self) -> ImportOptions:
        """What the files do not say."""
        return ImportOptions(self.nodes, self.gpu, tuple(self.keys))

    def draft(self) -> Draft:
        """What the files say, around the nodes of ``inside``. Raises InputError as that reads."""
        draft = import_texts(self.kind, self.texts(), self.options())
        return draft if self.inside is None else wrap_network(draft, system_of(self.inside))


def import_topology(question: ImportQuestion, watcher: Watcher) -> Reply:
    """What the files say, what they leave open, and the description to be completed."""
    draft = question.draft()
    if question.suggested:
        draft = draft.suggested()
    return reply(ImportReply.of(question.kind, draft))
