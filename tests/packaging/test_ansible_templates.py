"""Files that the playbook writes for an inventory, and what its nodes change in them.

``tests/machines/test_ansible.py`` runs the playbook on whole machines.
"""

from __future__ import annotations

import difflib
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from aitne.operations.setup.answers import validate_answers
from aitne.operations.setup.rendering import render_files
from tests.support.ansible import FOLDER, Inventory

EXAMPLE = FOLDER / "inventory.example"
VARIABLES = yaml.safe_load((EXAMPLE / "group_vars" / "all" / "main.yml").read_text())
TEMPLATES = {path.stem: path for path in FOLDER.glob("roles/*/templates/*.j2")}
CONTENTS = {
    "hosts": ("common/tasks/main.yml", "Write the addresses of all machines", "block"),
    "nginx.conf": ("reverse_proxy/tasks/main.yml", "Write the settings", "content"),
    "targets/nodes.yml": ("monitoring/tasks/server.yml", "Name the machines", "content"),
}
"""Files whose text is in a task: the file of the task, its name and the argument."""
FOUND = "NodeName=node CPUs=4 Boards=1 RealMemory=5024 Gres=gpu:a100:4 UpTime=0-01:00:00"
"""What ``slurmd -C`` prints on a node."""
RECORDED = "CPUs=4 Boards=1 RealMemory=4000 UpTime=0-01:00:00"
MAY = "(rw,sync,no_subtree_check)"
CHANGES = {
    "slurm.conf": {
        f"- NodeName=n1 NodeAddr=192.0.2.11 {RECORDED} State=UNKNOWN",
        f"+ NodeName=n3 NodeAddr=192.0.2.13 {RECORDED} Gres=gpu:a100:4 State=UNKNOWN",
    },
    "gres.conf": {"+ NodeName=n3 AutoDetect=nvidia Name=gpu Type=a100"},
    "hosts": {"- 192.0.2.11 n1", "+ 192.0.2.13 n3"},
    "targets/nodes.yml": {"-     - n1:9100", "+     - n3:9100"},
    "nftables.conf": {
        "-         elements = { 127.0.0.1, 192.0.2.10, 192.0.2.11, 192.0.2.12 }",
        "+         elements = { 127.0.0.1, 192.0.2.10, 192.0.2.12, 192.0.2.13 }",
    },
    "exports": {
        f"- /home 192.0.2.11{MAY} 192.0.2.12{MAY}",
        f"+ /home 192.0.2.12{MAY} 192.0.2.13{MAY}",
        f"- /srv/aitne 192.0.2.11{MAY} 192.0.2.12{MAY}",
        f"+ /srv/aitne 192.0.2.12{MAY} 192.0.2.13{MAY}",
    },
}
"""Lines that differ after ``n1`` was removed and ``n3``, with four GPUs, was added."""


def rendered(template: Path) -> str:
    return f"{{{{ lookup('ansible.builtin.template', '{template}') | trim }}}}"


def content(file: str, task: str, argument: str) -> str:
    """Return the text of a file in an argument of a task."""
    tasks: list[dict[str, Any]] = yaml.safe_load((FOLDER / "roles" / file).read_text())
    (found,) = (each for each in tasks if each["name"] == task)
    (text,) = (each[argument] for each in found.values() if argument in each)
    return str(text)


def variables() -> dict[str, Any]:
    """Return the variables of the roles, those that tasks register, and ``files``: all files by name."""
    found: dict[str, Any] = {}
    for path in FOLDER.glob("roles/*/vars/main.yml"):
        found |= yaml.safe_load(path.read_text())
    registered = {
        "item": "/home",  # the folder of nfs.mount
        "ansible_facts": {"os_family": "Debian"},
        "slurm_node_hardware": {"stdout_lines": [FOUND]},
        "recorded": {"rc": 0, "stdout": rendered(TEMPLATES["node"])},
        "slurm_controller_nodes": {
            "results": "{{ groups['nodes'] | sort | map('extract', hostvars, 'recorded') }}"
        },
    }
    files = {name: rendered(path) for name, path in TEMPLATES.items() if name != "node"}
    files |= {name: content(*place) for name, place in CONTENTS.items()}
    return {**found, **registered, "files": files}


def written(folder: Path, *, replaced: bool) -> dict[str, list[str]]:
    """Return the lines of all files as on ``login1``, which is portal, controller and storage of the example;
    ``n1`` may be replaced by ``n3``.
    """
    inventory = yaml.safe_load((EXAMPLE / "hosts.yml").read_text())
    hosts, nodes = inventory["all"]["hosts"], inventory["all"]["children"]["nodes"]["hosts"]
    if replaced:
        del hosts["n1"], nodes["n1"]
        hosts["n3"], nodes["n3"] = {"ansible_host": "192.0.2.13", "slurm_gpus": "a100:4"}, None
    site = Inventory(folder)
    site.write(yaml.safe_dump(inventory), VARIABLES)
    texts: dict[str, str | None] = site.value("files", "login1", variables())
    return {name: (text or "").splitlines() for name, text in texts.items()}


def test_run_of_playbook_changes_the_lines_of_added_and_removed_nodes_alone(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        first = pool.submit(written, tmp_path / "first" / "inventory", replaced=False)
        second = pool.submit(written, tmp_path / "second" / "inventory", replaced=True)
    before, after = first.result(), second.result()

    differences = {
        name: {line for line in difflib.ndiff(before[name], after[name]) if line[0] in "-+"}
        for name in before
    }
    assert {name: lines for name, lines in differences.items() if lines} == CHANGES


def test_answers_of_the_role_lead_to_the_settings_of_the_inventory(tmp_path: Path) -> None:
    site = Inventory(tmp_path / "inventory")
    further = {
        **VARIABLES,
        "ldap_url": "ldaps://ldap.example.org",
        "ldap_base": "ou=people,dc=example,dc=org",
        "ldap_bind_dn": "cn=aitne,dc=example,dc=org",
        "aitne_max_duration": "2d",
        "aitne_toml": '[mail]\nhost = "smtp.example.org"\n',
        "broker_toml": 'pam_service = "aitne"\n',
    }
    site.write((EXAMPLE / "hosts.yml").read_text(), further)

    text = site.value(
        "answers", "login1", {**variables(), "answers": rendered(TEMPLATES["setup.toml"])}
    )

    written = {file.path: file.text for file in render_files(validate_answers(tomllib.loads(text)))}
    platform = tomllib.loads(written["/etc/aitne/aitne.toml"])
    broker = tomllib.loads(written["/etc/aitne/broker.toml"])
    assert platform["public_url"] == f"https://{VARIABLES['portal_domain']}"
    assert platform["proxy_socket"] == "/run/aitne-portal/portal.sock"
    assert platform["mail"] == {"host": "smtp.example.org"}
    assert platform["auth"]["ldap"]["bind_password_file"] == "/etc/aitne/ldap_password"
    assert (broker["max_duration"], broker["pam_service"]) == ("2d", "aitne")
    assert broker["slurm"]["jwt_key"] == "/etc/slurm/jwt.key"
    assert "jwt_key" not in platform["slurm"]
    units = "/etc/systemd/system"
    assert {f"{units}/aitne-{name}.timer" for name in ("backup", "doctor")} <= written.keys()
    assert not [path for path in written if "nginx" in path]
