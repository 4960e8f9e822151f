"""Folders of jobs that the broker uses."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from aitne.broker.config import BrokerConfig
from aitne.broker.request_guard import Guard
from aitne.core.errors import NotAllowed
from aitne.core.ports.job_files import JobLocation


def test_a_job_has_its_folder_in_jobs_dir_or_in_the_spare_one(tmp_path: Path) -> None:
    slurm = {"jobs_dir": "/jobs/{user}", "spare_jobs_dir": "/spare/{user}"}
    # An account of every machine, which the settings of this broker permit.
    accounts = {"min_uid": 1}
    common = {"socket": tmp_path / "socket", "peers": ["root"], "accounts": accounts}
    job_id = uuid4()

    def place(folder: str) -> JobLocation:
        return JobLocation(job_id=job_id, attempt=1, folder=folder, account="daemon")

    guard = Guard(BrokerConfig.model_validate(common | {"slurm": slurm}))
    for folder in (f"/jobs/daemon/{job_id}", f"/spare/daemon/{job_id}"):
        assert guard.check_job_folder(place(folder)).name == "daemon"
    for folder in (f"/spare/bin/{job_id}", f"/spare/daemon/{uuid4()}", "/spare/daemon"):
        with pytest.raises(NotAllowed, match=r"slurm\.spare_jobs_dir must be the same"):
            guard.check_job_folder(place(folder))
    without = Guard(BrokerConfig.model_validate(common | {"slurm": {"jobs_dir": "/jobs/{user}"}}))
    with pytest.raises(NotAllowed):
        without.check_job_folder(place(f"/spare/daemon/{job_id}"))
