"""Lists and downloads of the files of jobs."""

from __future__ import annotations

from datetime import datetime

from aitne.client.api_session import quote_segment
from aitne.client.job_runs import WrittenFilesRecord
from aitne.client.record_base import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from aitne.client.api_session import ApiSession
    from aitne.client.downloads import Download
    from aitne.client.manifests import Progress


class StoredFileRecord(Record):
    """An entry of a folder of a job."""

    name: str
    """Name for people; characters that cannot be shown are replaced."""
    path: str
    """Name as a percent-encoded segment of an address."""
    kind: str
    """``file``, ``folder`` or ``other``; for a link the kind of what it leads to."""
    link: bool
    size_bytes: int | None
    """Size of a file; None for other kinds."""
    modified_at: datetime | None
    etag: str | None
    """Entity tag of a file, which changes with its content; None for other kinds."""


class FilesOfJobs:
    """Operations on the files of jobs, as methods of ``client.jobs``."""

    _session: ApiSession

    def files(self, job_id: str) -> WrittenFilesRecord:
        """Return the files in the job's folder that were changed while it ran. Raises ``NotFound``
        until the job has ended and they are listed."""
        return WrittenFilesRecord(
            self._session.request_json("GET", f"/jobs/{quote_segment(job_id)}/files")
        )

    def list_folder(
        self, job_id: str, path: str = "", *, folder: str = "workdir"
    ) -> Iterator[StoredFileRecord]:
        """Iterate over the entries of a folder of a running or ended job, by name.

        ``folder`` is ``workdir``, ``checkpoints`` or ``metrics``, and ``path`` is a folder below it.
        Raises ``NotFound``, and ``NotAllowed`` if the job belongs to another user.
        """
        from aitne.client.downloads import get_file_address

        address = get_file_address(job_id, folder, path)
        return map(StoredFileRecord, self._session.list_pages(f"{address.rstrip('/')}/", {}))

    def download(
        self,
        job_id: str,
        *paths: str,
        to: str | os.PathLike[str] = ".",
        folder: str = "workdir",
        replace: bool = False,
        heard: Callable[[Progress], None] | None = None,
    ) -> Download:
        """Download files and folders of a running or ended job to the local folder ``to``, below
        which they have the same paths as in the job's folder.

            client.jobs.download(job.id, "out/model.pt", to="results")

        An interrupted download resumes where it stopped, and files that are complete are not
        transferred again. A local file that is newer than the job's is kept.

        Args:
            paths: files and folders below ``folder``; none: the output files of an ended job, or
                with another ``folder`` all that it has.
            to: local folder, which is created.
            folder: ``workdir``, ``checkpoints`` or ``metrics``.
            replace: whether newer local files are replaced.
            heard: function that is called with the progress, about ten times a second.

        Raises:
            NotFound: the job does not exist, or no path is named and its output files are not
                listed. Files that cannot be downloaded are in ``problems`` of the result.
            NotAllowed: the job belongs to another user.
            LocalFileError: a local file cannot be written, or another download writes it.
            Unreachable: the platform does not answer.
        """
        from aitne.client.downloads import Downloader

        loader = Downloader(self._session, job_id, folder, to, replace=replace, heard=heard)
        if not paths and folder == "workdir":
            return loader.download([file.path for file in self.files(job_id).files])
        return loader.download(paths or [""])
