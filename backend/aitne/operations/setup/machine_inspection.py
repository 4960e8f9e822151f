"""Inspection of this machine: accounts, programs, folders, ports and the reverse proxy."""

from __future__ import annotations

import grp
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.core.models.check_result import CheckResult, CheckState
from aitne.operations.requirements.clock_and_disk_space import (
    check_clock,
    check_space,
    list_folders,
)
from aitne.operations.setup import rendering
from aitne.operations.setup.answers import Answers
from aitne.operations.setup.check_results import (
    find_account,
    make_result,
    make_result_of_finding,
    run_command,
)
from aitne.operations.upgrade.command_account import describe_other_writers
from aitne.supervisor import start_checks

OK, WARNING, FAILED = CheckState.OK, CheckState.WARNING, CheckState.FAILED
UNKNOWN, SKIPPED = CheckState.UNKNOWN, CheckState.SKIPPED
LOGIN_DEFS = Path("/etc/login.defs")
NSSWITCH = Path("/etc/nsswitch.conf")
NETWORK_FILE_SYSTEMS = re.compile(
    r"(nfs4?|lustre|beegfs|gpfs|ceph|cifs|smb3|afs|9p|glusterfs|panfs|pvfs2|orangefs|virtiofs"
    r"|fuse\.(?!(overlayfs|snapfuse|lxcfs)$).*)"
)
_DIRECTORIES = {"sss": "SSSD", "ldap": "LDAP", "winbind": "winbind", "nis": "NIS"}
_PROTECT = "`chown root PATH; chmod go-w PATH`"
_LISTENS = "0A"
"""State of a listening socket in ``/proc/net/tcp``."""


def read_uid_range() -> tuple[int, int]:
    """Return the lowest and the highest uid of users' accounts that ``login.defs`` names."""
    values = {"UID_MIN": 1_000, "UID_MAX": 60_000}
    try:
        lines = LOGIN_DEFS.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        words = line.split()
        if len(words) >= 2 and words[0] in values and words[1].isdecimal():
            values[words[0]] = int(words[1])
    return values["UID_MIN"], values["UID_MAX"]


def find_proxy_group() -> str:
    """Return the group of the reverse proxy's account on this distribution."""
    for name in ("www-data", "nginx", "caddy"):
        try:
            return grp.getgrnam(name).gr_name
        except KeyError:
            continue
    return "www-data"


def check_machine(answers: Answers) -> Iterator[CheckResult]:
    """Yield the results of all checks of this machine. Nothing is changed."""
    yield make_result_of_finding("clock", check_clock())
    yield _check_programs(answers)
    yield _check_account(answers)
    yield _check_uids(answers)
    if answers.scheduler == "slurm":
        yield _check_shared_folder(answers.slurm.software_dir)
    yield _check_data_dir(answers)
    yield make_result_of_finding("folders", check_space(list_folders(answers)), is_blocking=False)
    if answers.has_proxy:
        yield _check_proxy_group(answers.proxy.group)
    if answers.proxy.server in rendering.PROXY_FILES:
        yield _check_proxy_configuration(answers)
    yield from _check_ports(answers)
    if answers.enable and not Path("/run/systemd/system").is_dir():
        yield make_result(
            "systemd",
            FAILED,
            "systemd does not run on this machine, so that no unit can be started.",
            "Set enable = false, and start `aitne up` with another service manager.",
        )


def _check_programs(answers: Answers) -> CheckResult:
    needed = ["aitne", "aitne-broker"] if answers.scheduler == "slurm" else ["aitne"]
    folder = answers.programs
    remedy = (
        "Install the platform as root: `python3 -m venv /opt/aitne` (docs/handbook/setup.md), or correct "
        "the answer programs."
    )
    missing = [name for name in needed if not os.access(folder / name, os.X_OK)]
    if missing:
        return make_result(
            "programs", FAILED, f"{folder} has no {' and no '.join(missing)}.", remedy
        )
    problem = describe_other_writers(folder / needed[-1])
    if problem is not None:
        return make_result("programs", WARNING, f"{problem}, and root runs the programs.", _PROTECT)
    return make_result("programs", OK, f"The programs in {folder} belong to root.")


