"""Install the packages that the tests use if this is root: Debian's, and Apptainer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from aitne.adapters import apt_installation
from aitne.core.errors import SetupError
from aitne_apptainer.installation import ensure_apptainer

PACKAGES: dict[str, Callable[[], bool]] = {
    "postgresql": lambda: any(Path("/usr/lib/postgresql").glob("*/bin/initdb")),
    "chromium": lambda: shutil.which("chromium") is not None,
    "docker.io": lambda: shutil.which("dockerd") is not None,
    "openmpi-bin": lambda: shutil.which("mpirun") is not None,
    "libopenmpi-dev": lambda: shutil.which("mpicc") is not None,
    "slapd": lambda: Path("/usr/sbin/slapd").exists(),
    "libldap-dev": lambda: Path("/usr/include/ldap.h").exists(),
    "libsasl2-dev": lambda: Path("/usr/include/sasl/sasl.h").exists(),
    "openssh-server": lambda: shutil.which("sshd", path="/usr/sbin:/usr/bin") is not None,
    "rsync": lambda: shutil.which("rsync") is not None,
    "lmod": lambda: Path("/usr/share/lmod").is_dir(),
    "nginx": lambda: Path("/usr/sbin/nginx").exists(),
    "caddy": lambda: shutil.which("caddy") is not None,
    "pebble": lambda: shutil.which("pebble") is not None,
    "prometheus": lambda: shutil.which("promtool") is not None,
    "prometheus-alertmanager": lambda: shutil.which("amtool") is not None,
    "zabbix-server-pgsql": lambda: Path("/usr/sbin/zabbix_server").exists(),
    "zabbix-frontend-php": lambda: Path("/usr/share/zabbix/index.php").exists(),
    "php-pgsql": lambda: any(Path("/etc/php").glob("*/cli/conf.d/*-pgsql.ini")),
    "php-cli": lambda: shutil.which("php") is not None,
    "strace": lambda: shutil.which("strace") is not None,
    "logrotate": lambda: Path("/usr/sbin/logrotate").exists(),
}
SERVICES = {
    **{name: name for name in ("nginx", "caddy", "prometheus", "prometheus-alertmanager")},
    "zabbix-server-pgsql": "zabbix-server",
}
"""Services that would start with the machine, by package."""
POLICY = Path("/usr/sbin/policy-rc.d")
"""The program that Debian's packages ask whether to start their services."""


def print_progress(text: str) -> None:
    """Print a progress message to standard error."""
    print(text, file=sys.stderr)


@contextmanager
def services_stopped() -> Iterator[None]:
    """Keep services of packages that are installed meanwhile from starting: the tests start their own."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink()


def disable_services(names: Collection[str]) -> None:
    """Keep the services from starting with the machine."""
    if names and shutil.which("systemctl") is not None:
        subprocess.run(["systemctl", "--quiet", "disable", *names], check=False)


def install_bonsai() -> None:
    """Install bonsai, which queries LDAP directories.

    It is built against OpenLDAP's libraries and therefore belongs to no other extra.
    """
    if find_spec("bonsai") is None:
        print_progress("Building bonsai …")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--constraint", "constraints.txt"]
        subprocess.run([*pip, "bonsai"], check=False, cwd=Path(__file__).resolve().parents[1])


def main() -> int:
    """Install the missing ones as root; otherwise say what the tests will skip and how to change that."""
    missing = [name for name, present in PACKAGES.items() if not present()]
    if os.geteuid() != 0 or not apt_installation.has_apt():
        if missing:
            print_progress(
                f"Missing: {', '.join(missing)}. The tests that need them are skipped; "
                f"to run them: sudo apt-get install --no-install-recommends {' '.join(missing)}"
            )
        return 0
    if missing:
        print_progress(f"Installing {', '.join(missing)} …")
        try:
            apt_installation.run_apt_get("update")
            with services_stopped():
                apt_installation.run_apt_get("install", "-y", "--no-install-recommends", *missing)
            disable_services([unit for package, unit in SERVICES.items() if package in missing])
        except SetupError as error:
            print_progress(error.message)
            return 1
    install_bonsai()
    try:
        ensure_apptainer(print_progress)
    except SetupError as error:
        # Not every system has a package of it; its tests say so again.
        print_progress(error.message)
    return 0


if __name__ == "__main__":
    sys.exit(main())
