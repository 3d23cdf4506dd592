"""The log of a server: JSON lines without secrets or questions."""

from __future__ import annotations

import json
import logging
import re
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

SERVICE = "collsynth.service"
_KEY = re.compile(r"(cs_[0-9a-f]{16}_)[0-9a-f]+")


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, message and further fields.

    The fields are given as ``extra={"logged": {...}}``. API keys in them are truncated after the
    id.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields |= getattr(record, "logged", {})
        if record.exc_info:
            fields["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return mask_keys(json.dumps(fields, default=str))


def mask_keys(text: str) -> str:
    """Truncate every API key in a text after its id.

    >>> mask_keys(f"/login?key=cs_0123456789abcdef_{'0' * 64}&next=/")
    '/login?key=cs_0123456789abcdef_...&next=/'
    """
    return _KEY.sub(r"\1...", text)


def json_log(stream: TextIO) -> logging.Handler:
    """Return a handler that writes this process's log to a stream as JSON lines.

    Also limits verbose libraries to warnings.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn.access").disabled = True
    for name in ("alembic", "sqlalchemy", "distributed"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return handler
