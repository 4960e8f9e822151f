"""The pre-flight checks of the playbook: each mistake ends the run with a sentence, before anything changes."""

from __future__ import annotations

import os
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from aitne.local_system.settings_loader import load_settings
from aitne.services.platform.certificate_authorities import get_certificate_names, open_authority
from tests.support.ansible import FOLDER, Inventory, program, recap, said
from tests.support.certificates import Authority

EXAMPLE = (FOLDER / "inventory.example" / "hosts.yml").read_text()
VARIABLES = yaml.safe_load(
    (FOLDER / "inventory.example" / "group_vars" / "all" / "main.yml").read_text()
)


def _with_standby(*names: str) -> str:
    hosts = yaml.safe_load(EXAMPLE)
    hosts["all"]["children"]["standby"] = {"hosts": dict.fromkeys(names)}
    return yaml.safe_dump(hosts)


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    return Inventory(tmp_path / "inventory")


def test_playbook_accepts_the_example_and_encrypts_new_secrets(
    inventory: Inventory, tmp_path: Path
) -> None:
    domains = [VARIABLES[name] for name in ("portal_domain", "sessions_domain")]
    issued = Authority(tmp_path).issue("site", *domains, f"*.{domains[1]}")
    files = dict(zip(("tls_certificate", "tls_key"), map(str, issued), strict=True))
    inventory.write(EXAMPLE, {**VARIABLES, **files})
    roles = inventory.play("site.yml", "--syntax-check")
    assert roles.returncode == 0, said(roles)

    first = inventory.play("preflight.yml")

    assert first.returncode == 0, said(first)
    secrets = inventory.folder / "secrets.yml"
    kept = secrets.read_text()
    assert kept.startswith("$ANSIBLE_VAULT;1.1;AES256")
    assert "munge_key" not in first.stdout + kept

    wrong = inventory.play(
        "preflight.yml", "--start-at-task=Look for the secrets", password="wrong"
    )

    assert wrong.returncode != 0
    assert "was encrypted with another vault password than that of" in said(wrong)
    assert secrets.read_text() == kept
    assert {each["changed"] for each in recap(wrong.stdout).values()} == {0}


@pytest.mark.parametrize(
    ("hosts", "sentence"),
    [
        (
            EXAMPLE.replace("controller:\n      hosts:\n        login1:", "controller:"),
            'The group "controller" of the inventory has 0 machines; name the one machine that runs slurmctld.',
        ),
        (
            EXAMPLE.replace("    n2:\n      ansible", "    n1:\n      ansible"),
            "Found duplicate mapping key 'n1'",
        ),
        (
            _with_standby("login1"),
            "login1 cannot be the standby: it is the portal. Name another machine, or remove the group.",
        ),
        (
            _with_standby("n1", "n2"),
            'The group "standby" of the inventory has 2 machines; name one machine at most.',
        ),
        (
            _with_standby("n1"),
            "n1 cannot be the standby: backups are copied there only encrypted, so set aitne_backup_recipient",
        ),
    ],
    ids=[
        "without a controller",
        "two nodes of one name",
        "the portal as its standby",
        "two standbys",
        "a standby without a key of backups",
    ],
)
def test_playbook_refuses_an_inventory(inventory: Inventory, hosts: str, sentence: str) -> None:
    assert hosts != EXAMPLE
    inventory.write(hosts, VARIABLES)

    done = inventory.play("preflight.yml")

    assert done.returncode != 0
    assert sentence in said(done)
    assert not (inventory.folder / "secrets.yml").exists()


