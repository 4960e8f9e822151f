"""Creation of a folder's manifest, and comparison of a folder with its manifest.

::

    from aitne.client.manifests import make, verify

    made = make("/data/div2k")
    print(made.digest, len(made.files))
    print([each.path for each in verify("/data/div2k", [made.text]).differences])

Both read files with all cores and report progress to a callback. If a folder for a journal is
given, they resume where an interrupted run stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat

from aitne.client.checksum_journal import Journal
from aitne.client.dataset_folder_scan import (
    BROKEN,
    CHANGED,
    UNREADABLE,
    Tree,
    TreeProblem,
    scan_folder,
)
from aitne.client.file_hashing import HashedFile, HashTask, hash_files
from aitne.core.dataset_manifest import (
    Entry,
    ManifestFile,
    ManifestLink,
    escape_path,
    parse_manifest,
    serialize_manifest,
)
from aitne.core.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from aitne.client.file_hashing import Outcome

    Listener = Callable[["Progress"], None]

MISSING, ADDITIONAL, DIFFERS = "missing", "additional", "differs"


class FolderListing:
    """Contents of a folder, listed before any file is read."""

    def __init__(self, root: str, tree: Tree) -> None:
        self.root = root
        self.files = len(tree.files)
        self.links = len(tree.links)
        self.size_bytes = sum(stamp[0] for stamp in tree.files.values() if stamp is not None)


class Progress:
    """Progress of making or verifying a manifest, or of an upload. It is passed to the progress
    callback about ten times a second."""

    def __init__(self) -> None:
        self.stage = "list"
        """Current stage: ``list``, ``read``, then ``check``; for an upload ``send``, for a
        download ``receive``."""
        self.found = 0
        """Number of files and folders found so far."""
        self.files = 0
        self.total_bytes = 0
        """Number of bytes to read; known from the stage ``read`` on."""
        self.done_files = 0
        self.done_bytes = 0
        self.kept_files = 0
        self.kept_bytes = 0
        """Number of those bytes that an earlier, interrupted run had read already."""


class FolderManifest:
    """Manifest of a folder. If ``problems`` is not empty, the manifest could not be created and
    ``text`` is empty.
    """

    def __init__(
        self,
        root: str,
        entries: list[Entry],
        problems: list[TreeProblem],
        journal: Journal | None = None,
    ) -> None:
        self.root = root
        self._journal = journal
        self.problems = problems
        self.files = [entry for entry in entries if isinstance(entry, ManifestFile)]
        self.links = [entry for entry in entries if isinstance(entry, ManifestLink)]
        self.size_bytes = sum(file.size for file in self.files)
        self.text = b"" if problems else b"".join(serialize_manifest(entries))
        self.digest = hashlib.sha256(self.text).hexdigest()

    def delete_journal(self) -> None:
        """Delete the journal with the checksums. A later run for this folder then reads all files
        again.
        """
        if self._journal is not None:
            self._journal.remove()


class ManifestDifference:
    """A path whose content differs from the manifest, or that could not be compared.

    ``kind`` is ``differs``, ``missing`` or ``additional``, or the kind of a ``TreeProblem``:
    ``refused``, ``broken``, ``unreadable`` or ``changed``.
    """

    __slots__ = ("kind", "path", "reason")

    def __init__(self, path: bytes, kind: str, reason: str) -> None:
        self.path = escape_path(path)
        """Path with special characters escaped, as the manifest writes it: one printable line."""
        self.kind = kind
        self.reason = reason

    @property
    def is_damage(self) -> bool:
        """Return whether the path is known to differ. False if it could not be checked now, because
        it is unreadable for this user or was changed meanwhile."""
        return self.kind not in (UNREADABLE, CHANGED)

    @property
    def raw(self) -> dict[str, str]:
        """Return the difference as a dictionary for JSON."""
        return {"path": self.path, "what": self.kind, "reason": self.reason}


class Verification:
    """Result of the comparison of a folder with a manifest."""

    def __init__(
        self,
        root: str,
        digest: str,
        files: list[ManifestFile],
        differences: list[ManifestDifference],
    ) -> None:
        self.root = root
        self.manifest = digest
        """SHA-256 of the manifest's text."""
        self.files = len(files)
        """Number of files in the manifest."""
        self.size_bytes = sum(file.size for file in files)
        self.differences = sorted(differences, key=lambda difference: difference.path)

    @property
    def ok(self) -> bool:
        """Return whether the folder is identical to its manifest."""
        return not self.differences

    @property
    def damaged_files(self) -> int:
        """Return the number of paths that are known to differ from the manifest."""
        return sum(difference.is_damage for difference in self.differences)