def _check_account(answers: Answers) -> CheckResult:
    name = answers.account
    account = find_account(name)
    create = f"`useradd --system --user-group --home-dir {answers.data_dir} --shell /usr/sbin/nologin {name}`"
    if account is None:
        if answers.create_account:
            return make_result("account", OK, f"The account {name} will be created.")
        return make_result(
            "account",
            FAILED,
            f"There is no Unix account {name} for the platform's own processes.",
            f"Set create_account = true, or run {create}.",
        )
    if account.pw_uid == 0:
        return make_result(
            "account", FAILED, f"{name} is root.", f"Choose a system account: {create}."
        )
    try:
        grp.getgrnam(name)
    except KeyError:
        return make_result(
            "account",
            FAILED,
            f"There is no group {name}, which reads the settings and the broker's socket.",
            f"`groupadd --system {name}; usermod --append --groups {name} {name}`",
        )
    if answers.accounts.min_uid <= account.pw_uid <= answers.accounts.max_uid:
        return make_result(
            "account",
            FAILED if answers.scheduler == "local" else WARNING,
            f"{name} has the uid {account.pw_uid}, in the range of users, so that jobs may run as it.",
            f"Choose a system account: {create}.",
        )
    return make_result("account", OK, f"The account {name} has the uid {account.pw_uid}.")


def _check_uids(answers: Answers) -> CheckResult:
    low, high = read_uid_range()
    chosen = answers.accounts
    source = _find_account_source()
    message = (
        f"Jobs run as accounts with a uid from {chosen.min_uid} to {chosen.max_uid}; login.defs names "
        f"{low} to {high}, and accounts come from {source}."
    )
    if chosen.min_uid < low:
        return make_result(
            "accounts",
            WARNING,
            f"{message} Uids below {low} are those of system accounts.",
            f"Set accounts.min_uid = {low}.",
        )
    if source != "local files" and chosen.max_uid <= high:
        return make_result(
            "accounts",
            WARNING,
            f"{message} Directories often assign higher uids.",
            "Compare `id -u USER` of some users with accounts.max_uid.",
        )
    return make_result("accounts", OK, message)


def _find_account_source() -> str:
    """Return the source of accounts beside local files, from ``nsswitch.conf``."""
    try:
        lines = NSSWITCH.read_text(errors="replace").splitlines()
    except OSError:
        return "local files"
    words = next((line.split()[1:] for line in lines if line.startswith("passwd:")), [])
    names = [_DIRECTORIES[word] for word in words if word in _DIRECTORIES]
    return " and ".join(names) or "local files"


def find_file_system_type(path: Path) -> str:
    """Return the type of the file system that contains ``path``, or its nearest existing parent."""
    target = next(folder for folder in (path, *path.parents) if folder.exists()).resolve()
    kind, longest = "unknown", -1
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return kind
    for line in lines:
        mount, _, rest = line.partition(" - ")
        point = mount.split()[4].encode().decode("unicode_escape")
        inside = target == Path(point) or Path(point) in target.parents
        if inside and len(point) >= longest:
            kind, longest = rest.split()[0], len(point)
    return kind


def _check_shared_folder(folder: Path) -> CheckResult:
    kind = find_file_system_type(folder)
    problem = describe_other_writers(folder) if folder.is_dir() else None
    if problem is not None:
        message = f"{problem}, and programs there run in the jobs of all users."
        return make_result("shared", WARNING, message, _PROTECT)
    if NETWORK_FILE_SYSTEMS.fullmatch(kind):
        return make_result("shared", OK, f"{folder} is on a network file system ({kind}).")
    return make_result(
        "shared",
        WARNING,
        f"{folder} is on {kind}, a file system of this machine.",
        "Export it to all nodes under the same path, or set slurm.software_dir to a folder that they share.",
    )


def _check_data_dir(answers: Answers) -> CheckResult:
    folder = answers.data_dir
    try:
        owner = folder.stat().st_uid
    except FileNotFoundError:
        return make_result("data_dir", OK, f"The data directory {folder} will be created.")
    except OSError as error:
        return make_result("data_dir", UNKNOWN, f"{folder}: {error.strerror}.", "Run it as root.")
    account = find_account(answers.account)
    owners = {0} if answers.scheduler == "local" else set()
    if account is None or owner not in owners | {account.pw_uid}:
        return make_result(
            "data_dir",
            FAILED,
            f"The data directory {folder} exists and does not belong to {answers.account}.",
            f"`chown -R {answers.account}: {folder}` if it is the platform's, or choose another data_dir.",
        )
    kind = find_file_system_type(folder)
    if answers.database is None and NETWORK_FILE_SYSTEMS.fullmatch(kind):
        return make_result(
            "data_dir",
            WARNING,
            f"The data directory {folder} is on {kind}, where SQLite loses locks.",
            "Choose a local disk, or a PostgreSQL database.",
        )
    return make_result("data_dir", OK, f"The data directory {folder} belongs to {answers.account}.")


