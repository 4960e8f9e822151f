"""Files that follow from the answers: those of the documentation, and that real programs accept them."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from aitne.broker.audit_log import BrokerAuditLog
from aitne.broker.config import load_config
from aitne.core.models.check_result import CheckState
from aitne.local_system.settings_loader import load_settings
from aitne.operations.requirements.slurm_conf_settings import REQUIREMENTS
from aitne.operations.setup.answers import Answers, read_answers, validate_answers
from aitne.operations.setup.machine_inspection import check_machine
from aitne.operations.setup.rendering import ANSWERS, LOGROTATE, PROXY_FILES, render_files
from tests.support.certificates import Authority
from tests.support.requirements import lacking
from tests.unit.operations.setup.conftest import site

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples"
SITES = sorted((EXAMPLES / "setup").glob("*.toml"))


HANDBOOK = EXAMPLES.parent / "handbook" / "setup.md"


def rendered(answers: Answers) -> dict[str, str]:
    return {file.path: file.text for file in render_files(answers)}


@pytest.mark.parametrize("source", SITES, ids=lambda source: source.stem)
def test_examples_of_the_documentation_are_what_setup_writes(source: Path) -> None:
    for path, text in rendered(validate_answers(read_answers(source))).items():
        if path == ANSWERS:
            continue
        folder = "reverse-proxy" if path in PROXY_FILES.values() else f"setup/{source.stem}"
        name = "nginx.conf" if path == PROXY_FILES["nginx"] else Path(path).name
        assert (EXAMPLES / folder / name).read_text() == text, "run `make gen`"


@pytest.mark.parametrize("source", SITES, ids=lambda source: source.stem)
def test_written_answers_lead_to_the_same_files(source: Path, tmp_path: Path) -> None:
    once = rendered(validate_answers(read_answers(source)))
    (tmp_path / "setup.toml").write_text(once[ANSWERS])

    assert rendered(validate_answers(read_answers(tmp_path / "setup.toml"))) == once


def test_place_for_backups_leads_to_the_units_of_a_daily_backup() -> None:
    answers = read_answers(SITES[0])
    unit = "/etc/systemd/system/aitne-backup.service"
    assert unit not in rendered(validate_answers(answers))
    texts = rendered(validate_answers({**answers, "backup": {"to": "/srv/backups"}}))
    assert "AITNE_CONFIG=/etc/aitne/aitne.toml" in texts[unit]
    assert unit.replace(".service", ".timer") in texts


def test_platform_and_broker_read_their_settings_and_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("the broker reads settings of root only")
    further = {
        "limits": {"max_duration": "2d"},
        "accounts": {"map": {"ada.b": "alovelace"}},
    }
    slurm = {"jobs_dir": "/scratch/{user}/jobs", "operator": "slurm-op", "extra": ["--mail-type"]}
    texts = rendered(
        validate_answers(site(**further, slurm=slurm, broker={"pam_service": "aitne"}))
    )
    for name in ("aitne", "broker"):
        (tmp_path / f"{name}.toml").write_text(texts[f"/etc/aitne/{name}.toml"])
    monkeypatch.setenv("AITNE_CONFIG", str(tmp_path / "aitne.toml"))

    platform, broker = load_settings(tmp_path), load_config(tmp_path / "broker.toml")

    assert platform.broker.socket == broker.socket
    assert platform.slurm.jobs_dir == broker.slurm.jobs_dir == "/scratch/{user}/jobs"
    assert platform.slurm.extra == broker.slurm.extra == ["--mail-type"]
    assert platform.limits.max_duration == broker.max_duration == 2 * 86_400
    assert platform.accounts.map == {"ada.b": "alovelace"}
    assert (broker.slurm.operator, broker.peers) == ("slurm-op", ["aitne"])
    assert broker.pam_service == "aitne"


@pytest.mark.parametrize("server", ["nginx", "caddy"])
def test_proxy_itself_accepts_the_configuration_and_refuses_a_missing_certificate(
    server: str, tmp_path: Path
) -> None:
    if os.geteuid() != 0 or shutil.which(server, path=f"{os.environ['PATH']}:/usr/sbin") is None:
        lacking("proxies", f"needs root and {server}: Debian's packages nginx and caddy")
    authority = Authority(tmp_path)
    portal = authority.issue("portal", "aitne.example.org")
    sessions = authority.issue("sessions", "aitne-sessions.org", "*.aitne-sessions.org")
    paths = [str(path) for path in (*portal, *sessions)]
    names = ("portal", "portal_key", "sessions", "sessions_key")
    given = site(
        proxy={"server": server}, certificates=dict(zip(names, paths, strict=True)), port=28_000
    )

    def result() -> tuple[CheckState, str]:
        (check,) = [
            check for check in check_machine(validate_answers(given)) if check.name == "proxy"
        ]
        return check.state, check.message

    assert result() == (CheckState.OK, f"{server} accepts the configuration.")
    sessions[0].unlink()
    state, message = result()
    assert state is CheckState.FAILED
    assert str(sessions[0]) in message


@pytest.mark.parametrize("source", SITES, ids=lambda source: source.stem)
def test_systemd_accepts_the_units(source: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze")
    programs = Path(sys.executable).parent
    answers = validate_answers(
        {**read_answers(source), "programs": str(programs), "account": "daemon"}
    )
    units = [tmp_path / Path(path).name for path in rendered(answers) if "/systemd/" in path]
    for unit in units:
        unit.write_text(rendered(answers)[f"/etc/systemd/system/{unit.name}"])

    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, units)],
        capture_output=True,
        text=True,
        check=False,
    )

    about_units = [line for line in ended.stderr.splitlines() if "aitne" in line]
    assert (ended.returncode, about_units) == (0, []), ended.stderr


def test_handbook_names_each_setting_of_slurm_that_is_inspected() -> None:
    text = HANDBOOK.read_text().replace("` and `", " and ")

    assert [needed.line for needed in REQUIREMENTS if f"`{needed.line}`" not in text] == []


def test_rotation_keeps_every_entry_of_the_audit_log(tmp_path: Path) -> None:
    logrotate = shutil.which("logrotate", path=f"{os.environ['PATH']}:/usr/sbin")
    if os.geteuid() != 0 or logrotate is None:
        pytest.skip("needs root and logrotate")
    answers = validate_answers(read_answers(EXAMPLES / "setup" / "slurm.toml"))
    folder = tmp_path / "log"
    rules = tmp_path / "aitne-broker"
    rules.write_text(rendered(answers)[LOGROTATE].replace("/var/log/aitne", str(folder)))
    audit = BrokerAuditLog(folder / "broker.jsonl")
    audit.start()

    for number in range(3):
        audit.write_entry(number=number)
        done = [logrotate, "--force", "--state", str(tmp_path / "state"), str(rules)]
        subprocess.run(done, check=True)
    audit.write_entry(number=3)
    audit.close()

    texts = [(folder / f"broker.jsonl{suffix}").read_bytes() for suffix in ("", ".1")]
    texts += [gzip.decompress((folder / f"broker.jsonl.{n}.gz").read_bytes()) for n in (2, 3)]
    assert [json.loads(text)["number"] for text in texts] == [3, 2, 1, 0]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("name", "log"),
    [
        ("slurm", "/var/log/aitne/broker.jsonl {"),
        ("one-machine", "/var/lib/aitne-broker/broker.jsonl {"),
    ],
)
def test_rotation_names_the_audit_log_of_the_broker(name: str, log: str) -> None:
    answers = validate_answers(read_answers(EXAMPLES / "setup" / f"{name}.toml"))
    assert log in rendered(answers)[LOGROTATE].splitlines()
