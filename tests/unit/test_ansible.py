"""The pre-flight checks of the playbook: each mistake ends the run with a sentence, before anything changes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.ansible import FOLDER, Inventory, program, recap, said

EXAMPLE = (FOLDER / "inventory.example" / "hosts.yml").read_text()
VARIABLES = yaml.safe_load(
    (FOLDER / "inventory.example" / "group_vars" / "all" / "main.yml").read_text()
)


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    return Inventory(tmp_path / "inventory")


def test_playbook_accepts_the_example_and_encrypts_new_secrets(inventory: Inventory) -> None:
    inventory.write(EXAMPLE, VARIABLES)

    first = inventory.play("preflight.yml")

    assert first.returncode == 0, said(first)
    secrets = inventory.folder / "secrets.yml"
    kept = secrets.read_text()
    assert kept.startswith("$ANSIBLE_VAULT;1.1;AES256")
    assert "munge_key" not in first.stdout + kept

    wrong = inventory.play("preflight.yml", password="wrong")

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
    ],
    ids=["without a controller", "two nodes of one name"],
)
def test_playbook_refuses_an_inventory(inventory: Inventory, hosts: str, sentence: str) -> None:
    assert hosts != EXAMPLE
    inventory.write(hosts, VARIABLES)

    done = inventory.play("preflight.yml")

    assert done.returncode != 0
    assert sentence in said(done)
    assert not (inventory.folder / "secrets.yml").exists()


@pytest.mark.long(third=1)
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
