"""The log of a server: lines of JSON, without secrets or questions."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, TextIO

SERVICE = "collsynth.service"


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON: time, level, logger, message and further fields.

    The fields are given as ``extra={"logged": {...}}``.
    """

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        said |= getattr(record, "logged", {})
        if record.exc_info:
            said["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(said, default=str)


def log_as_json(stream: TextIO | None = None, warnings_only: bool = False) -> None:
    """Send everything that this process logs to a stream, as lines of JSON."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    level = logging.WARNING if warnings_only else logging.INFO
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn.access").disabled = True
    for name in ("alembic", "sqlalchemy", "distributed"):
        logging.getLogger(name).setLevel(logging.WARNING)
