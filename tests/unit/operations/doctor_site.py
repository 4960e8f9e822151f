"""A data directory for the doctor, with settings and a Slurm whose answers a test chooses."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aitne.core.settings import Settings
from aitne.local_system.settings_loader import load_settings
from aitne.operations.doctor import root_files
from aitne.operations.doctor.check_execution import Examination, run_checks
from aitne.operations.doctor.check_registry import CHECKS
from aitne.operations.doctor.checked_host import CheckedHost
from aitne.supervisor import start_checks
from aitne.supervisor.secret_files import ensure_secrets


@dataclass(slots=True)
class Site:
    """A data directory, the lines of its settings, and what a planted fault has started."""

    root: Path
    patch: pytest.MonkeyPatch
    stack: ExitStack
    config: dict[str, list[str]] = field(default_factory=lambda: {"": []})
    status: dict[str, Any] | None = None

    @property
    def data_dir(self) -> Path:
        return self.root / "data"

    def set(self, *lines: str) -> None:
        """Add lines to aitne.toml, each to the section that is the last of ``lines`` before it."""
        section = ""
        for line in lines:
            section = line if line.startswith("[") else section
            present = self.config.setdefault(section, [line] if section else [])
            present += [line] if line not in present else []

    def settings(self) -> Settings:
        """Write aitne.toml and load it, as the command does."""
        path = self.data_dir / "aitne.toml"
        lines = [line for section in self.config.values() for line in section]
        if lines:
            path.write_text("\n".join(lines) + "\n")
        return load_settings(self.data_dir)

    def execute(self, statement: str) -> None:
        """Change the database behind the platform's back."""
        with closing(sqlite3.connect(self.data_dir / "aitne.db")) as connection:
            connection.execute(statement)
            connection.commit()

    def slurm(self, config: str, **answers: str) -> None:
        """Be a site with a Slurm whose commands answer so."""
        program = self.root / "slurm-commands"
        (self.root / "config.txt").write_text(config)
        cases = "\n".join(f'  "{words}"*) echo "{text}";;' for words, text in answers.items())
        program.write_text(
            f'#!/bin/sh\ncase "$*" in\n  "scontrol show config"*) cat {self.root}/config.txt;;\n'
            f'{cases}\n  *) echo "$* failed" >&2; exit 1;;\nesac\n'
        )
        program.chmod(0o755)
        self.set(
            'scheduler = "slurm"',
            "[slurm]",
            f'command_prefix = ["{program}"]',
            f'software_dir = "{self.root / "software"}"',
        )

    def host(self) -> CheckedHost:
        """Return what the command examines."""
        read = root_files.read_root_files(self.data_dir)
        return CheckedHost(self.settings(), self.status, root_files=read)

    def examine(self, name: str) -> Examination:
        """Run one check."""
        return asyncio.run(run_checks(self.host(), [CHECKS[name]]))


@pytest.fixture
def site(tmp_path: Path, migrated: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for variable in [name for name in os.environ if name.startswith("AITNE_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setattr(start_checks, "_try_listen", lambda bind, port: None)
    data_dir = tmp_path / "data"
    settings = Settings(data_dir=data_dir)
    start_checks.check_requirements(settings)
    ensure_secrets(settings.secrets_dir)
    shutil.copy(migrated, data_dir / "aitne.db")
    (data_dir / "aitne.db").chmod(0o600)
    with ExitStack() as stack:
        yield Site(tmp_path, monkeypatch, stack)
