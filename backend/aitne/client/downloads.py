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

from aitne.client.api_session import RequestBackoff, quote_segment
from aitne.client.http_transport import ConnectionFailed
from aitne.client.manifests import Progress
from aitne.client.part_file import LocalFileError, PartFile, open_part_file
from aitne.core.errors import AitneError, Conflict, InvalidInput, NotAuthenticated, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from aitne.client.api_session import ApiSession
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
            "problems": _to_messages(self.problems),
            "left_out": _to_messages(self.left_out),
        }


def get_file_address(job_id: str, folder: str, path: str) -> str:
    """Return the address of a file of a job below the API's root; ``path`` is as a user writes it."""
    return f"/files/jobs/{quote_segment(job_id)}/{quote_segment(folder)}/{_encode_path(path)}"


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
            encoded = _encode_path(path)
            try:
                self._download_path(encoded)
            except (NotAuthenticated, LocalFileError):
                raise
            except AitneError as error:
                if len(paths) == 1 and not self._outcome.files:
                    raise
                self._outcome.problems[_decode_path(encoded)] = error.message
        return self._outcome

    def _download_path(self, path: str) -> None:
        try:
            entries = self._list_entries(path)
            first = next(entries, None)
        except Conflict as no_folder:
            try:
                self._download_file(path, None)
            except Conflict:  # neither: a pipe, or a folder with too many entries
                raise no_folder from None
            return
        if first is not None:
            self._download_entry(path, first)
            for entry in entries:
                self._download_entry(path, entry)

    def _list_entries(self, path: str) -> Iterator[dict[str, Any]]:
        address = get_file_address(self._job_id, self._folder, "") + path
        return self._session.list_pages(f"{address.rstrip('/')}/", {})

    def _download_entry(self, above: str, entry: dict[str, Any]) -> None:
        """Download an entry of a folder. Pipes and devices are left out, and so are links to
        folders, which could lead in a circle."""
        path = f"{above}/{entry['path']}" if above else str(entry["path"])
        try:
            if entry["kind"] == "file":
                self._download_file(path, entry)
            elif entry["kind"] != "folder":
                self._outcome.left_out[_decode_path(path)] = "no regular file"
            elif entry["link"]:
                self._outcome.left_out[_decode_path(path)] = "a link to a folder"
            else:
                for below in self._list_entries(path):
                    self._download_entry(path, below)
        except NotFound:
            return  # the job has removed it meanwhile
        except (NotAuthenticated, LocalFileError):
            raise
        except AitneError as error:
            self._outcome.problems[_decode_path(path)] = error.message

    def _download_file(self, path: str, entry: dict[str, Any] | None) -> None:
        target = self._get_local_path(path)
        self._progress.files += 1
        if entry is not None:
            modified = _parse_time(entry["modified_at"])
            if self._is_done(path, target, int(entry["size_bytes"]), modified):
                return
        try:
            os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
            if os.path.isdir(target):
                raise IsADirectoryError(0, "there is a folder of that name")
            with open_part_file(target, path) as part:
                if not self._receive_file(path, target, part):
                    return
        except OSError as error:
            raise LocalFileError(
                f"{target} cannot be written: {error.strerror or error}."
            ) from error
        self._progress.done_files += 1
        self._report_progress(at_once=True)

    def _is_done(self, path: str, target: str, size: int, modified: float | None) -> bool:
        """Return whether the local file needs no transfer, which is then noted in the outcome."""
        try:
            facts = os.stat(target)
        except OSError:
            return False
        same_time = modified is not None and int(facts.st_mtime) == int(modified)
        if facts.st_size == size and same_time:
            self._add_result(path, target, size, UNCHANGED)
            return True
        if not self._replace and modified is not None and facts.st_mtime > modified + 1:
            self._add_result(path, target, facts.st_size, KEPT)
            return True
        return False

    def _receive_file(self, path: str, target: str, part: PartFile) -> bool:
        """Receive the file into ``part`` and rename it to ``target``; return False if the local
        file needs no transfer."""
        patience, tags = RequestBackoff(self._session), {part.etag} - {""}
        while True:
            try:
                reply = self._open_response(path, part)
                try:
                    size, modified = _get_size_and_time(reply, part)
                    if not part.size and self._is_done(path, target, size, modified):
                        return False
                    self._begin_part(reply, part, size)
                    tags.add(part.etag)
                    self._read_body(reply, part, patience)
                finally:
                    reply.close()
            except ConnectionFailed as failure:
                if len(tags) > MOST_CHANGES:
                    raise InvalidInput(
                        f"{_decode_path(path)} changes again and again while it is downloaded: the job "
                        "still writes it. Try again when it has ended."
                    ) from failure
                patience.handle_failure(failure, repeatable=True)
                continue
            part.finish(target, modified)
            self._add_result(path, target, size, DOWNLOADED)
            return True

    def _open_response(self, path: str, part: PartFile) -> Reply:
        # The last byte is read again, so that the range of a complete file is not empty.
        headers = (
            {"Range": f"bytes={part.size - 1}-", "If-Range": f'"{part.etag}"'} if part.size else {}
        )
        address = get_file_address(self._job_id, self._folder, "") + path
        return self._session.open_stream(address, headers=headers, timeout_s=SILENCE_S)

    def _begin_part(self, reply: Reply, part: PartFile, size: int) -> None:
        """Prepare ``part`` for the body of the response, which completes a file of ``size``
        bytes."""
        start = part.size - 1 if reply.status == 206 else 0
        part.begin(reply.headers.get("etag", "").strip('"'), start)
        self._progress.total_bytes += size - part.counted
        self._progress.done_bytes += start - part.done
        part.counted, part.done = size, start

    def _read_body(self, reply: Reply, part: PartFile, patience: RequestBackoff) -> None:
        known = part.done + 1 if reply.status == 206 else 0
        for chunk in reply.chunks():
            part.write(chunk)
            part.done += len(chunk)
            if part.done > known:
                patience.reset()
            self._progress.done_bytes += len(chunk)
            self._report_progress()

    def _add_result(self, path: str, target: str, size: int, state: str) -> None:
        self._outcome.files.append(DownloadedFile(_decode_path(path), target, size, state))

    def _report_progress(self, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if self._heard is not None and (at_once or now - self._told_at >= _EVERY_S):
            self._told_at = now
            self._heard(self._progress)

    def _get_local_path(self, path: str) -> str:
        """Return the local path for a percent-encoded one. A name that could lead out of the folder
        is refused, whatever the platform sent."""
        names = [os.fsdecode(unquote_to_bytes(part)) for part in path.split("/") if part]
        for name in names:
            if name in (".", "..") or "\0" in name or os.path.basename(name) != name:
                raise InvalidInput(f"{_decode_path(path)} is not a path below the job's folder.")
        return os.path.join(self._to, *names)


def _encode_path(path: str) -> str:
    """Return a path below a folder percent-encoded: ``.`` is the folder itself, and ``./out/`` is
    ``out``."""
    parts = [part for part in os.fsencode(path).split(b"/") if part not in (b"", b".")]
    return quote(b"/".join(parts), safe="/")


def _get_size_and_time(reply: Reply, part: PartFile) -> tuple[int, float | None]:
    """Return the size of the whole file of a response, and its time of change."""
    length = int(reply.headers.get("content-length", "0"))
    changed = reply.headers.get("last-modified")
    modified = None if changed is None else parsedate_to_datetime(changed).timestamp()
    return length + (part.size - 1 if reply.status == 206 else 0), modified


def _to_messages(sentences: dict[str, str]) -> list[dict[str, str]]:
    return [{"path": path, "message": text} for path, text in sentences.items()]


def _parse_time(text: str | None) -> float | None:
    from datetime import datetime

    return None if text is None else datetime.fromisoformat(text).timestamp()


def _decode_path(path: str) -> str:
    """Return a percent-encoded path as text for people."""
    return unquote_to_bytes(path).decode("utf-8", "replace")