def make(
    path: str | os.PathLike[str],
    *,
    listed: Callable[[FolderListing], None] | None = None,
    journal_dir: Path | None = None,
    heard: Listener | None = None,
    workers: int | None = None,
) -> FolderManifest:
    """Create the manifest of the folder ``path`` (which may be a symbolic link) by reading all of
    its files.

    Args:
        listed: called with the numbers of files, links and bytes before the first file is read; it
            may raise an error to stop.
        journal_dir: folder for the journal of checksums, with which an interrupted run resumes;
            None: no journal. The journal is kept until ``FolderManifest.delete_journal`` is called, so that
            files need not be read again if the manifest cannot be used.
        heard: progress callback.
        workers: number of threads; None: one for each CPU.

    Files that change while the manifest is created are listed in ``problems`` of the result.

    Raises:
        InvalidInput: the folder does not exist, cannot be read, or contains no files.
    """
    run = _Run(path, heard, workers)
    before = run.scan(stamps=True)
    if not before.files and not before.problems:
        raise InvalidInput(f"{run.shown} has no files: a dataset needs at least one.")
    if before.problems:
        # Reading the other files can take hours and would be useless.
        return FolderManifest(run.shown, [], before.problems)
    if listed is not None:
        listed(FolderListing(run.shown, before))
    entries: list[Entry] = [ManifestLink(*link) for link in before.links.items()]
    problems: list[TreeProblem] = []
    tasks = [
        HashTask(file_path, file_stamp[0], file_stamp)
        for file_path, file_stamp in before.files.items()
        if file_stamp
    ]
    with (
        Journal(journal_dir, "make", run.root) as journal,
        contextlib.closing(run.hash_files(tasks, journal)) as outcomes,
    ):
        for outcome in outcomes:
            if isinstance(outcome, TreeProblem):
                problems.append(outcome)
            elif outcome.sha256 is not None:
                entries.append(ManifestFile(outcome.path, outcome.stamp[0], outcome.sha256))
        if not problems:
            problems = _list_changes(before, run.scan(stamps=True, stage="check"))
    return FolderManifest(run.shown, entries, problems, journal)


def verify(
    path: str | os.PathLike[str],
    text: Iterable[bytes],
    *,
    journal_dir: Path | None = None,
    heard: Listener | None = None,
    workers: int | None = None,
) -> Verification:
    """Compare every file in the folder ``path`` with a manifest.

    ``text`` is the manifest in chunks of any size. ``journal_dir``, ``heard`` and ``workers`` have
    the same meaning as in ``make``.

    Raises:
        InvalidInput: the folder does not exist or cannot be read.
        ManifestError: the text is not a manifest.
    """
    run = _Run(path, heard, workers)
    digest = hashlib.sha256()
    entries = list(parse_manifest(_update_digest(text, digest)))
    comparison = _Comparison(run.scan(stamps=False))
    tasks = [HashTask(file.path, file.size) for file in comparison.compare_entries(entries)]
    with (
        Journal(journal_dir, f"verify {digest.hexdigest()}", run.root) as journal,
        contextlib.closing(run.hash_files(tasks, journal)) as outcomes,
    ):
        for outcome in outcomes:
            comparison.compare_content(outcome)
    journal.remove()
    files = [entry for entry in entries if isinstance(entry, ManifestFile)]
    return Verification(run.shown, digest.hexdigest(), files, comparison.found)


class _Run:
    """Common part of ``make`` and ``verify``: lists a folder, reads its files and reports
    progress."""

    def __init__(
        self, path: str | os.PathLike[str], heard: Listener | None, workers: int | None
    ) -> None:
        self.root = _resolve_folder(os.fsencode(path))
        self.shown = os.fsdecode(self.root)
        self._workers = workers
        self._heard = heard
        self._progress = Progress()

    def scan(self, *, stamps: bool, stage: str = "list") -> Tree:
        """List the folder recursively and return its entries.

        ``stamps`` is whether the stamp of each file is determined, which takes longer. ``stage`` is
        the name of this step in the progress reports.
        """
        self._progress.stage = stage
        self._report_progress(0)
        return scan_folder(self.root, stamps=stamps, heard=self._report_found)

    def hash_files(self, tasks: Sequence[HashTask], journal: Journal) -> Generator[Outcome]:
        """Hash files and yield the results. Each result is written to the journal before it is
        yielded."""
        progress = self._progress
        progress.stage = "read"
        progress.files = len(tasks)
        progress.total_bytes = sum(task.size for task in tasks)
        # Closed whatever happens: an interruption waits for the threads, then writes the journal.
        with contextlib.closing(
            hash_files(
                self.root,
                tasks,
                known=journal.known,
                workers=self._workers,
                heard=self._report_progress,
            )
        ) as batches:
            for batch in batches:
                read = [outcome for outcome in batch if isinstance(outcome, HashedFile)]
                journal.add(read)
                known_files = [file for file in read if file.known]
                progress.kept_files += len(known_files)
                progress.kept_bytes += sum(file.stamp[0] for file in known_files)
                progress.done_files += len(batch)
                yield from batch

    def _report_found(self, count: int) -> None:
        self._progress.found = count
        self._report_progress(self._progress.done_bytes)

    def _report_progress(self, done_bytes: int) -> None:
        self._progress.done_bytes = done_bytes
        if self._heard is not None:
            self._heard(self._progress)


