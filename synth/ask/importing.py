"""The verb that reads other people's descriptions of machines."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field

from hierarchies import InputError, importers
from hierarchies.importers import (
    KINDS,
    Draft,
    DraftLevel,
    ImportOptions,
    StatedValue,
    check_beginnings,
    draft_to_toml,
    import_texts,
    scale_to_unit,
    wrap_network,
)
from hierarchies.importers.draft import Entry, Value
from hierarchies.importers.models import MODELS
from synth.ask.answers.parts import (
    AnswerPart,
    DomainName,
    Number,
    OneFile,
    Positive,
    ReplyModel,
    Whole,
    optional_key,
)
from synth.ask.questions import notations
from synth.ask.questions.fields import CostLimit, File, Flag
from synth.ask.questions.flags import Figure, Names, OptionalMachine
from synth.ask.questions.named_texts import MOST_FILES, NamedText, is_short, system_of
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

    def check_early(self) -> None:
        texts = self.texts()
        if self.kind not in KINDS or is_short(*texts.values()):
            self.draft()
        else:
            check_beginnings(self.kind, texts)


class DraftedLevel(AnswerPart):
    """One level as far as it is known: null where it is blank, left out where there is no such."""

    name: str = Field(description="Name of its units.")
    count: Positive | None = optional_key("Number of units in each parent.")
    domain: DomainName | None = Field(description="How children of one parent are connected.")
    bandwidth_GB_per_s: Number | None = Field(description="Bandwidth of one port in one direction.")
    latency_us: Number | None = Field(description="Latency of a message by protocol Simple.")
    ll_latency_us: Number | None = optional_key("Latency of a message by protocol LL.")
    ll128_latency_us: Number | None = optional_key("Latency of a message by protocol LL128.")
    ports: Positive | None = optional_key("Ports of one child.")
    reduces: bool | None = optional_key("Whether its switches reduce.")
    through: list[str] = Field(description="Inner levels whose links are crossed, too.")
    sources: dict[str, str] = Field(description="Where each known value stands, by its key.")

    @classmethod
    def of(cls, level: DraftLevel) -> Self:
        entries = level.entries()
        return cls.like(
            name=level.name,
            through=level.through,
            sources={k: e.source for k, e in entries.items() if isinstance(e, StatedValue)},
            **{key: _stated_value(key, entry) for key, entry in entries.items()},
        )


def _stated_value(key: str, entry: Entry) -> Value | None:
    """Return the value that the files state, in its key's unit; None for a blank."""
    return scale_to_unit(key, entry.value) if isinstance(entry, StatedValue) else None


class DraftPart(AnswerPart):
    """Recipe that the files express."""

    name: str = Field(description="Name of the description.")
    title: str = Field(description="Title; may be empty.")
    device: str = Field(description="The model of its devices; empty where it is not said.")
    memory_GB_per_s: Number | None = Field(
        description="Memory bandwidth of a device; null where it is blank."
    )
    levels: list[DraftedLevel] = Field(min_length=1, description="Outermost first.")
    counted: dict[str, Whole] = Field(description="Numbers of units found, by name.")
    warnings: list[str] = Field(description="Contradictions and faults that the files show.")
    notes: list[str] = Field(description="Facts that a description cannot express.")

    @classmethod
    def of(cls, draft: Draft) -> Self:
        rate = _stated_value("memory_GB_per_s", draft.memory_bytes_per_second)
        return cls.like(draft, memory_GB_per_s=rate)


class BlankPart(AnswerPart):
    """A value that the files do not say."""

    place: str = Field(description="device, or the name of a level.")
    key: str = Field(description="Name of the value.")
    needed: bool = Field(description="False if it may be left out.")
    suggestion: Value | None = Field(description="Usual value; null if unknown.")
    reason: str = Field(description="Source of the suggestion and its reason.")

    @classmethod
    def of(cls, place: str, key: str, blank: importers.Blank) -> Self:
        perhaps = blank.suggestion
        return cls.like(
            blank,
            place=place,
            key=key,
            suggestion=None if perhaps is None else scale_to_unit(key, perhaps),
            reason=blank.source,
        )


class ImportReply(ReplyModel):
    """What files say of a machine, what they leave open, and the description to be completed."""

    kind: str = Field(description="Kind of the files.")
    draft: DraftPart = Field(description="The draft that the files give.")
    blanks: list[BlankPart] = Field(description="Values that the files do not give.")
    complete: bool = Field(description="Whether all required values are known.")
    files: OneFile = Field(description="The description, in TOML.")


def import_topology(question: ImportQuestion, watcher: Watcher) -> Reply:
    """What the files say, what they leave open, and the description to be completed."""
    draft = question.draft()
    if question.suggested:
        draft = draft.suggested()
    blanks = [BlankPart.of(place, key, blank) for place, key, blank in draft.blanks()]
    answer = ImportReply.like(
        question,
        draft=draft,
        blanks=blanks,
        complete=not any(blank.needed for blank in blanks),
        files={f"{draft.name}.toml": draft_to_toml(draft)},
    )
    return reply(answer)
