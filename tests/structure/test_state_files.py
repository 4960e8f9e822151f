"""Two releases share the state files of a platform: each reads what a later one writes."""

from __future__ import annotations

import ast
import copy
import importlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from aitne.adapters.schedulers._local.job_records import (
    LaunchFile,
    LocalJobRecord,
    RunGrant,
    TaskOutcome,
    TaskState,
)
from aitne.adapters.schedulers._local.runner_launcher import ProcessIdentity
from aitne.core.dataset_manifest import Summary
from aitne.core.jobs.states import TerminationReason
from aitne.core.models.check_result import CheckResult, CheckState
from aitne.core.models.limits import HeldLimit, HeldLimits, Limits
from aitne.core.models.notification import NotificationChoices, NotificationKind
from aitne.core.models.project import Retention
from aitne.core.platform.dev_cluster_record import DevCluster, DevPorts, DevUser
from aitne.core.ports.job_files import Fence, ProgramOutcome
from aitne.local_system.hung_restart_records import HungRestart
from aitne.local_system.process_status_file import ProcessStatus
from aitne.local_system.state_file_reader import DamagedState, parse_state, read_state
from aitne.operations.backup.archive import ArchiveMember, Manifest
from aitne.operations.upgrade.upgrade_journal import UpgradeJournal, UpgradeStep
from aitne.services.platform.backup_record import BackupRecord
from aitne.services.platform.doctor_report import DoctorReport
from aitne.supervisor.process_account import ProcessAccount
from aitne.supervisor.supervisor_plan import ChildPlan, SupervisorPlan
from aitne_devcluster.plan import DevClusterPlan
from tests.support.jobs import make_request

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (ROOT / "backend" / "aitne", ROOT / "tools" / "aitne_devcluster")
READERS = frozenset({"read_state", "parse_state", "parse_state_document"})
STANDARD_LIBRARY_ONLY = ("agent/",)
"""Packages that take what they know from a dictionary, one value at a time."""
OTHER_READERS = {
    "adapters/schedulers/_local/runner_launcher.py": "a dictionary, whose values are taken one by one",
    "adapters/schedulers/_local/runner.py": "standard library only; values taken one by one",
    "client/credentials.py": "a dictionary of the user's logins, which is written back whole",
    "client/function_runner.py": "the call, which the same release has written",
    "client/running_job.py": "a dictionary, whose values are taken one by one",
    "session_server/lab/server/aitne_certificate.py": "the answer of the platform, not a file",
    "local_system/hung_restart_records.py": "the totals: a dictionary of names and numbers",
    "local_system/settings_loader.py": "aitne.toml, which the settings check",
    "local_system/process_status_file.py": "a list, whose records are read as state",
    "notebook/notebook_run.py": "the request, which the same release has written",
    "operations/backup/archive.py": "a document with a digest over all that it has, read as state",
    "operations/backup/restoration.py": "aitne.toml, of which the address of the database is taken",
    "operations/upgrade/releases.py": "a file of pip",
    "supervisor/offline_bundle.py": "a dictionary, whose values are compared one by one",
    "aitne_devcluster/users.py": "a dictionary of names and truth values",
}
"""Modules that parse the content of a file themselves, and what it is."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SAMPLES: tuple[Any, ...] = (
    SupervisorPlan(
        "/data",
        "http://a",
        "http://b",
        "http://a/readyz",
        "http://h",
        {"PATH": "/bin"},
        ["aitne", "init"],
        [],
        [ChildPlan("api", ["python"], {"A": "1"}, port=8000, probe="http://a", heartbeat=True)],
        ("api", "init"),
        ProcessAccount(1000, 1000, [1000, 4]),
    ),
    ProcessStatus("api", 12, 1, 1.5, answers=True),
    HungRestart("api", NOW.isoformat(), 31.0),
    UpgradeJournal(
        step=UpgradeStep.CHECK,
        present="0.1.0",
        target="0.2.0",
        requirement="aitne==0.2.0",
        data_dir="/data",
        was_running=True,
        backup_at=NOW,
    ),
    BackupRecord(path="/backups/1", created_at=NOW, bytes=7),
    DoctorReport(
        as_of=NOW, checks=(CheckResult(name="disk", state=CheckState.OK, message="Free."),)
    ),
    Manifest(
        created_at=NOW,
        release="0.1.0",
        database="sqlite",
        schema_revision="0031",
        cluster="c",
        scheduler="local",
        remote=False,
        own_accounts=False,
        host="h",
        machine="m",
        data_dir="/data",
        config="/data/aitne.toml",
        members=(ArchiveMember(name="aitne.db", bytes=1, mode=0o600, sha256="a" * 64),),
    ),
    LocalJobRecord(number=3, submitted_at=NOW, request=make_request()),
    TaskState(ending=TaskOutcome(reason=TerminationReason.COMPLETED, ended_at=NOW)),
    LaunchFile(grants=(RunGrant(node="n1", gpus=(0, 1)),)),
    HeldLimits(entries=(HeldLimit(project="p", limits=Limits(max_gpus=2)),), used_until=NOW),
    ProcessIdentity(12, 34, "boot", started_at=1.5),
    Fence(owner="12", restart_count=0),
    ProgramOutcome(
        owner="12", restart_count=0, exit_code=1, reason=TerminationReason.IDLE, ended_at=NOW
    ),
    Summary("a" * 64, 1, 0, 12),
    DevCluster(
        name="dev",
        root=Path("/dev"),
        slurm_release="24.11",
        slurm_conf=Path("/dev/slurm.conf"),
        rest_url="http://r",
        jwt_key=Path("/dev/jwt.key"),
        operator="op",
        software_dir=Path("/software"),
        python="python3",
        nodes=("n1",),
        users=(DevUser(name="ada", account="lab"),),
        ports=DevPorts(slurmctld=1, slurmdbd=2, slurmrestd=3, slurmd_first=4),
    ),
    DevClusterPlan(name="dev", release="sid", nodes=2, gpus=0, cloud_nodes=0, port_base=6000),
    Limits(max_gpus=2),
    Retention(keep_jobs=86_400),
    NotificationChoices(choices={NotificationKind.SESSION_READY: {"mail": True}}),
)
HALTS = frozenset({UpgradeJournal})
"""Records of which an unknown value of an enumeration cannot be ignored: the reader says so."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules that parse documents or read state."""
    for package in PACKAGES:
        for path in sorted(package.rglob("*.py")):
            name = str(path.relative_to(package.parent)).removeprefix("aitne/")
            if name.startswith(STANDARD_LIBRARY_ONLY) or path.name == "state_file_reader.py":
                continue
            text = path.read_text()
            if any(word in text for word in ("json", "tomllib", "pickle", "_state")):
                yield name, ast.parse(text)


