r"""Manifest of a dataset: the list of its files and links, one per line, with checksums.

The text is UTF-8, with a line feed after every line::

    aitne-manifest 1
    <sha256, 64 hexadecimal digits> TAB <size in bytes> TAB <path>
    link TAB <target> TAB <path>

Paths are relative to the dataset and sorted by component, compared as bytes. So each dataset has
exactly one manifest, and the SHA-256 digest of the text identifies it. A path consists of bytes:
those that are not UTF-8, and characters that move a cursor or change the direction of text, are
written as ``\xHH`` for each byte (or ``\n``, ``\t``, ``\r``), and a backslash as ``\\``; other
spellings are errors. Folders have no entries, so an empty folder is not part of a dataset. The
target of a link is relative, has ``..`` only at its beginning, and never leads out of the dataset.
No entry lies below a link, so chains of links do not lead out of it either.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from aitne.core.errors import InvalidInput

HEADER: Final = b"aitne-manifest 1\n"
MAX_PATH_BYTES: Final = 4_095
MAX_NAME_BYTES: Final = 255
MAX_LINE_BYTES: Final = 2 * 4 * MAX_PATH_BYTES + 80
MAX_SIZE: Final = 2**63 - 1
MOST_BYTES: Final = 1 << 30
"""Maximum number of bytes of a manifest, both of its text and compressed; enough for about ten
million files.
"""
_CHUNK = 1 << 20

_FILE = re.compile(rb"([0-9a-f]{64})\t(0|[1-9][0-9]{0,18})\t([^\t]+)")
_LINK = re.compile(rb"link\t([^\t]+)\t([^\t]+)")
_ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.|$)", re.DOTALL)
_NAMED = {b"\\": b"\\\\", b"\n": b"\\n", b"\t": b"\\t", b"\r": b"\\r"}
_MEANT = {notation[1:]: byte for byte, notation in _NAMED.items()}
# Listed, not taken from Python: what counts as printable changes with its version of Unicode, and a
# manifest must be the same everywhere. Undecodable bytes come as lone surrogates.
_SPECIAL = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\\\\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\udc80-\udcff]"
)
_PLAIN = re.compile(rb"[ -\[\]-~]*")


class ManifestError(InvalidInput):
    """A manifest, or a list of entries for one, violates the format. ``line`` is the line number,
    from 1.
    """

    code = "invalid_manifest"

    def __init__(self, reason: str, line: int | None = None) -> None:
        position = "The manifest" if line is None else f"Line {line} of the manifest"
        super().__init__(f"{position} {reason}.")
        self.reason = reason
        self.line = line


class ManifestFile(NamedTuple):
    """File in a manifest: its path in the dataset, size in bytes and SHA-256 digest in hexadecimal
    digits.
    """

    path: bytes
    """Path relative to the dataset."""
    size: int
    """Size in bytes."""
    sha256: str
    """SHA-256 of the content, in hexadecimal."""


class ManifestLink(NamedTuple):
    """Symbolic link in a manifest, with its path and its target."""

    path: bytes
    target: bytes
    """Target of the link, as stored in the link."""


Entry = ManifestFile | ManifestLink


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary of a whole manifest. ``digest`` identifies the manifest; ``size_bytes`` is the total
    size of its files.
    """

    digest: str
    """SHA-256 of the manifest's text, which identifies the manifest."""
    files: int
    links: int
    size_bytes: int
    """Total size of all files."""


def escape_path(path: bytes) -> str:
    """Return a path as it is written in a manifest: one printable line, different for every
    path.
    """
    if _PLAIN.fullmatch(path):
        return path.decode("ascii")
    return _SPECIAL.sub(_escape_match, path.decode("utf-8", "surrogateescape"))


def _escape_match(match: re.Match[str]) -> str:
    raw = match[0].encode("utf-8", "surrogateescape")
    named = _NAMED.get(raw)
    return "".join(f"\\x{byte:02x}" for byte in raw) if named is None else named.decode()


