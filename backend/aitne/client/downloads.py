"""Downloads of files and folders of jobs, which resume after an interruption.

A file arrives in a file beside its target, whose name contains its entity tag, and is renamed when
it is complete. So an interrupted download can ask for the rest of the same version, and a target is
either the earlier file or the complete new one.
"""

from __future__ import annotations

import os
import time
from email.utils import parsedate_to_datetime
from urllib.parse import quote, unquote_to_bytes

from aitne.client.http import ConnectionFailed
from aitne.client.manifests import Progress
from aitne.client.part_file import LocalFileError, PartFile, part_file_of
from aitne.client.session import RequestBackoff, segment
from aitne.core.errors import AitneError, Conflict, InvalidInput, NotAuthenticated, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from aitne.client.session import ApiSession
    from aitne.client.transport import Reply

SILENCE_S = 120.0
"""Timeout in seconds of each wait for data."""
MOST_CHANGES = 3
"""Number of times that a file may change while it is downloaded."""
_EVERY_S = 0.1
DOWNLOADED, UNCHANGED, KEPT = "downloaded", "unchanged", "kept"


class DownloadedFile:
    """One file of a download: its path, where it is, and whether it was transferred."""

    def __init__(self, path: str, local: str, size_bytes: int, state: str) -> None:
        self.path = path
        """Path below the job's folder."""
        self.local = local
        """Path on this machine."""
        self.size_bytes = size_bytes
        self.state = state
        """``downloaded``; ``unchanged``: it was here already; ``kept``: the local file is newer."""


class Download:
    """Outcome of a download."""

    def __init__(self) -> None:
        self.files: list[DownloadedFile] = []
        self.problems: dict[str, str] = {}
        """Reasons why files or folders could not be downloaded, by path."""
        self.left_out: dict[str, str] = {}
        """Kinds of entries of folders that are downloaded only if they are named, or never."""

    @property
    def raw(self) -> dict[str, Any]:
        """The outcome as a JSON object."""
        return {
            "files": [vars(file) for file in self.files],
            "problems": _listed(self.problems),
            "left_out": _listed(self.left_out),
        }


def address_of(job_id: str, folder: str, path: str) -> str:
    """Return the address of a file of a job below the API's root; ``path`` is as a user writes it."""
    return f"/files/jobs/{segment(job_id)}/{segment(folder)}/{_encoded(path)}"