def parses_file(call: ast.Call, *, reads_json: bool) -> bool:
    """Return whether a call parses the content of a file, or makes an object of a parsed one."""
    if not isinstance(call.func, ast.Name | ast.Attribute):
        return False
    function, arguments = ast.unparse(call.func), " ".join(map(ast.unparse, call.args))
    if function in ("json.load", "tomllib.load", "pickle.load"):
        return True
    if function.rpartition(".")[2] in ("loads", "model_validate", "model_validate_json"):
        return re.search(r"(read_text|read_bytes|open(_\w+)?)\(", arguments) is not None
    makes_object = function == "cls" or function[:1].isupper()
    return (
        reads_json
        and makes_object
        and any(
            each.arg is None and isinstance(each.value, ast.Name | ast.Subscript)
            for each in call.keywords
        )
    )


def test_files_are_parsed_as_state_or_by_known_exceptions() -> None:
    found = set()
    for name, tree in trees():
        nodes = list(ast.walk(tree))
        reads_json = any(isinstance(node, ast.Name) and node.id == "json" for node in nodes)
        if any(isinstance(n, ast.Call) and parses_file(n, reads_json=reads_json) for n in nodes):
            found.add(name)
    assert found == OTHER_READERS.keys()


def classes_of(tree: ast.Module) -> Iterator[str]:
    """Yield the names of the classes that a module reads from state files."""
    functions: set[str] = set()
    for scope in ast.walk(tree):
        if not isinstance(scope, ast.ClassDef | ast.FunctionDef):
            continue
        for call in ast.walk(scope):
            if not (isinstance(call, ast.Call) and ast.unparse(call.func) in READERS):
                continue
            kind = ast.unparse(call.args[0])
            if kind[0].isupper():
                yield kind
            elif isinstance(scope, ast.ClassDef) and kind == "cls":
                yield scope.name
            elif isinstance(scope, ast.FunctionDef):
                functions.add(scope.name)
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in functions:
            names = [each.id for each in call.args if isinstance(each, ast.Name)]
            yield from (name for name in names if name[0].isupper() and not name.isupper())