def unescape_path(text: bytes) -> bytes:
    """Return the path whose escaped form is ``text``.

    Raises ``ValueError`` if ``escape_path`` would write this path in another form.
    """
    if _PLAIN.fullmatch(text):
        return text
    path = _ESCAPE.sub(_unescape_match, text)
    if escape_path(path).encode() != text:
        raise ValueError("is not in canonical form")
    return path


def _unescape_match(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if len(code) == 3:
        return bytes.fromhex(code[1:].decode())
    return _MEANT.get(code, b"")


def make_path_sort_key(path: bytes) -> bytes:
    """Return the sort key of a path. It compares component by component, so that the entries of a
    folder are adjacent.
    """
    return path.replace(b"/", b"\0")


def check_path(path: bytes) -> None:
    """Check that a dataset or tree may contain this path.

    Raises ``ValueError`` with the reason if it may not.
    """
    if not path or path.startswith(b"/"):
        raise ValueError("is not relative to its folder")
    if b"\0" in path:
        raise ValueError("contains a NUL byte")
    if len(path) > MAX_PATH_BYTES:
        raise ValueError(f"is longer than {MAX_PATH_BYTES} bytes")
    for name in path.split(b"/"):
        if name in (b"", b".", b".."):
            raise ValueError("is not a plain path: it has an empty part, '.' or '..'")
        if len(name) > MAX_NAME_BYTES:
            raise ValueError(f"has a name of more than {MAX_NAME_BYTES} bytes")


def check_target(path: bytes, target: bytes) -> None:
    """Check that the link at ``path`` may point to ``target``.

    Raises ``ValueError`` with the reason if it may not.
    """
    if not target or b"\0" in target or len(target) > MAX_PATH_BYTES:
        raise ValueError("points to an invalid path")
    if target.startswith(b"/"):
        raise ValueError(
            "points to an absolute path, which may differ where jobs run: make it relative"
        )
    parts = [part for part in target.split(b"/") if part not in (b"", b".")]
    up = 0
    while up < len(parts) and parts[up] == b"..":
        up += 1
    if up > path.count(b"/"):
        raise ValueError("points out of its folder")
    if b".." in parts[up:]:
        raise ValueError("has '..' in the middle of its target: remove it")


class PathOrder:
    """Check that paths are passed in the order of a manifest. Only the previous path is kept in
    memory.
    """

    def __init__(self) -> None:
        self._path = b""
        self._key = b""

    def check(self, path: bytes) -> None:
        """Raise ``ValueError`` if ``path`` may not follow the path of the previous call."""
        key = make_path_sort_key(path)
        if key <= self._key:
            if path == self._path:
                raise ValueError("names the same path as the one before")
            raise ValueError("is not in order")
        if self._path and key.startswith(self._key + b"\0"):
            raise ValueError("lies below an entry that is not a folder")
        self._path, self._key = path, key


def serialize_manifest(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield the text of a manifest in parts; ``entries`` may be in any order.

    Raises:
        ManifestError: a dataset cannot contain one of the paths or link targets, or a path occurs
            twice.
    """
    ordered = PathOrder()
    piece = bytearray(HEADER)
    for entry in sorted(entries, key=lambda entry: make_path_sort_key(entry.path)):
        try:
            check_path(entry.path)
            ordered.check(entry.path)
            if isinstance(entry, ManifestLink):
                check_target(entry.path, entry.target)
        except ValueError as error:
            raise ManifestError(f"cannot have {escape_path(entry.path)}: it {error}") from error
        if isinstance(entry, ManifestLink):
            line = f"link\t{escape_path(entry.target)}\t{escape_path(entry.path)}\n"
        else:
            line = f"{entry.sha256}\t{entry.size}\t{escape_path(entry.path)}\n"
        piece += line.encode()
        if len(piece) >= _CHUNK:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def parse_manifest(chunks: Iterable[bytes]) -> Iterator[Entry]:
    """Parse a manifest and yield its entries. Only one line is kept in memory.

    ``chunks`` is the text, divided into chunks of any size.

    Raises:
        ManifestError: the text is not a complete manifest in canonical form. Entries before the
            invalid line have been yielded already; do not use any entry before the iteration ends.
    """
    ordered = PathOrder()
    for number, line in _split_lines(chunks):
        if number == 1:
            if line + b"\n" != HEADER:
                raise ManifestError(f"is not {HEADER.decode().strip()!r}", 1)
            continue
        try:
            entry = _parse_entry(line)
            check_path(entry.path)
            ordered.check(entry.path)
            if isinstance(entry, ManifestLink):
                check_target(entry.path, entry.target)
        except ValueError as error:
            raise ManifestError(str(error), number) from error
        yield entry


def summarize_manifest(chunks: Iterable[bytes]) -> Summary:
    """Parse and validate a manifest, and return its summary.

    Raises:
        ManifestError: the text is not a complete manifest in canonical form.
    """
    digest = hashlib.sha256()

    def seen() -> Iterator[bytes]:
        for chunk in chunks:
            digest.update(chunk)
            yield chunk

    files = links = size = 0
    for entry in parse_manifest(seen()):
        if isinstance(entry, ManifestLink):
            links += 1
        else:
            files += 1
            size += entry.size
    if size > MAX_SIZE:
        raise ManifestError("has files of more bytes than any file system holds")
    return Summary(digest.hexdigest(), files, links, size)


def _parse_entry(line: bytes) -> Entry:
    match = _FILE.fullmatch(line)
    if match is not None:
        size = int(match[2])
        if size > MAX_SIZE:
            raise ValueError("has a size that no file has")
        return ManifestFile(unescape_path(match[3]), size, match[1].decode())
    match = _LINK.fullmatch(line)
    if match is not None:
        return ManifestLink(unescape_path(match[2]), unescape_path(match[1]))
    raise ValueError("is neither a file (sha256, size, path) nor a link (link, target, path)")


def _split_lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    rest = b""
    number = 0
    for chunk in chunks:
        # Text that has no line feed must not be held, nor joined again and again, without end.
        lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
        rest = lines.pop()
        for line in lines:
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise ManifestError("is too long", number)
            yield number, line
        if len(rest) > MAX_LINE_BYTES:
            raise ManifestError("is too long", number + 1)
    if rest:
        raise ManifestError("is incomplete: the text is cut off", number + 1)
    if number == 0:
        raise ManifestError("is empty")


def compress_manifest(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Compress a manifest with gzip and yield the result. The same text always gives the same
    bytes.
    """
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    for chunk in chunks:
        packed = packer.compress(chunk)
        if packed:
            yield packed
    yield packer.flush()


def decompress_manifest(chunks: Iterable[bytes], *, most_bytes: int) -> Iterator[bytes]:
    """Decompress gzip data and yield the text. ``most_bytes`` is the maximum size of the text.

    Raises:
        ManifestError: the input is not one complete gzip stream, or the text is larger.
    """
    unpacker = zlib.decompressobj(31)
    remaining = most_bytes
    for chunk in chunks:
        rest = chunk
        while rest:
            if unpacker.eof:
                raise ManifestError("is followed by something else")
            try:
                piece = unpacker.decompress(rest, _CHUNK)
            except zlib.error as error:
                raise ManifestError("is not a gzip stream, or a damaged one") from error
            rest = unpacker.unconsumed_tail or unpacker.unused_data
            remaining -= len(piece)
            if remaining < 0:
                raise ManifestError(f"is larger than {most_bytes} bytes")
            if piece:
                yield piece
    # What zlib still holds is less than a window.
    tail = b"" if unpacker.eof else unpacker.flush()
    if not unpacker.eof:
        raise ManifestError("is incomplete: its gzip stream is cut off")
    if tail:
        if len(tail) > remaining:
            raise ManifestError(f"is larger than {most_bytes} bytes")
        yield tail