class _Comparison:
    """Comparison of a folder with a manifest. ``found`` is the list of differences."""

    def __init__(self, tree: Tree) -> None:
        self.found: list[ManifestDifference] = []
        self._tree = tree
        self._bad = {problem.path: problem for problem in tree.problems}
        self._unlisted = {
            problem.path for problem in tree.problems if problem.kind in (UNREADABLE, BROKEN)
        }
        self._expected: dict[bytes, ManifestFile] = {}

    def compare_entries(self, entries: Iterable[Entry]) -> Sequence[ManifestFile]:
        """Compare paths, types and links with the manifest, and return the files whose contents
        must be read."""
        tree = self._tree
        for entry in entries:
            path = entry.path
            if path in self._bad:
                self._add_uncompared(self._bad.pop(path))
            elif isinstance(entry, ManifestFile):
                if path in tree.files:
                    del tree.files[path]
                    self._expected[path] = entry
                else:
                    self._add_absent(path, tree.links.pop(path, None), "a link instead of a file")
            else:
                target = tree.links.pop(path, None)
                if target is None:
                    is_file = path in tree.files
                    tree.files.pop(path, None)
                    self._add_absent(path, is_file or None, "a file instead of a link")
                elif target != entry.target:
                    self._add_difference(
                        path,
                        f"points to {escape_path(target)} instead of {escape_path(entry.target)}",
                    )
        for path in (*tree.files, *tree.links):
            self.found.append(ManifestDifference(path, ADDITIONAL, "is not in the manifest"))
        for problem in self._bad.values():
            self._add_uncompared(problem)
        return list(self._expected.values())

    def compare_content(self, outcome: Outcome) -> None:
        """Compare the content of a file that was hashed with the manifest."""
        if isinstance(outcome, TreeProblem):
            self._add_uncompared(outcome)
            return
        expected = self._expected[outcome.path]
        if outcome.sha256 is None:
            self._add_difference(
                outcome.path, f"has {outcome.stamp[0]} bytes instead of {expected.size}"
            )
        elif outcome.sha256 != expected.sha256:
            self._add_difference(outcome.path, "has different content")

    def _add_absent(self, path: bytes, other: object, instead: str) -> None:
        if other is not None:
            self._add_difference(path, f"is {instead}")
        elif not self._is_hidden(path):
            self.found.append(ManifestDifference(path, MISSING, "is missing"))

    def _is_hidden(self, path: bytes) -> bool:
        """Return whether the path is below a folder that could not be listed, and is therefore not
        reported as missing."""
        while path:
            path = path.rpartition(b"/")[0]
            if path in self._unlisted:
                return True
        return False

    def _add_difference(self, path: bytes, reason: str) -> None:
        self.found.append(ManifestDifference(path, DIFFERS, reason))

    def _add_uncompared(self, problem: TreeProblem) -> None:
        self.found.append(ManifestDifference(problem.path, problem.kind, problem.reason))


def _resolve_folder(path: bytes) -> bytes:
    try:
        root = os.path.realpath(path, strict=True)
        if not stat.S_ISDIR(os.stat(root).st_mode):
            raise InvalidInput(
                f"{os.fsdecode(path)} is not a folder: a dataset is a folder with files."
            )
        with os.scandir(root):
            return root
    except OSError as error:
        raise InvalidInput(
            f"{os.fsdecode(path)} cannot be read: {error.strerror or error}. Name a folder on a "
            "file system of this machine that you may read."
        ) from error


def _update_digest(text: Iterable[bytes], digest: hashlib._Hash) -> Iterator[bytes]:
    for chunk in text:
        digest.update(chunk)
        yield chunk


def _list_changes(before: Tree, after: Tree) -> list[TreeProblem]:
    """Return the problems of the second scan, and a problem for each path that changed since the
    first."""
    problems = list(after.problems)
    for path, state in after.files.items():
        if path not in before.files:
            problems.append(TreeProblem(path, CHANGED, "was added while other files were read"))
        elif before.files[path] != state:
            problems.append(TreeProblem(path, CHANGED, "was changed while other files were read"))
    for path, target in after.links.items():
        if before.links.get(path) != target:
            problems.append(TreeProblem(path, CHANGED, "was changed while other files were read"))
    removed = (before.files.keys() | before.links.keys()) - after.files.keys() - after.links.keys()
    return problems + [
        TreeProblem(path, CHANGED, "was removed while other files were read") for path in removed
    ]