def module_of(name: str) -> str:
    """Return the full name of a module that `trees` yields."""
    module = name.removesuffix(".py").replace("/", ".")
    return module if module.startswith("aitne_") else f"aitne.{module}"


def test_every_class_that_is_read_from_state_files_has_a_sample() -> None:
    read = {
        getattr(importlib.import_module(module_of(name)), kind)
        for name, tree in trees()
        for kind in classes_of(tree)
    }
    assert read == {type(sample) for sample in SAMPLES}


def document_of(sample: Any) -> Any:
    """The content of the file with a sample."""
    if isinstance(sample, BaseModel):
        return json.loads(sample.model_dump_json(exclude={"request": {"files"}}))
    return json.loads(json.dumps(asdict(sample)))


def parts_of(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each record and each value of an enumeration in a sample, with its place in the document."""
    if isinstance(value, BaseModel):
        yield place, value
        names: Any = type(value).model_fields
    elif is_dataclass(value):
        yield place, value
        names = [field.name for field in fields(value)]
    elif isinstance(value, Enum):
        yield place, value
        return
    else:
        if isinstance(value, list | tuple):
            for number, each in enumerate(value):
                yield from parts_of(each, (*place, number))
        return
    for name in names:
        yield from parts_of(getattr(value, name), (*place, name))


def at(document: Any, place: tuple[Any, ...]) -> Any:
    """The value at a place of a document."""
    for part in place:
        document = document[part]
    return document


PLACES = [
    pytest.param(sample, place, part, id=".".join(map(str, (type(sample).__name__, *place))))
    for sample in SAMPLES
    for place, part in parts_of(sample)
]


@pytest.mark.parametrize(("sample", "place", "part"), PLACES)
def test_state_of_a_later_release_is_read(sample: Any, place: tuple[Any, ...], part: Any) -> None:
    kind, document = type(sample), document_of(sample)
    expected = parse_state(kind, json.dumps(document))
    changed = copy.deepcopy(document)
    if not isinstance(part, Enum):
        at(changed, place)["of_a_later_release"] = {"any": ["value"]}
        assert parse_state(kind, json.dumps(changed)) == expected
        return
    at(changed, place[:-1])[place[-1]] = "of-a-later-release"
    if kind in HALTS:
        with pytest.raises(DamagedState, match=str(place[-1])):
            parse_state(kind, json.dumps(changed))
        return
    read = document_of(parse_state(kind, json.dumps(changed)))
    del at(read, place[:-1])[place[-1]], at(document, place[:-1])[place[-1]]
    assert read == document, "the rest is unchanged"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null"])
def test_damaged_state_is_named(sample: Any, text: str, tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_text(text)
    with pytest.raises(DamagedState, match=r"state\.json is damaged: \w"):
        read_state(type(sample), path)
