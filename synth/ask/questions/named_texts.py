"""Machines and jobs in a question: the name of a shipped description, or a named text.

No verb reads a file. A question contains everything on which its answer depends, so that it is the
same question on every machine, and no caller's text can cause reads from this machine's disk.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from hierarchies import InputError, System, load_known, parse_description
from synth.ask.questions.plain import input_error_of, show_value
from synth.collective.workload.files import load_shipped_job, read_job
from synth.collective.workload.job import Workload

LONGEST_NAME = 4096
_MOST_READ = 2**18
"""Longer texts, in characters, are read by the worker alone."""
MOST_FILES = 4096
_A_TEXT = 'One of your own is given as {"name": "my.toml", "text": "..."}'


def _check_name(name: str) -> str:
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        hint = f"one line of printable text, of at most {LONGEST_NAME} characters"
        raise InputError(f"{name[:80]!r} is no name of a text", hint=hint)
    return name


class NamedText(BaseModel):
    """A text, such as the content of a file, and the name it has in errors and in answers."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    name: Annotated[str, AfterValidator(_check_name)]
    text: str


def _parse_content(value: object) -> object:
    """Return a name or a named text, chosen by type, so that errors refer to the intended form."""
    if isinstance(value, NamedText) or (isinstance(value, str) and len(value) <= LONGEST_NAME):
        return value
    if not isinstance(value, dict):
        raise InputError(f"{show_value(value)} cannot be used", hint=f"a name. {_A_TEXT}")
    try:
        return NamedText.model_validate(value)
    except ValidationError as error:
        raise input_error_of(error, value) from None


NameOrText = Annotated[str | NamedText, BeforeValidator(_parse_content)]


def is_short(*texts: str) -> bool:
    """Whether texts are so short that they are read before a question waits for its turn."""
    return sum(map(len, texts)) <= _MOST_READ


def system_of(given: str | NamedText) -> System:
    """Return a known machine by its name or ``name:N``, or the one that a text describes.

    Raises InputError for a name that is not in the catalogue, even if a file is called so, and
    for what is wrong in the text.
    """
    if isinstance(given, NamedText):
        return parse_description(given.name, given.text)
    return load_known(given, _A_TEXT)


def job_of(given: str | NamedText) -> Workload:
    """Return a shipped job by its name, or the one that a text describes.

    Raises InputError likewise.
    """
    if isinstance(given, NamedText):
        return read_job(given.text, where=given.name)
    return load_shipped_job(given, _A_TEXT)
