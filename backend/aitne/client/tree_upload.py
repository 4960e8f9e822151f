"""Upload of working trees, folders of which jobs get a copy to run in."""

from __future__ import annotations

from aitne.client.api_session import quote_segment
from aitne.client.record_base import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from aitne.client.api_session import ApiSession
    from aitne.client.manifests import Progress
    from aitne.client.working_tree_scan import WorkingTree

BATCH_BYTES = 4 << 20
"""Maximum size in bytes of the contents in one request; a larger file has a request of its own."""
BATCH_FILES = 1_000
UPLOAD_S = 600.0
"""Timeout in seconds of a request that uploads contents."""


class TreeLimitsRecord(Record):
    """Limits of the platform for uploaded working trees."""

    max_files: int
    """Maximum number of files and links of one tree."""
    max_bytes: int
    """Maximum size of one tree."""
    quota_bytes: int
    """Maximum total size of all trees of the user."""


class TreeRecord(Record):
    """Uploaded working tree. A job file refers to it by its ``digest``, in the field ``tree``."""

    digest: str
    """SHA-256 that identifies the tree."""
    files: int
    """Number of files and links."""
    size_bytes: int
    commit: str | None
    """Git commit that was checked out; None: not a git repository, or no commit yet."""
    dirty: bool | None
    """Whether there were uncommitted changes; None if ``commit`` is None."""
    uploaded_files: int
    """Number of file contents that this upload transferred; the platform had the others already."""
    uploaded_bytes: int
    """Size of the file contents that this upload transferred."""


class Trees:
    """Operations on working trees, as ``client.trees``."""

    def __init__(self, session: ApiSession) -> None:
        self._session = session

    def limits(self) -> TreeLimitsRecord:
        """Return the platform's limits for working trees."""
        return TreeLimitsRecord(self._session.request_json("GET", "/trees:limits"))

    def upload(
        self,
        folder: str | os.PathLike[str] | None,
        *,
        files: Mapping[str, bytes] | None = None,
        heard: Callable[[Progress], None] | None = None,
    ) -> TreeRecord:
        """Upload a folder as a working tree for jobs and return its record. File contents that the
        platform already has are not transferred again.

        In a git repository, the tree contains the files that git tracks or would add; elsewhere, it
        contains all files. Paths listed in the folder's ``.aitneignore`` are left out. ``files``
        maps the paths of additional files to their contents; if ``folder`` is None, the tree
        contains only these. ``heard`` is a progress callback.

        Raises:
            InvalidInput: the folder cannot be read, is too large, or was changed meanwhile.
            Conflict: the user's working trees would exceed the quota.
            Unreachable: the platform does not answer. A later call continues the upload.
        """
        from aitne.client.manifests import Progress
        from aitne.client.working_tree_scan import WorkingTree, read_working_tree
        from aitne.core.errors import Conflict
        from aitne.core.tree_document import JobTree, compute_tree_digest, serialize_tree

        working_tree = WorkingTree(b"", JobTree((), (), None, None), files)
        if folder is not None:
            limits = self.limits()
            found = read_working_tree(
                folder, max_files=limits.max_files, max_bytes=limits.max_bytes
            )
            working_tree = WorkingTree(found.root, found.tree, files)
        document = serialize_tree(working_tree.tree)
        path = f"/trees/{quote_segment(compute_tree_digest(document))}"
        answer = self._session.request_json("PUT", path, body=document, repeatable=True)
        missing: list[str] = answer["missing"]
        progress = Progress()
        progress.stage, progress.files = "send", len(missing)
        progress.total_bytes = sum(working_tree.files[sha256].size for sha256 in missing)
        for batch in _divide_contents(working_tree, missing):
            body = b"".join(
                part
                for sha256 in batch
                for part in (
                    _make_content_head(working_tree, sha256),
                    working_tree.read_content(sha256),
                )
            )
            self._session.request_json(
                "PUT", f"{path}/blobs", body=body, repeatable=True, timeout_s=UPLOAD_S
            )
            progress.done_files += len(batch)
            progress.done_bytes += sum(working_tree.files[sha256].size for sha256 in batch)
            if heard is not None:
                heard(progress)
        if missing:
            answer = self._session.request_json("PUT", path, body=document, repeatable=True)
            if answer["missing"]:
                raise Conflict("The upload was disturbed by another one. Run the command again.")
        uploaded = {"uploaded_files": len(missing), "uploaded_bytes": progress.total_bytes}
        return TreeRecord({**answer, **uploaded})


def _make_content_head(working_tree: WorkingTree, sha256: str) -> bytes:
    return f"{sha256} {working_tree.files[sha256].size}\n".encode()


def _divide_contents(working_tree: WorkingTree, missing: Sequence[str]) -> Iterator[list[str]]:
    """Divide the missing contents into lists that are sent in one request each."""
    batch: list[str] = []
    size = 0
    for sha256 in missing:
        more = working_tree.files[sha256].size
        if batch and (size + more > BATCH_BYTES or len(batch) >= BATCH_FILES):
            yield batch
            batch, size = [], 0
        batch.append(sha256)
        size += more
    if batch:
        yield batch
