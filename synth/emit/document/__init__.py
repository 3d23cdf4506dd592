"""The schedule as a documented, versioned JSON file, written and read back."""

from synth.emit.document.writing import read as read
from synth.emit.document.writing import read_stripes as read_stripes
