"""The schedule as a documented, versioned JSON file, written and read back.

It is meant for other programs: every device, group and phase is spelled out, so that a reader needs
none of our code. A document that is read back is not trusted: groups, sizes and chunks are checked
against the program that it names, because the file may have been edited.

>>> from grammar import parse
>>> from hierarchies import Reduction
>>> from synth.collective.emit.document import read
>>> from synth.collective.emit.document.writing import document, document_to_text
>>> from synth.collective.semantics.lowering import lower
>>> from synth.collective.semantics.rules import derive
>>> reduction = Reduction.plain(2, 2)
>>> schedule = lower(derive(parse("all-reduce root inside"), reduction.tree), reduction, 64)
>>> body = document(schedule)
>>> body["steps"][0]["collective"], body["steps"][0]["groups"]
('all-reduce', [[0, 1, 2, 3]])
>>> read(document_to_text(body)).program == schedule.program
True
"""

from synth.collective.emit.document.writing import read as read