class Downloader:
    """Download of files and folders of one job; its parameters are those of
    ``client.jobs.download``."""

    def __init__(
        self,
        session: ApiSession,
        job_id: str,
        folder: str,
        to: str | os.PathLike[str],
        *,
        replace: bool,
        heard: Callable[[Progress], None] | None,
    ) -> None:
        self._session = session
        self._job_id = job_id
        self._folder = folder
        self._to = os.fspath(to)
        self._replace = replace
        self._heard = heard
        self._progress = Progress()
        self._told_at = 0.0
        self._outcome = Download()

    def download(self, paths: Sequence[str]) -> Download:
        """Download files, and folders with all that is below them; the empty path is the whole
        folder."""
        self._progress.stage = "receive"
        for path in paths:
            encoded = _encoded(path)
            try:
                self._one(encoded)
            except (NotAuthenticated, LocalFileError):
                raise
            except AitneError as error:
                if len(paths) == 1 and not self._outcome.files:
                    raise
                self._outcome.problems[_text(encoded)] = error.message
        return self._outcome

    def _one(self, path: str) -> None:
        try:
            entries = self._entries(path)
            first = next(entries, None)
        except Conflict as no_folder:
            try:
                self._file(path, None)
            except Conflict:  # neither: a pipe, or a folder with too many entries
                raise no_folder from None
            return
        if first is not None:
            self._entry(path, first)
            for entry in entries:
                self._entry(path, entry)

    def _entries(self, path: str) -> Iterator[dict[str, Any]]:
        address = address_of(self._job_id, self._folder, "") + path
        return self._session.pages(f"{address.rstrip('/')}/", {})

    def _entry(self, above: str, entry: dict[str, Any]) -> None:
        """Download an entry of a folder. Pipes and devices are left out, and so are links to
        folders, which could lead in a circle."""
        path = f"{above}/{entry['path']}" if above else str(entry["path"])
        try:
            if entry["kind"] == "file":
                self._file(path, entry)
            elif entry["kind"] != "folder":
                self._outcome.left_out[_text(path)] = "no regular file"
            elif entry["link"]:
                self._outcome.left_out[_text(path)] = "a link to a folder"
            else:
                for below in self._entries(path):
                    self._entry(path, below)
        except NotFound:
            return  # the job has removed it meanwhile
        except (NotAuthenticated, LocalFileError):
            raise
        except AitneError as error:
            self._outcome.problems[_text(path)] = error.message

    def _file(self, path: str, entry: dict[str, Any] | None) -> None:
        target = self._local(path)
        self._progress.files += 1
        if entry is not None:
            modified = _stamp(entry["modified_at"])
            if self._is_done(path, target, int(entry["size_bytes"]), modified):
                return
        try:
            os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
            if os.path.isdir(target):
                raise IsADirectoryError(0, "there is a folder of that name")
            with part_file_of(target, path) as part:
                if not self._receive(path, target, part):
                    return
        except OSError as error:
            raise LocalFileError(
                f"{target} cannot be written: {error.strerror or error}."
            ) from error
        self._progress.done_files += 1
        self._tell(at_once=True)

    def _is_done(self, path: str, target: str, size: int, modified: float | None) -> bool:
        """Return whether the local file needs no transfer, which is then noted in the outcome."""
        try:
            facts = os.stat(target)
        except OSError:
            return False
        same_time = modified is not None and int(facts.st_mtime) == int(modified)
        if facts.st_size == size and same_time:
            self._note(path, target, size, UNCHANGED)
            return True
        if not self._replace and modified is not None and facts.st_mtime > modified + 1:
            self._note(path, target, facts.st_size, KEPT)
            return True
        return False

    def _receive(self, path: str, target: str, part: PartFile) -> bool:
        """Receive the file into ``part`` and rename it to ``target``; return False if the local
        file needs no transfer."""
        patience, tags = RequestBackoff(self._session), {part.etag} - {""}
        while True:
            try:
                reply = self._opened(path, part)
                try:
                    size, modified = _facts(reply, part)
                    if not part.size and self._is_done(path, target, size, modified):
                        return False
                    self._begin(reply, part, size)
                    tags.add(part.etag)
                    self._read(reply, part, patience)
                finally:
                    reply.close()
            except ConnectionFailed as failure:
                if len(tags) > MOST_CHANGES:
                    raise InvalidInput(
                        f"{_text(path)} changes again and again while it is downloaded: the job "
                        "still writes it. Try again when it has ended."
                    ) from failure
                patience.after(failure, repeatable=True)
                continue
            part.finish(target, modified)
            self._note(path, target, size, DOWNLOADED)
            return True

    def _opened(self, path: str, part: PartFile) -> Reply:
        # The last byte is read again, so that the range of a complete file is not empty.
        headers = (
            {"Range": f"bytes={part.size - 1}-", "If-Range": f'"{part.etag}"'} if part.size else {}
        )
        address = address_of(self._job_id, self._folder, "") + path
        return self._session.stream(address, headers=headers, timeout_s=SILENCE_S)

    def _begin(self, reply: Reply, part: PartFile, size: int) -> None:
        """Prepare ``part`` for the body of the response, which completes a file of ``size``
        bytes."""
        start = part.size - 1 if reply.status == 206 else 0
        part.begin(reply.headers.get("etag", "").strip('"'), start)
        self._progress.total_bytes += size - part.counted
        self._progress.done_bytes += start - part.done
        part.counted, part.done = size, start

    def _read(self, reply: Reply, part: PartFile, patience: RequestBackoff) -> None:
        known = part.done + 1 if reply.status == 206 else 0
        for chunk in reply.chunks():
            part.write(chunk)
            part.done += len(chunk)
            if part.done > known:
                patience.reset()
            self._progress.done_bytes += len(chunk)
            self._tell()

    def _note(self, path: str, target: str, size: int, state: str) -> None:
        self._outcome.files.append(DownloadedFile(_text(path), target, size, state))

    def _tell(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if self._heard is not None and (at_once or now - self._told_at >= _EVERY_S):
            self._told_at = now
            self._heard(self._progress)

    def _local(self, path: str) -> str:
        """Return the local path for a percent-encoded one. A name that could lead out of the folder
        is refused, whatever the platform sent."""
        names = [os.fsdecode(unquote_to_bytes(part)) for part in path.split("/") if part]
        for name in names:
            if name in (".", "..") or "\0" in name or os.path.basename(name) != name:
                raise InvalidInput(f"{_text(path)} is not a path below the job's folder.")
        return os.path.join(self._to, *names)


def _encoded(path: str) -> str:
    """Return a path below a folder percent-encoded: ``.`` is the folder itself, and ``./out/`` is
    ``out``."""
    parts = [part for part in os.fsencode(path).split(b"/") if part not in (b"", b".")]
    return quote(b"/".join(parts), safe="/")


def _facts(reply: Reply, part: PartFile) -> tuple[int, float | None]:
    """Return the size of the whole file of a response, and its time of change."""
    length = int(reply.headers.get("content-length", "0"))
    changed = reply.headers.get("last-modified")
    modified = None if changed is None else parsedate_to_datetime(changed).timestamp()
    return length + (part.size - 1 if reply.status == 206 else 0), modified


def _listed(sentences: dict[str, str]) -> list[dict[str, str]]:
    return [{"path": path, "message": text} for path, text in sentences.items()]


def _stamp(text: str | None) -> float | None:
    from datetime import datetime

    return None if text is None else datetime.fromisoformat(text).timestamp()


def _text(path: str) -> str:
    """Return a percent-encoded path as text for people."""
    return unquote_to_bytes(path).decode("utf-8", "replace")
