"""A dataset's manifest: its files and links, one a line, each file with its checksum.

The text, always UTF-8 with a line feed after every line::

    aitne-manifest 1
    <sha256, 64 hexadecimal digits> TAB <size in bytes> TAB <path>
    link TAB <target> TAB <path>

Paths are relative to the dataset and lie in no order but this one: component by component, each
compared by its bytes, so that a dataset has exactly one manifest, and ``sha256`` of the text names
it. A path is bytes: what is no UTF-8, and characters that move a cursor or turn a line round, are
written ``\\xHH`` a byte (``\\n``, ``\\t``, ``\\r`` where they have names) and a backslash ``\\\\``;
no other spelling is read. Folders are no entries: an empty one is not part of a dataset. A link may
only point to where the dataset is whole too: relative, ``..`` at its beginning alone, and never
above the dataset; as no entry lies below a link, that keeps even chains of links inside.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from aitne.core.errors import InvalidInput

HEADER: Final = b"aitne-manifest 1\n"
MAX_PATH_BYTES: Final = 4_095
MAX_NAME_BYTES: Final = 255
MAX_LINE_BYTES: Final = 2 * 4 * MAX_PATH_BYTES + 80
MAX_SIZE: Final = 2**63 - 1
MOST_BYTES: Final = 1 << 30
"""Maximum bytes of a manifest, of its text and of its packed form: about ten million files."""
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
    """A manifest, or text that should become one, breaks a rule of the format; ``line`` counts from
    1."""

    code = "invalid_manifest"

    def __init__(self, reason: str, line: int | None = None) -> None:
        position = "The manifest" if line is None else f"Line {line} of the manifest"
        super().__init__(f"{position} {reason}.")
        self.reason = reason
        self.line = line


class ManifestFile(NamedTuple):
    """A file: its path in the dataset, size in bytes and sha256 in hexadecimal digits."""

    path: bytes
    size: int
    sha256: str


class ManifestLink(NamedTuple):
    """A symbolic link and where it points."""

    path: bytes
    target: bytes


Entry = ManifestFile | ManifestLink


class Summary(NamedTuple):
    """Summary of a whole manifest. ``digest`` names it; ``size_bytes`` is the total size of its
    files."""

    digest: str
    files: int
    links: int
    size_bytes: int


def escape(path: bytes) -> str:
    """Return a path as its manifest writes it: one printable line, different for every path."""
    if _PLAIN.fullmatch(path):
        return path.decode("ascii")
    return _SPECIAL.sub(_escaped, path.decode("utf-8", "surrogateescape"))


def _escaped(match: re.Match[str]) -> str:
    raw = match[0].encode("utf-8", "surrogateescape")
    named = _NAMED.get(raw)
    return "".join(f"\\x{byte:02x}" for byte in raw) if named is None else named.decode()


def unescape(text: bytes) -> bytes:
    """Return the path that is written so. Raises ``ValueError`` if ``escape`` would write it
    otherwise."""
    if _PLAIN.fullmatch(text):
        return text
    path = _ESCAPE.sub(_meant, text)
    if escape(path).encode() != text:
        raise ValueError("is not in canonical form")
    return path


def _meant(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if len(code) == 3:
        return bytes.fromhex(code[1:].decode())
    return _MEANT.get(code, b"")


def order(path: bytes) -> bytes:
    """Return the sort key of a path: by component, so that a folder's entries stay together."""
    return path.replace(b"/", b"\0")


def check_path(path: bytes) -> None:
    """Raise ``ValueError`` if a dataset or tree cannot have such a path; the message gives the
    reason."""
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
    """Raise ``ValueError`` if the link at ``path`` may not point to ``target``."""
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
    """Check of the order of entries; keeps only the last of them."""

    def __init__(self) -> None:
        self._path = b""
        self._key = b""

    def check(self, path: bytes) -> None:
        """Raise ``ValueError`` if ``path`` may not follow the path that was checked before."""
        key = order(path)
        if key <= self._key:
            if path == self._path:
                raise ValueError("names the same path as the one before")
            raise ValueError("is not in order")
        if self._path and key.startswith(self._key + b"\0"):
            raise ValueError("lies below an entry that is not a folder")
        self._path, self._key = path, key


def serialize(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield the text of a manifest, in pieces; ``entries`` in any order.

    Raises:
        ManifestError: a path or a link's target cannot be in a dataset, or a path comes twice.
    """
    ordered = PathOrder()
    piece = bytearray(HEADER)
    for entry in sorted(entries, key=lambda entry: order(entry.path)):
        try:
            check_path(entry.path)
            ordered.check(entry.path)
            if isinstance(entry, ManifestLink):
                check_target(entry.path, entry.target)
        except ValueError as error:
            raise ManifestError(f"cannot have {escape(entry.path)}: it {error}") from error
        if isinstance(entry, ManifestLink):
            line = f"link\t{escape(entry.target)}\t{escape(entry.path)}\n"
        else:
            line = f"{entry.sha256}\t{entry.size}\t{escape(entry.path)}\n"
        piece += line.encode()
        if len(piece) >= _CHUNK:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def parse(chunks: Iterable[bytes]) -> Iterator[Entry]:
    """Yield the entries of a manifest's text in pieces of any size; one line is held at a time.

    Raises:
        ManifestError: the text is no whole, canonical manifest. The entries before the line that is
            wrong have been yielded by then: use none before the end was reached.
    """
    ordered = PathOrder()
    for number, line in _lines(chunks):
        if number == 1:
            if line + b"\n" != HEADER:
                raise ManifestError(f"is not {HEADER.decode().strip()!r}", 1)
            continue
        try:
            entry = _entry(line)
            check_path(entry.path)
            ordered.check(entry.path)
            if isinstance(entry, ManifestLink):
                check_target(entry.path, entry.target)
        except ValueError as error:
            raise ManifestError(str(error), number) from error
        yield entry


def summarize(chunks: Iterable[bytes]) -> Summary:
    """Read a manifest to its end, strictly, and return its summary.

    Raises:
        ManifestError: the text is not a whole, canonical manifest.
    """
    digest = hashlib.sha256()

    def seen() -> Iterator[bytes]:
        for chunk in chunks:
            digest.update(chunk)
            yield chunk

    files = links = size = 0
    for entry in parse(seen()):
        if isinstance(entry, ManifestLink):
            links += 1
        else:
            files += 1
            size += entry.size
    if size > MAX_SIZE:
        raise ManifestError("has files of more bytes than any file system holds")
    return Summary(digest.hexdigest(), files, links, size)


def _entry(line: bytes) -> Entry:
    match = _FILE.fullmatch(line)
    if match is not None:
        size = int(match[2])
        if size > MAX_SIZE:
            raise ValueError("has a size that no file has")
        return ManifestFile(unescape(match[3]), size, match[1].decode())
    match = _LINK.fullmatch(line)
    if match is not None:
        return ManifestLink(unescape(match[2]), unescape(match[1]))
    raise ValueError("is neither a file (sha256, size, path) nor a link (link, target, path)")


def _lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
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


def pack(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the text as it is sent and stored: gzip, the same bytes for the same text."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    for chunk in chunks:
        packed = packer.compress(chunk)
        if packed:
            yield packed
    yield packer.flush()


def unpack(chunks: Iterable[bytes], *, most_bytes: int) -> Iterator[bytes]:
    """Yield the text again, never more than ``most_bytes`` of it however small the packed form was.

    Raises:
        ManifestError: the input is not one whole gzip stream, or unpacks to more.
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
