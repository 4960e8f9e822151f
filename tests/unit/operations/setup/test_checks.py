"""Commands with which the setup looks at this machine."""

from __future__ import annotations

import pwd

import pytest

from aitne.operations.setup.check_results import run_command
from tests.support.slurm import root_or_skip


def test_command_of_another_account_does_not_get_the_secrets_in_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root_or_skip()
    monkeypatch.setenv("PGPASSWORD", "kept by root")
    monkeypatch.setenv("SLURM_JWT", "kept by root")

    answer = run_command(
        ["env"], account=pwd.getpwnam("nobody"), environment={"SLURM_CONF": "/etc/slurm.conf"}
    )

    assert answer.has_succeeded, answer.error
    assert "kept by root" not in answer.output
    assert {"SLURM_CONF=/etc/slurm.conf", "LC_ALL=C.UTF-8"} <= set(answer.output.splitlines())
    assert "kept by root" in run_command(["env"]).output
