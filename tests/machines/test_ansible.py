"""The playbook on bare machines: what it sets up, that it changes nothing twice, and that nodes come and go."""

from __future__ import annotations

import json
import logging
import re
import shlex
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.machines.fleet import Fleet
from tests.machines.site import (
    NPMRC,
    PORTAL,
    READY_WITHIN_S,
    RUN_WITHIN_S,
    SESSIONS,
    Api,
    Site,
    inventory_variables,
)
from tests.machines.software import registries
from tests.support import realtime
from tests.support.absence import AbsenceMeter
from tests.support.ansible import Inventory, program, recap, said
from tests.support.documents import typed_lines
from tests.support.notebook import Notebook
from tests.support.releases import next_release
from tests.support.waiting import eventually

log = logging.getLogger(__name__)

pytestmark = [
    pytest.mark.long(third=1),
    pytest.mark.timeout(3600),
    realtime.MACHINES,
]

COUNTING = {
    "type": "job",
    "name": "counting",
    "commands": ["i=0; while :; do i=$((i+1)); echo $i; sleep 0.2; done"],
}
SIZE: dict[str, Any] = {"resources": {"cpu": 1, "memory": "1G"}, "max_duration": "1h"}
LOGIN1 = "$(getent ahostsv4 login1 | head -n 1 | cut -d ' ' -f 1)"
"""Address of the portal's machine, in a command."""
FAULTS = {
    "nodes": ("login1", "scontrol update NodeName=n2 State=DRAIN Reason=planted"),
    "slurmrestd": ("login1", "systemctl stop slurmrestd"),
    "slurm-accounting": ("login1", "systemctl stop slurmdbd"),
    "secrets": ("login1", "chmod 644 /var/lib/aitne/secrets/encryption_key"),
    "public-address": ("login1", "systemctl stop nginx"),
    "node-software": ("login1", "mv /srv/aitne/software /srv/aitne/elsewhere"),
    "node-addresses": ("n1", f"ip route add blackhole {LOGIN1}"),
    "broker-protocol": ("login1", "systemctl stop aitne-broker"),
    "database": ("login1", "systemctl stop postgresql"),
}
"""Checks of the doctor, each with a machine and the command that plants a fault there."""
REPAIRS = (
    ("login1", "systemctl start postgresql slurmdbd slurmrestd aitne-broker nginx"),
    ("login1", "chmod 600 /var/lib/aitne/secrets/encryption_key"),
    ("login1", "mv /srv/aitne/elsewhere /srv/aitne/software"),
    ("n1", f"ip route del blackhole {LOGIN1}"),
    ("login1", "scontrol update NodeName=n2 State=RESUME"),
)
WHERE_AND_WHO = "import getpass, socket; print(socket.gethostname(), getpass.getuser())"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three machines after the first run, and a fourth, ``n3``, that is bare."""
    program("ansible-playbook")
    folder = tmp_path_factory.mktemp("ansible")
    environment, files = registries()
    npmrc = environment.pop("NPM_CONFIG_USERCONFIG", None)
    files = {file for file in files if str(file) != npmrc}
    with Fleet() as fleet:
        machines = fleet.up(["login1", "n1", "n2", "n3"], software=False, files=files)
        login = machines[0]
        hosts = login.get("/etc/hosts").decode()
        login.put("/etc/hosts", f"{hosts}{login.address} {PORTAL.removeprefix('https://')}\n")
        if npmrc is not None:
            environment["NPM_CONFIG_USERCONFIG"] = NPMRC
            login.put(NPMRC, Path(npmrc).read_text())
        made = Site(
            {machine.name: machine for machine in machines},
            Inventory(folder / "inventory"),
            inventory_variables(fleet, folder, environment),
            {"portal": ["login1"], "controller": ["login1"], "nodes": ["n1", "n2"]},
        )
        first = made.play("first run")
        assert first.returncode == 0, first.stdout[-6000:] + first.stderr
        yield made


def administrator_commands() -> list[str]:
    """The commands of the handbook that create the first administrator and its link."""
    lines = typed_lines("docs/handbook/install.md")
    return [line for line in lines if " admin user " in line]


def return_commands(release: str, backup: str) -> list[str]:
    """The commands of the handbook that return to an earlier release, for root."""
    lines = typed_lines("docs/handbook/upgrade.md")
    begin, end = (lines.index(f"sudo systemctl {verb} aitne") for verb in ("stop", "start"))
    replaced = (line.replace("BACKUP", backup) for line in lines[begin : end + 1])
    return [line.removeprefix("sudo ").replace("0.1.0", release) for line in replaced]


def test_first_administrator_logs_in(site: Site) -> None:
    create, link = administrator_commands()
    created = json.loads(site.portal.run(["bash", "-c", create]).stdout)
    assert (created["name"], created["role"]) == ("grace", "admin")
    address = site.portal.run(["bash", "-c", link]).stdout.strip()
    assert address.startswith(f"{PORTAL}/")
    password = "a password of an administrator"
    with site.network().browser() as browser:
        body = {"token": address.partition("#token=")[2], "password": password}
        browser.post(f"{PORTAL}/api/v1/auth/reset", json=body).raise_for_status()
        body = {"username": "grace", "password": password}
        origin = {"Origin": PORTAL}
        browser.post(f"{PORTAL}/api/v1/auth/login", json=body, headers=origin).raise_for_status()
        assert browser.get(f"{PORTAL}/api/v1/me").json()["user"]["role"] == "admin"


def test_user_has_a_notebook_and_a_batch_job_with_a_dataset_on_nodes_over_https(
    site: Site,
) -> None:
    token, network = site.token("alice"), site.network()
    as_alice = {"AITNE_URL": PORTAL, "AITNE_TOKEN": token, "SSL_CERT_FILE": "/etc/aitne/ca.pem"}
    words = ["dataset", "add", "words", "/home/alice/sets/words", "--version", "1.0", "--yes"]
    create = ["mkdir", "-p", "/home/alice/sets/words"]
    site.portal.run(create, user="alice")
    site.portal.run(["tee", "/home/alice/sets/words/one.txt"], user="alice", stdin="of a dataset\n")
    added = site.portal.run(["/opt/aitne/bin/aitne", *words], user="alice", env=as_alice)
    assert added.stdout == "words:1.0\n"
    with network.browser() as browser:
        api = Api(browser, token)
        commands = ["srun hostname", "srun id -un", "cat $AITNE_DATASETS/words/one.txt"]
        batch = {"type": "job", "name": "two", "commands": commands, "datasets": ["words:1.0"]}
        batch |= {"resources": SIZE["resources"] | {"nodes": 2}, "max_duration": "10m"}
        job = api.post("/jobs", batch)["id"]
        session = api.post("/sessions", {"type": "session", "template": "jupyterlab"} | SIZE)["id"]
        api.wait(job, "COMPLETED")
        # srun reports a step that had to wait for the one before.
        said_by = [line for line in api.log(job).splitlines() if not line.startswith("srun: ")]
        assert sorted(said_by[:2]) == ["n1", "n2"]
        assert said_by[2:] == ["alice", "alice", "of a dataset"]
        ready = api.wait(session, "READY")
        opened = api.post(f"/sessions/{session}/open")
        assert opened["url"].startswith(f"https://alice.{SESSIONS}/")
        with Notebook(PORTAL, token, opened["url"], network) as notebook:
            notebook.start_kernel()
            assert notebook.execute(WHERE_AND_WHO) == f"{ready['nodes'][0]} alice\n"
        api.post(f"/sessions/{session}/stop")


def test_second_run_and_check_change_nothing(site: Site) -> None:
    for what, options in (("second run", ()), ("--check", ("--check", "--diff"))):
        done = site.play(what, *options)

        assert done.returncode == 0, done.stdout[-6000:]
        counts = recap(done.stdout)
        assert set(counts) == {"login1", "n1", "n2"}
        assert {each["changed"] for each in counts.values()} == {0}, done.stdout


def test_prometheus_scrapes_platform_and_nodes(site: Site) -> None:
    def up() -> bool:
        query = "http://127.0.0.1:9090/api/v1/query?query=up"
        answer = json.loads(site.portal.run(["curl", "--silent", query]).stdout)
        found = [(each["metric"]["job"], each["value"][1]) for each in answer["data"]["result"]]
        return ("aitne", "1") in found and found.count(("node", "1")) == 3

    eventually("Prometheus has scraped all", up, READY_WITHIN_S)


def test_doctor_names_each_fault_that_is_planted_on_the_machines(site: Site) -> None:
    def problems() -> dict[str, dict[str, str]]:
        began = time.monotonic()
        shown = json.loads(site.aitne("admin", "doctor", "--json", check=False))
        states = {each["name"]: each for each in shown["checks"] if each["state"] != "ok"}
        failed = sorted(name for name, each in states.items() if each["state"] == "failed")
        log.info("The doctor took %.1f s: %s.", time.monotonic() - began, ", ".join(failed))
        return states

    def named(check: str) -> bool:
        return bool(problems().get(check, {}).get("remedy"))

    def planted() -> set[str]:
        return problems().keys() & FAULTS.keys()

    eventually("there is none of the faults", lambda: not planted(), READY_WITHIN_S)
    try:
        for name, (machine, command) in FAULTS.items():
            site.machines[machine].run(["bash", "-c", command])
            eventually(f"the doctor names {name}", partial(named, name), READY_WITHIN_S)
    finally:
        for machine, command in REPAIRS:
            site.machines[machine].run(["bash", "-c", command], check=False)
    eventually("the faults are gone", lambda: not planted(), READY_WITHIN_S)


def test_node_is_added_after_it_lost_its_power_half_way_and_removed_after_its_job(
    site: Site,
) -> None:
    n3 = site.machines["n3"]
    site.groups["nodes"] = ["n1", "n2", "n3"]
    # Machines of the tests have it from the start.
    n3.run(["apt-get", "purge", "--yes", "slurmd"])
    state = ["dpkg-query", "--show", "--showformat=${db:Status-Status}", "slurmd"]

    def is_installing() -> bool:
        half_way = ("half-installed", "unpacked", "half-configured")
        return n3.run(state, check=False).stdout in half_way

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(site.play, "a node vanishes", "--tags", "common,munge,slurm")
        eventually(
            "n3 installs slurmd", lambda: is_installing() or running.done(), RUN_WITHIN_S, 0.01
        )
        n3.power_cut()
        vanished = running.result()
    n3.boot()
    assert vanished.returncode == 4, said(vanished)
    counts = recap(vanished.stdout)
    assert (counts["n3"]["unreachable"], counts["n1"]["failed"]) == (1, 0), said(vanished)
    assert set(site.states()) == {"n1", "n2"}
    n3.wait_ready()
    assert is_installing()

    added = site.play("node added", "--skip-tags", "aitne,tls,reverse_proxy,standby")

    assert added.returncode == 0, added.stdout[-6000:]
    assert site.states() == {"n1": "idle", "n2": "idle", "n3": "idle"}
    options = ["--parsable", "--nodelist=n3", "--chdir=/home/alice", "--output=left.log"]
    script = "#!/bin/sh\nsleep 20\necho ended\n"
    job = site.portal.run(["sbatch", *options], user="alice", stdin=script).stdout.strip()
    site.groups["nodes"] = ["n1", "n2"]

    removed = site.play("node removed", "--tags", "slurm")

    assert removed.returncode == 0, removed.stdout[-6000:]
    assert set(site.states()) == {"n1", "n2"}
    ended = ["sacct", "--noheader", "--allocations", "--parsable2", "-j", job, "-o", "State"]
    assert site.portal.run(ended).stdout.strip() == "COMPLETED"
    assert site.portal.get("/home/alice/left.log") == b"ended\n"


def test_upgrade_as_root_and_both_ways_back_keep_session_and_job(site: Site) -> None:
    token, network = site.token("alice"), site.network()
    wheel, present = Path(str(site.variables["aitne_wheel"])), site.version()
    exits = "from aitne.local_system import held_process_start; held_process_start.wait_for_release(); raise SystemExit('it does not start')"
    failing, good = next_release(wheel, "0.2.1", api=exits), next_release(wheel, "0.2.2")
    with ExitStack() as ends:
        api = Api(ends.enter_context(network.browser()), token)
        session = api.post("/sessions", {"type": "session", "template": "jupyterlab"} | SIZE)["id"]
        job = api.post("/jobs", COUNTING | SIZE)["id"]
        api.wait(session, "READY")
        opened = api.post(f"/sessions/{session}/open")["url"]
        notebook = ends.enter_context(Notebook(PORTAL, token, opened, network))
        notebook.start_kernel()
        notebook.execute("x = 42")

        def check_work_goes_on() -> None:
            eventually("the route is there", notebook.reachable)
            eventually("the broker answers", lambda: api.answers(f"/jobs/{job}/logs"))
            notebook.connect()
            assert notebook.execute("x") == "42"
            size = len(api.log(job))
            eventually("the job writes", lambda: len(api.log(job)) > size)
            assert api.get(f"/jobs/{session}").json()["state"] == "READY"
            assert api.get(f"/jobs/{job}").json()["state"] == "RUNNING"
            new = {"type": "job", "commands": ["hostname"]} | SIZE
            api.wait(api.post("/jobs", new)["id"], "COMPLETED")

        main = site.main_process()
        failed = site.upgrade(failing)
        assert failed.returncode == 1, said(failed)
        assert f"Release 0.2.1 did not work, and {present} is in use again" in said(failed)
        assert site.version() == present
        check_work_goes_on()

        with AbsenceMeter(PORTAL, network.browser()) as absence:
            upgraded = site.upgrade(good)
        assert upgraded.returncode == 0, said(upgraded)
        log.info("The portal was away for %.1f s.", absence.longest_s)
        assert site.version() == "0.2.2"
        assert site.main_process() != main
        site.aitne("admin", "health")
        check_work_goes_on()
        site.portal.run(["systemctl", "restart", "aitne-broker"])
        check_work_goes_on()

        older = site.play("a wheel older than the portal's release", "--tags", "aitne")
        assert older.returncode == 0, said(older)
        assert f"has release 0.2.2, and the inventory names {present}" in said(older)
        assert recap(older.stdout)["login1"]["changed"] == 0, said(older)
        assert site.version() == "0.2.2"

        found = re.search(r"The backup is (\S+)\.\s", said(upgraded))
        assert found is not None, said(upgraded)
        for command in return_commands(present, found[1]):
            site.portal.run(shlex.split(command), timeout_s=300)
        assert site.version() == present
        check_work_goes_on()

        site.variables["aitne_wheel"] = str(good)
        played = site.play("upgrade of the platform", "--tags", "aitne")
        assert played.returncode == 0, said(played)
        assert site.version() == "0.2.2"
        check_work_goes_on()
        for each in (session, job):
            api.post(f"/jobs/{each}/cancel")
