"""Ansible's programs, run on the playbooks of ``ansible/`` as an administrator runs them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.requirements import lacking

FOLDER = Path(__file__).parents[2] / "ansible"


def program(name: str) -> str:
    """Return the path of one of Ansible's programs: beside this Python, or in ``PATH``."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        lacking("ansible", f"needs {name}: pip install ansible-core ansible-lint")
    return found


@dataclass(frozen=True)
class Inventory:
    """An inventory in ``folder``, with its vault password beside it."""

    folder: Path

    def write(self, hosts: str, variables: dict[str, object]) -> None:
        """Write or replace the machines (YAML) and the variables of all."""
        group_vars = self.folder / "group_vars" / "all"
        group_vars.mkdir(parents=True, exist_ok=True)
        (self.folder / "hosts.yml").write_text(hosts)
        (group_vars / "main.yml").write_text(yaml.safe_dump(variables))

    def play(
        self, playbook: str, *options: str, password: str = "correct", timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        """Run a playbook of ``ansible/``, with ``password`` as the vault password."""
        argv = ["ansible-playbook", "--inventory", str(self.folder), playbook, *options]
        return self._run(argv, password, timeout_s)

    def value(self, name: str, host: str, variables: Mapping[str, object]) -> Any:
        """Return the value of one of ``variables``, which may be templates, on a machine; nothing connects to it."""
        file = self.folder.parent / f"{self.folder.name}-variables.json"
        file.write_text(json.dumps(variables))
        argv = ["ansible", host, "--inventory", str(self.folder), "--playbook-dir", str(FOLDER)]
        argv += ["--extra-vars", f"@{file}", "--module-name", "debug", "--args", f"var={name}"]
        done = self._run(argv)
        assert done.returncode == 0, said(done)
        return yaml.safe_load(done.stdout.partition("=>")[2])[name]

    def _run(
        self, argv: list[str], password: str = "correct", timeout_s: float = 300
    ) -> subprocess.CompletedProcess[str]:
        word = self.folder.parent / f"{self.folder.name}-password"
        word.write_text(password)
        argv = [program(argv[0]), *argv[1:]]
        environment = {
            **os.environ,
            "ANSIBLE_VAULT_PASSWORD_FILE": str(word),
            "ANSIBLE_LOCAL_TEMP": str(self.folder.parent / "ansible-tmp"),
            "ANSIBLE_NOCOLOR": "1",
            "COLUMNS": "1000",
            "LC_ALL": "C.UTF-8",
            "PATH": f"{Path(argv[0]).parent}:{os.environ['PATH']}",
        }
        return subprocess.run(
            argv,
            cwd=FOLDER,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )


def recap(output: str) -> dict[str, dict[str, int]]:
    """Return the counts of PLAY RECAP by machine: ``{"n1": {"ok": 3, "changed": 0, …}}``."""
    lines = output.rpartition("PLAY RECAP")[2].splitlines()
    found = (re.match(r"(\S+)\s+:\s+(.*=\d+.*)", line) for line in lines)
    return {
        match[1]: {key: int(count) for key, count in re.findall(r"(\w+)=(\d+)", match[2])}
        for match in found
        if match is not None
    }


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Return all output with its line breaks as spaces, as sentences are compared."""
    return " ".join(f"{done.stdout}\n{done.stderr}".split())
