"""Audit log of the broker's requests and their outcomes: an append-only file with one line of JSON
for each.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aitne.core.errors import SetupError

_LOG = logging.getLogger("aitne.broker")


class BrokerAuditLog:
    """Append-only log of all requests to the broker, in a file that belongs to root and has mode
    0600.

    If log rotation has moved the file, the next entry creates a new one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self.trouble: str | None = None
        """Reason why the last line could not be written, or None if it was written."""

    def start(self) -> None:
        """Open or create the file. Raises ``SetupError``."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open_file()
        except OSError as error:
            raise SetupError(f"The audit log {self._path} cannot be written: {error}") from error

    def write_entry(self, **fields: Any) -> None:
        """Append an entry with these fields and the current time. Never raises; if the entry cannot
        be written, the attribute ``trouble`` contains the reason.
        """
        line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields})
        try:
            self._follow_rotation()
            data = line.encode() + b"\n"
            if os.write(self._get_descriptor(), data) != len(data):
                raise OSError("only a part of the line was written")
            self.trouble = None
        except OSError as error:
            if self.trouble is None:
                _LOG.critical("The audit log %s cannot be written: %s", self._path, error)
            self.trouble = str(error)

    def close(self) -> None:
        """Close the file of the log."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _get_descriptor(self) -> int:
        if self._file is None:
            self._open_file()
        assert self._file is not None  # noqa: S101 - _open set it or raised
        return self._file

    def _open_file(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(self._path, flags, 0o600)
        os.fchmod(file, 0o600)
        self.close()
        self._file = file

    def _follow_rotation(self) -> None:
        if self._file is None:
            return
        current = os.fstat(self._file)
        try:
            there = os.stat(self._path, follow_symlinks=False)
        except FileNotFoundError:
            self.close()
            return
        if (current.st_dev, current.st_ino) != (there.st_dev, there.st_ino):
            self.close()