def test_playbook_refuses_certificates_that_browsers_would_refuse(
    inventory: Inventory, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    portal, sessions = VARIABLES["portal_domain"], VARIABLES["sessions_domain"]
    expired = authority.issue("expired", portal, sessions, f"*.{sessions}", ended_ago=timedelta(1))
    portal_only = authority.issue("portal", portal)

    def said_of(certificate: Path, key: Path, sessions: tuple[Path, Path]) -> str:
        names = ("tls_certificate", "tls_key", "tls_sessions_certificate", "tls_sessions_key")
        files = dict(zip(names, map(str, (certificate, key, *sessions)), strict=True))
        inventory.write(EXAMPLE, {**VARIABLES, **files})
        done = inventory.play("preflight.yml")
        assert done.returncode != 0
        assert not (inventory.folder / "secrets.yml").exists()
        return said(done)

    sentences = said_of(*expired, portal_only)
    assert f"refuse {expired[0]} for {portal} (certificate has expired)" in sentences
    assert f"refuse {portal_only[0]} for {sessions} (hostname mismatch)" in sentences
    assert f"refuse {portal_only[0]} for user.{sessions} (hostname mismatch)" in sentences
    other = said_of(portal_only[0], expired[1], portal_only)
    assert f"{expired[1]} is not the key of {portal_only[0]}" in other


def test_certificates_of_the_reverse_proxy_are_renewed_before_they_expire(tmp_path: Path) -> None:
    settings = load_settings(tmp_path / "data")
    authority = open_authority(settings)
    (tmp_path / "systemctl").write_text(f'#!/bin/sh\necho "$*" >> {tmp_path / "systemctl.log"}\n')
    (tmp_path / "systemctl").chmod(0o755)
    portal, key = tmp_path / "portal.pem", tmp_path / "portal.key"

    def run(*pairs: str) -> tuple[list[str], list[str]]:
        """Return the certificates that were replaced, and the calls of systemctl."""
        (tmp_path / "systemctl.log").write_text("")
        certificates = [settings.tls_dir / "ca.pem", settings.secrets_dir / "ca_key.pem"]
        done = subprocess.run(
            [FOLDER / "roles/tls/files/aitne-certificates", tmp_path, *certificates, *pairs],
            env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split(), (tmp_path / "systemctl.log").read_text().splitlines()

    pairs = ("portal=aitne.example.org", "sessions=sessions.org,*.sessions.org")
    reload = ["is-active --quiet nginx", "reload nginx"]
    assert run(*pairs) == (["portal", "sessions"], reload)
    issued = x509.load_pem_x509_certificate(portal.read_bytes())
    issued.verify_directly_issued_by(authority.certificate)
    sessions = x509.load_pem_x509_certificate((tmp_path / "sessions.pem").read_bytes())
    assert get_certificate_names(sessions) == {"sessions.org", "*.sessions.org"}
    assert key.stat().st_mode & 0o777 == 0o600

    assert run(*pairs) == ([], [])

    for days, replaced in ((61, []), (59, ["portal"])):
        lifetime = timedelta(days=days)
        old = authority.issue(issued.public_key(), ["aitne.example.org"], lifetime)
        portal.write_bytes(old.public_bytes(serialization.Encoding.PEM))
        assert run(*pairs) == (replaced, reload if replaced else [])
    loaded = serialization.load_pem_private_key(key.read_bytes(), None)
    renewed = x509.load_pem_x509_certificate(portal.read_bytes())
    assert renewed.public_key() == loaded.public_key()

    key.write_bytes((tmp_path / "sessions.key").read_bytes())
    assert run(*pairs) == (["portal"], reload)
    assert run("portal=aitne.example.com", pairs[1]) == (["portal"], reload)


def test_standby_keeps_the_newest_30_copies_of_backups(tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    names = [f"aitne-my cluster-202603{day:02}T020000Z.tar" for day in range(1, 32)]
    for name in (*names, "other"):
        (copies / name).touch()
    (tmp_path / "rrsync").write_text(f'#!/bin/sh\necho "$*" > {tmp_path / "rrsync.log"}\n')
    (tmp_path / "rrsync").chmod(0o755)

    subprocess.run(
        [FOLDER / "roles/standby/files/aitne-receive-backups", copies],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        check=True,
    )

    assert (tmp_path / "rrsync.log").read_text() == f"-wo -no-del -no-overwrite {copies}\n"
    assert sorted(path.name for path in copies.iterdir()) == [*names[1:], "other"]


@pytest.mark.long
def test_playbook_has_no_findings_of_ansible_lint(tmp_path: Path) -> None:
    argv = [program("ansible-lint"), "--offline", "--profile", "production"]
    password = tmp_path / "vault-password"
    password.write_text("secret\n")
    variables = {
        "PATH": f"{Path(argv[0]).parent}:{os.environ['PATH']}",
        "ANSIBLE_VAULT_PASSWORD_FILE": str(password),
    }

    done = subprocess.run(
        argv, cwd=FOLDER, env={**os.environ, **variables}, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stdout + done.stderr
