"""Seals: proofs that Slurm, and not the platform, named the path of a log.

The platform stores the path together with the job, for longer than Slurm and this process remember
it. With the seal it can later request this log, but no other file.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from aitne.core.errors import NotAllowed, SetupError
from aitne.core.ports.outside_jobs import OutsideJob, OutsideLog

_KEY_BYTES = 32


class LogSeal:
    """Creator and verifier of seals, with a secret key that only root can read."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def from_file(cls, path: Path) -> LogSeal:
        """Read the key in the file ``path``, or create it.

        Raises:
            SetupError: the file cannot be read or created, or contains no key.
        """
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            pass
        except OSError as error:
            raise SetupError(f"{path} cannot be created: {error}") from error
        else:
            with os.fdopen(file, "wb") as created:
                created.write(os.urandom(_KEY_BYTES))
        try:
            key = path.read_bytes()
        except OSError as error:
            raise SetupError(f"{path} cannot be read: {error}") from error
        if len(key) != _KEY_BYTES:
            raise SetupError(
                f"{path} does not contain a key. Delete it: the broker creates a new one, and logs "
                "of earlier jobs from outside are then not shown."
            )
        return cls(key)

    def seal_log(self, job: OutsideJob) -> OutsideJob:
        """Return a copy of the job with a seal of its log's path: an HMAC which proves later that
        Slurm named this path.
        """
        if job.log is None:
            return job
        log = job.log.model_copy(update={"seal": self._compute_seal(job.log)})
        return job.model_copy(update={"log": log})

    def check_seal(self, log: OutsideLog) -> None:
        """Raise ``NotAllowed`` unless the log has a seal that this broker's key created for exactly
        this log.
        """
        if not hmac.compare_digest(log.seal or "", self._compute_seal(log)):
            raise NotAllowed(
                f"Slurm did not name {log.path} as the log of job {log.scheduler_id} of "
                f"{log.account}, or the broker's key was replaced since."
            )

    def _compute_seal(self, log: OutsideLog) -> str:
        # JSON, so that no two logs have the same text.
        text = log.model_dump_json(include={"scheduler_id", "account", "path"})
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()
