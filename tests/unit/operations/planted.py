"""Faults that are planted in a real data directory or beside it, and what the doctor says about each."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import socketserver
import subprocess
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from aitne import __version__
from aitne.core.broker.protocol_versions import PROTOCOL
from aitne.core.models.check_result import CheckState
from aitne.local_system import hung_restart_records
from aitne.operations.doctor import root_files
from aitne.operations.requirements import clock_and_disk_space
from aitne.supervisor.software_environments import session_env_dir
from tests.support.certificates import Authority
from tests.support.requirements import need_package
from tests.unit.operations.doctor_site import Site
from tests.unit.operations.planted_rows import add_user, save_topology
from tests.unit.operations.planted_servers import tls_server, web_server
from tests.unit.operations.planted_slurm import (
    SLURM,
    clock_of_slurmctld_is_wrong,
    key_of_slurm_is_readable,
    keys_of_slurm_can_be_replaced,
    password_of_accounting_is_readable,
    slurm_is_old,
)

UNUSED_PORT = 9  # discard: no machine that runs tests listens there


def secret_is_readable(site: Site) -> None:
    (site.data_dir / "secrets" / "encryption_key").chmod(0o644)


def data_directory_is_open(site: Site) -> None:
    site.data_dir.chmod(0o755)


def folder_is_missing(site: Site) -> None:
    shutil.rmtree(site.data_dir / "hub")


def settings_can_be_changed(site: Site) -> None:
    site.set('title = "Vision"')
    site.settings()
    (site.data_dir / "aitne.toml").chmod(0o666)


def job_has_changed_the_environment(site: Site) -> None:
    site.patch.setenv("XDG_CACHE_HOME", str(site.root / "cache"))
    env = session_env_dir()
    env.mkdir(parents=True)
    (env / ".complete").touch()


def setting_has_no_effect(site: Site) -> None:
    site.set("[mail]", "port = 2525")


def disk_is_full(site: Site) -> None:
    site.patch.setattr(clock_and_disk_space, "LITTLE_BYTES", 1 << 62)


def area_is_not_mounted(site: Site) -> None:
    site.set("[[storage.areas]]", 'name = "scratch"', f'path = "{site.root}/scratch/{{user}}"')


def template_is_invalid(site: Site) -> None:
    (site.root / "templates").mkdir()
    (site.root / "templates" / "broken.yaml").write_text("name: [")
    site.set(f'templates = ["{site.root}/templates"]')


def logs_have_grown(site: Site) -> None:
    with (site.data_dir / "logs" / "hub.log").open("wb") as log:
        log.truncate(3 << 30)


def no_backup(site: Site) -> None:
    return


def backup_is_old(site: Site) -> None:
    made = datetime.now(UTC) - timedelta(days=3)
    record = {"path": "/backups/1", "created_at": made.isoformat(), "bytes": 4}
    (site.data_dir / "backup.json").write_text(json.dumps(record))


def write_was_interrupted(site: Site) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    (site.data_dir / "secrets" / f".webhook_key.{ended.pid}").write_text("x")


def time_zone_does_not_exist(site: Site) -> None:
    site.patch.setenv("TZ", "Europe/Atlantis")


def few_files_may_be_open(site: Site) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    child = site.stack.enter_context(subprocess.Popen(["sleep", "60"], preexec_fn=limit))
    site.stack.callback(child.kill)
    site.status = {"processes": [{"name": "api", "pid": child.pid}]}


def platform_is_down(site: Site) -> None:
    return


def process_is_missing(site: Site) -> None:
    names = ("api", "controller", "hub")
    site.status = {"processes": [{"name": name, "pid": 1, "restarts": 0} for name in names]}


def start_was_given_up(site: Site) -> None:
    (site.data_dir / "run" / "failure").write_text("The port 8000 is in use.\n")


def process_has_hung(site: Site) -> None:
    now = datetime.now(UTC).isoformat()
    hung_restart_records.record_restart(
        site.data_dir / "run", hung_restart_records.HungRestart("hub", now, 31.0)
    )


def running(site: Site, answer: bytes) -> None:
    port = site.stack.enter_context(web_server(answer))
    site.set(f"port = {port}")
    site.status = {"processes": []}


def port_has_another_program(site: Site) -> None:
    running(site, b"<html>It works!</html>")


def update_is_unfinished(site: Site) -> None:
    running(site, json.dumps({"ready": True, "version": "0.0.1", "parts": {}}).encode())


def database_is_of_a_newer_release(site: Site) -> None:
    site.execute("UPDATE alembic_version SET version_num = '9999'")


def database_is_of_another_program(site: Site) -> None:
    site.execute("DROP TABLE alembic_version")


def database_needs_a_migration(site: Site) -> None:
    site.execute("UPDATE alembic_version SET version_num = '0020'")


def database_is_damaged(site: Site) -> None:
    path = site.data_dir / "aitne.db"
    with path.open("r+b") as file:
        file.seek(3 * 4_096)
        file.write(b"\xff" * 8_192)


def name_has_no_address(site: Site) -> None:
    site.set('sessions_url = "https://*.sessions.invalid"')


def origin(site: Site, setting: str, *names: str, **valid: timedelta) -> None:
    authority = Authority(site.root)
    site.patch.setenv("SSL_CERT_FILE", str(authority.path))
    port = site.stack.enter_context(tls_server(authority.issue("portal", *names, **valid)))
    site.set(f'{setting} = "https://localhost:{port}"')


def certificate_has_expired(site: Site) -> None:
    origin(site, "public_url", "localhost", ended_ago=timedelta(hours=1))


def certificate_has_another_name(site: Site) -> None:
    origin(site, "public_url", "portal.example.org")


def certificate_of_sessions_is_not_trusted(site: Site) -> None:
    origin(site, "sessions_url", "localhost")
    site.patch.delenv("SSL_CERT_FILE")


def key_is_of_another_certificate(site: Site) -> None:
    authority = Authority(site.root)
    certificate, _ = authority.issue("one", "127.0.0.1")
    _, key = authority.issue("two", "127.0.0.1")
    site.set("[tls]", "enabled = true", f'certificate = "{certificate}"', f'key = "{key}"')


def nodes_do_not_reach_the_portal(site: Site) -> None:
    site.slurm(SLURM.read_text())
    site.set("[slurm]", 'portal_address = "http://login1.example.org:8000"')
    site.status = {"processes": []}


def browsers_have_one_address(site: Site) -> None:
    site.set('public_url = "https://portal.example.org"')


def mail_server_is_away(site: Site) -> None:
    site.set("[mail]", 'host = "127.0.0.1"', f"port = {UNUSED_PORT}")


def directory_is_away(site: Site) -> None:
    need_package("bonsai")
    site.set(
        *("[auth]", 'sources = ["password", "ldap"]', "[auth.ldap]"),
        *(f'url = "ldaps://127.0.0.1:{UNUSED_PORT}"', 'search_base = "dc=example"'),
    )


def provider_is_away(site: Site) -> None:
    site.set(
        "[auth]", 'sources = ["oidc"]', "[auth.oidc]", f'issuer = "http://127.0.0.1:{UNUSED_PORT}"'
    )


def receiver_is_away(site: Site) -> None:
    site.set("[audit]", f'syslog = "tcp://127.0.0.1:{UNUSED_PORT}"')


def jobs_are_not_confined(site: Site) -> None:
    site.slurm(SLURM.read_text())


def accounting_is_away(site: Site) -> None:
    site.slurm(SLURM.read_text())


def cluster_is_not_in_accounting(site: Site) -> None:
    site.slurm(SLURM.read_text(), **{"sacctmgr -nP show cluster": "other"})


def platform_is_no_operator(site: Site) -> None:
    site.slurm(SLURM.read_text(), **{"sacctmgr -nP show user": "None"})
    site.set("[slurm]", 'operator = "aitne"')


def slurmrestd_is_away(site: Site) -> None:
    site.slurm(SLURM.read_text())
    site.set("[slurm]", f'rest_url = "http://127.0.0.1:{UNUSED_PORT}"')


def broker(site: Site, **welcome: object) -> None:
    """Answer as a broker of another release does."""
    path = site.root / "broker.sock"
    facts = {"protocol": PROTOCOL, "release": __version__, "scheduler": "local", "settle_s": 1.0}

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.rfile.readline()
            self.wfile.write(json.dumps(facts | welcome).encode() + b"\n")

    server = site.stack.enter_context(socketserver.ThreadingUnixStreamServer(str(path), Handler))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    site.stack.callback(thread.join)
    site.stack.callback(server.shutdown)
    site.set("[broker]", f'socket = "{path}"')


def broker_is_away(site: Site) -> None:
    site.set("[broker]", f'socket = "{site.root}/none.sock"')


def broker_has_an_older_protocol(site: Site) -> None:
    broker(site, protocol=PROTOCOL - 1)


def broker_refuses_the_protocol(site: Site) -> None:
    broker(site, error={"code": "setup", "message": "The broker speaks protocol 1."})


def broker_has_another_scheduler(site: Site) -> None:
    broker(site, scheduler="slurm")


def broker_has_another_release(site: Site) -> None:
    broker(site, release="0.0.1")


def user_has_no_account(site: Site) -> None:
    broker(site)
    asyncio.run(add_user(site.data_dir))


def topology_lacks_a_node(site: Site) -> None:
    asyncio.run(save_topology(site.data_dir))


def broker_permits_other_uids(site: Site) -> None:
    if os.geteuid() != 0:
        pytest.skip("broker.toml belongs to root")
    broker(site)
    path = site.root / "broker.toml"
    path.write_text('peers = ["aitne"]\n[accounts]\nmax_uid = 70000\n')
    path.chmod(0o600)
    site.patch.setattr(root_files, "BROKER_CONFIG", path)


def software_is_of_another_release(site: Site) -> None:
    site.slurm(SLURM.read_text())
    (site.root / "software").mkdir(mode=0o755)


def gpus_are_declared_only(site: Site) -> None:
    site.set("[local]", 'gpus = "a100:4"')


FAILED, WARNING = CheckState.FAILED, CheckState.WARNING
FAULTS: list[tuple[Callable[[Site], None], str, CheckState, str, str]] = [
    (secret_is_readable, "secrets", FAILED, "encryption_key", "--fix"),
    (key_of_slurm_is_readable, "secrets", FAILED, "read or change", "etc-slurm/jwt.key`"),
    (password_of_accounting_is_readable, "secrets", FAILED, "slurmdbd.conf", "chmod 0600 "),
    (keys_of_slurm_can_be_replaced, "secrets", FAILED, "replace files in", "chmod o-w "),
    (data_directory_is_open, "data-directory", FAILED, "Other accounts", "chmod go-rwx"),
    (folder_is_missing, "data-directory", FAILED, "no folder hub", "--fix create"),
    (settings_can_be_changed, "settings", FAILED, "can change", "chmod o-w"),
    (setting_has_no_effect, "unused-settings", WARNING, "mail.port (mail.host", "Remove"),
    (disk_is_full, "folders", FAILED, "little space", "Free space"),
    (area_is_not_mounted, "storage", WARNING, "scratch", "Mount it"),
    (topology_lacks_a_node, "topology", WARNING, "lacks gpu02", "Correct the source"),
    (template_is_invalid, "templates", WARNING, "broken.yaml", "Correct the file"),
    (logs_have_grown, "logs", WARNING, "hub.log", "repeats"),
    (no_backup, "backup", WARNING, "No backup", "aitne admin backup"),
    (backup_is_old, "backup", WARNING, "3 d", "aitne admin backup"),
    (write_was_interrupted, "leftovers", WARNING, ".webhook_key.", "--fix"),
    (time_zone_does_not_exist, "time-zone", WARNING, "Atlantis", "Correct TZ"),
    (few_files_may_be_open, "open-files", WARNING, "256", "LimitNOFILE"),
    (platform_is_down, "processes", FAILED, "not running", "systemctl start aitne"),
    (process_is_missing, "processes", FAILED, "proxy", "logs"),
    (start_was_given_up, "start", FAILED, "The port 8000 is in use", "aitne up"),
    (process_has_hung, "hung-processes", WARNING, "hub 1 times", "audit log"),
    (
        job_has_changed_the_environment,
        "session-packages",
        FAILED,
        "jupyterlab==",
        "--force-reinstall",
    ),
    (port_has_another_program, "api", FAILED, "not as Aitne", "another `port`"),
    (update_is_unfinished, "release", WARNING, "0.0.1", "restart the platform"),
    (database_is_of_a_newer_release, "database-schema", FAILED, "9999", "Install that release"),
    (database_is_of_another_program, "database-schema", FAILED, "another program", "`database`"),
    (database_needs_a_migration, "database-schema", WARNING, "0020", "make a backup"),
    (database_is_damaged, "database-integrity", FAILED, "damaged", "Restore the last backup"),
    (name_has_no_address, "dns", FAILED, "*.sessions.invalid", "wildcard record"),
    (certificate_has_expired, "portal-certificate", FAILED, "expired on", "Renew"),
    (
        certificate_has_another_name,
        "portal-certificate",
        FAILED,
        "not for localhost",
        "these names",
    ),
    (certificate_of_sessions_is_not_trusted, "sessions-certificate", FAILED, "not accept", "a CA"),
    (key_is_of_another_certificate, "certificate-files", FAILED, "is not the key", "[tls]"),
    (nodes_do_not_reach_the_portal, "nodes-address", FAILED, "listens only on", "Set `bind`"),
    (browsers_have_one_address, "proxy-socket", WARNING, "reverse proxy", "`proxy_socket`"),
    (mail_server_is_away, "mail", FAILED, "refused", "[mail]"),
    (directory_is_away, "ldap", FAILED, "LDAP", "[auth.ldap]"),
    (provider_is_away, "oidc", FAILED, "127.0.0.1", "[auth.oidc]"),
    (receiver_is_away, "syslog", FAILED, "cannot be reached", "audit.syslog"),
    (jobs_are_not_confined, "slurm-settings", WARNING, "PrologFlags is", "PrologFlags=Contain"),
    (accounting_is_away, "slurm-accounting", FAILED, "does not answer", "Start slurmdbd"),
    (cluster_is_not_in_accounting, "slurm-accounting", FAILED, "cli24", "sacctmgr -i add cluster"),
    (platform_is_no_operator, "slurm-operator", FAILED, "PrivateData", "adminlevel=operator"),
    (slurm_is_old, "slurm-release", FAILED, "20.02.1", "Update Slurm"),
    (clock_of_slurmctld_is_wrong, "slurm-clock", FAILED, "ahead of", "chrony"),
    (slurmrestd_is_away, "slurmrestd", WARNING, "does not answer", "Start slurmrestd"),
    (broker_is_away, "broker", FAILED, "none.sock", "Start the broker"),
    (broker_is_away, "broker-protocol", FAILED, "does not answer", "Start the broker"),
    (broker_has_an_older_protocol, "broker-protocol", WARNING, "protocol 1", "restart the broker"),
    (broker_refuses_the_protocol, "broker-protocol", FAILED, "protocol 1", "update it"),
    (broker_has_another_scheduler, "broker-protocol", FAILED, "scheduler slurm", "same value"),
    (broker_has_another_release, "broker-protocol", WARNING, "0.0.1", "restart the broker"),
    (user_has_no_account, "accounts", WARNING, "zoe-without", "accounts.map"),
    (broker_permits_other_uids, "broker-settings", FAILED, "max_uid", "same values"),
    (software_is_of_another_release, "node-software", FAILED, "this release", "admin software"),
    (gpus_are_declared_only, "gpus", WARNING, "a100:4", "driver"),
]
AT_ONCE = (
    settings_can_be_changed,
    secret_is_readable,
    data_directory_is_open,
    disk_is_full,
    area_is_not_mounted,
    template_is_invalid,
    logs_have_grown,
    backup_is_old,
    write_was_interrupted,
    time_zone_does_not_exist,
    start_was_given_up,
    process_has_hung,
    port_has_another_program,
    topology_lacks_a_node,
    name_has_no_address,
    certificate_has_expired,
    nodes_do_not_reach_the_portal,
    mail_server_is_away,
    directory_is_away,
    receiver_is_away,
    jobs_are_not_confined,
    accounting_is_away,
    slurmrestd_is_away,
    software_is_of_another_release,
    user_has_no_account,
    few_files_may_be_open,
    platform_is_no_operator,
    database_needs_a_migration,
)
"""Faults of different checks that are planted in one site, in this order."""
