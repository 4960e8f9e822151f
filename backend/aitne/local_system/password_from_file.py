"""Passwords in files that an administrator writes."""

from __future__ import annotations

import errno
from pathlib import Path


def read_password(path: Path) -> str:
    """Return the content of a file with a password or another secret, without the white space at its
    ends and a byte order mark.

    Raises ``OSError`` if it cannot be read or is not text in UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, "it is not text in UTF-8", str(path)) from error