def _check_proxy_group(name: str) -> CheckResult:
    try:
        grp.getgrnam(name)
    except KeyError:
        return make_result(
            "proxy.group",
            FAILED,
            f"There is no group {name}.",
            "Install the proxy first, or set proxy.group to the group of its account.",
        )
    return make_result("proxy.group", OK, f"The group {name} reaches the portal's socket.")


def _check_proxy_configuration(answers: Answers) -> CheckResult:
    """Let the proxy itself check the configuration that would be written."""
    server = answers.proxy.server
    program = shutil.which(server, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        return make_result(
            "proxy", FAILED, f"{server} is not installed.", f"Debian: `apt-get install {server}`."
        )
    if os.geteuid() != 0:
        return make_result(
            "proxy",
            UNKNOWN,
            f"Only root can let {server} check its configuration.",
            "Run it as root.",
        )
    with tempfile.TemporaryDirectory(prefix="aitne-setup-") as name:
        folder = Path(name)
        site = folder / "site"
        site.write_text(rendering.render_proxy(answers))
        if server == "nginx":
            main = folder / "nginx.conf"
            main.write_text(f"pid {folder}/pid;\nevents {{}}\nhttp {{ include {site}; }}\n")
            argv = [program, "-t", "-q", "-e", "stderr", "-c", str(main)]
        else:
            argv = [program, "validate", "--config", str(site), "--adapter", "caddyfile"]
        home = {"HOME": name, "XDG_DATA_HOME": name, "XDG_CONFIG_HOME": name}
        answer = run_command(argv, environment=home)
    if answer.has_succeeded:
        return make_result("proxy", OK, f"{server} accepts the configuration.")
    noise = ("warn", "test failed", "test is successful")
    lines = [
        line
        for line in answer.error.splitlines()
        if not any(words in line.lower() for words in noise)
    ]
    return make_result(
        "proxy",
        FAILED,
        f"{server} refuses the configuration: {lines[-1][:500] if lines else answer.status}",
        "Correct the answers that the message names.",
    )


def _check_ports(answers: Answers) -> Iterator[CheckResult]:
    state = run_command(["systemctl", "is-active", "aitne.service"]).output.strip()
    taken = list(_list_proxy_ports(answers.proxy.server))
    if state not in ("active", "activating", "reloading"):
        try:
            start_checks.check_ports(answers)
        except SetupError as error:
            taken.append(
                make_result("ports", FAILED, error.message, "`ss -ltnp` shows the program.")
            )
    yield from taken or [make_result("ports", OK, "The ports of the platform are free for it.")]


def _list_proxy_ports(server: str) -> Iterator[CheckResult]:
    if server not in rendering.PROXY_FILES:
        return
    listening = _read_listening_ports()
    if listening is None:
        yield make_result(
            "ports", UNKNOWN, "/proc/net/tcp cannot be read.", "Check with `ss -ltn`."
        )
        return
    for port in (80, 443):
        inodes = listening.get(port)
        program = _find_socket_owner(inodes) if inodes else server
        if program != server:
            yield make_result(
                "ports",
                UNKNOWN if program is None else FAILED,
                f"Port {port} is used by {program or 'a program that only root can name'}.",
                f"End that program, which `ss -ltnp sport = :{port}` shows.",
            )


def _read_listening_ports() -> dict[int, set[str]] | None:
    """Return the listening TCP ports with the inodes of their sockets; None: not readable."""
    ports: dict[int, set[str]] = {}
    for name in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", name).read_text().splitlines()[1:]
        except FileNotFoundError:
            continue
        except OSError:
            return None
        for line in lines:
            words = line.split()
            if words[3] == _LISTENS:
                ports.setdefault(int(words[1].rpartition(":")[2], 16), set()).add(words[9])
    return ports


def _find_socket_owner(inodes: set[str]) -> str | None:
    """Return the name of the program that has one of these sockets open; None: only root may know."""
    links = {f"socket:[{inode}]" for inode in inodes}
    for process in Path("/proc").iterdir():
        if not process.name.isdecimal():
            continue
        try:
            for descriptor in (process / "fd").iterdir():
                if os.readlink(descriptor) in links:
                    return (process / "comm").read_text().strip()
        except OSError:
            continue  # it has ended, or belongs to another account
    return None
