"""Paths of files in the platform's interfaces: percent-encoded, so that every name of a file system
has one spelling in URLs, in JSON and between the platform and the broker, also a name that is not
UTF-8 or has control characters.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated
from urllib.parse import quote, unquote_to_bytes

from pydantic import AfterValidator, Field

from aitne.core.errors import InvalidInput

MAX_PATH_BYTES = 4_095
"""Maximum length of a decoded path: that of Linux, without its final NUL."""
_ENCODED = re.compile(r"(?:[A-Za-z0-9_.~/-]|%[0-9A-F]{2})*")


def encode_path(path: bytes) -> str:
    """Return a path of a file system in the interfaces' spelling."""
    return quote(path, safe="/")


def decode_path(text: str | bytes) -> bytes:
    """Return the path below a folder that ``text`` spells, in any valid percent-encoding. It has no
    slash at its ends; the empty path is the folder itself.

    Raises:
        InvalidInput: a component is empty, ``.`` or ``..``, contains a slash or NUL, or the path is
            too long.
    """
    encoded = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    if not encoded:
        return b""
    parts = [unquote_to_bytes(part) for part in encoded.split(b"/")]
    if any(part in (b"", b".", b"..") or b"/" in part or b"\0" in part for part in parts):
        raise InvalidInput.field(
            "path",
            "its components must be names of files, without `.`, `..` and empty names",
            value=encoded[:400].decode("ascii", "replace"),
        )
    path = b"/".join(parts)
    if len(path) > MAX_PATH_BYTES:
        raise InvalidInput.field("path", f"must have at most {MAX_PATH_BYTES} bytes")
    return path


def _canonicalize_path(text: str) -> str:
    if _ENCODED.fullmatch(text) is None:
        raise ValueError("not percent-encoded")
    try:
        return encode_path(decode_path(text))
    except InvalidInput as error:
        raise ValueError(error.message) from error


EncodedPath = Annotated[
    str, Field(max_length=3 * MAX_PATH_BYTES), AfterValidator(_canonicalize_path)
]
"""Path below a folder as ``encode_path`` returns it; the empty path is the folder itself."""


def shown_name(name: bytes) -> str:
    """Return a name as text for people: bytes that are not UTF-8, control characters and those that
    change the direction of a text are replaced by U+FFFD.
    """
    return "".join(
        "\ufffd" if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") else char
        for char in name.decode("utf-8", "replace")
    )
