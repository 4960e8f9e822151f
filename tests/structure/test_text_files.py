"""Files that people write may begin with a byte order mark, as editors on Windows write it: whatever
reads such a file omits the mark.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    ROOT / "backend" / "aitne",
    ROOT / "runtime" / "aitne_train",
    ROOT / "tools" / "aitne_apptainer",
    ROOT / "tools" / "aitne_devcluster",
)
PARSERS = frozenset({"nbformat", "tomllib", "yaml"})
"""Modules that take text from people: what a module with one of them decodes is counted as a file."""
WRITTEN_BY_PROGRAMS = {
    "adapters/channels/webhook.py": "the platform's key",
    "adapters/images/wheels.py": "the metadata of an installed distribution",
    "adapters/schedulers/_local/": "the records of the embedded scheduler",
    "adapters/storage/_mounts.py": "fstab and mountinfo, which mount(8) reads without a mark",
    "agent/": "the job's folder, /proc and the files of conda and Python",
    "api/": "the portal's page",
    "cli/commands/admin/audit.py": "the audit log",
    "cli/openssh_config.py": "OpenSSH's files, which ssh(1) reads without a mark",
    "client/credentials.py": "the logins",
    "client/platform_discovery.py": "the state of a platform",
    "client/function_runner.py": "the call",
    "client/running_job.py": "the job's folder",
    "local_system/hung_restart_records.py": "the platform's state",
    "local_system/process_status_file.py": "the platform's state",
    "hub/": "the platform's secrets",
    "notebook/notebook_run.py": "the request; the notebook is read as bytes",
    "operations/doctor/checks/": "/proc and the platform's state",
    "operations/setup/file_changes.py": "the machine",
    "operations/setup/machine_inspection.py": "the machine",
    "operations/setup/setup_plan.py": "the machine",
    "operations/setup/rendering.py": "the platform's own templates",
    "operations/backup/creation.py": "the machine's identity",
    "operations/upgrade/": "/proc and pip's files",
    "services/platform/": "the platform's secrets, /proc",
    "services/users/first_run.py": "the access token of the command line",
    "store/": "mountinfo",
    "supervisor/": "the platform's state, /proc and the locks of its environments",
    "aitne_apptainer/installation.py": "a package's control file",
    "aitne_devcluster/": "the machine and the ledger of accounts",
    "aitne_train/main_thread_observer.py": "/proc",
    "aitne_train/launcher/available_cpu_count.py": "the control groups of /sys",
    "aitne_train/launcher/rendezvous_store_client.py": "the address of the first rank",
    "aitne_train/notebook/rank_group_connection_files.py": "the connection of a kernel",
    "aitne_train/notebook/node_monitor.py": "/proc",
    "aitne_train/profile_report.py": "the profile",
    "aitne_train/stacks.py": "/proc",
    "aitne_train/topology/sysfs.py": "/sys",
}
"""Modules and folders whose text no person writes, and what it is."""


def reads(source: str) -> Iterator[str]:
    """Yield each place where a module reads text that would keep a byte order mark, as written."""
    tree = ast.parse(source)
    imported = {
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module]
            if isinstance(node, ast.ImportFrom)
            else [item.name for item in node.names]
        )
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        given = {item.arg: item.value for item in node.keywords}
        words = {
            part.value
            for part in [*node.args, *given.values()]
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        }
        if called == "decode":
            text = bool(PARSERS & imported) and words <= {"utf-8", "utf8"}
        elif called in ("open", "fdopen"):
            text = "encoding" in given and not words & {"w", "a", "x"}
        else:
            text = called == "read_text"
        if text and "utf-8-sig" not in words and "ascii" not in words:
            yield ast.unparse(node)


@pytest.mark.parametrize(
    "source",
    [
        "path.read_text()",
        "path.read_text(encoding='utf-8')",
        "open(path, encoding='utf-8')",
        "path.open(encoding='utf-8', errors='replace')",
        "import tomllib\ntomllib.loads(data.decode())",
    ],
)
def test_text_with_its_mark_is_found(source: str) -> None:
    assert list(reads(source))


def sources() -> dict[str, str]:
    """Return the modules of the packages by their paths, those of the platform without its name."""
    return {
        str(path.relative_to(package.parent)).removeprefix("aitne/"): path.read_text()
        for package in PACKAGES
        for path in package.rglob("*.py")
    }


def test_files_of_people_are_read_without_a_byte_order_mark() -> None:
    found = {
        f"{name}: {place}"
        for name, text in sources().items()
        if not name.startswith(tuple(WRITTEN_BY_PROGRAMS))
        for place in reads(text)
    }
    assert not found, "read these with encoding utf-8-sig, or name what writes them"


def test_each_exception_is_one() -> None:
    texts = sources()
    assert {
        place
        for place in WRITTEN_BY_PROGRAMS
        if not any(list(reads(text)) for name, text in texts.items() if name.startswith(place))
    } == set()
