"""A user's own machine: it has the client alone, and shares with the cluster no file system and only one
network link."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_INSTALL_S = 300.0


class Laptop:
    """A network namespace and a mount namespace in which the folders of the cluster are empty, an empty home,
    and the client in a virtual environment of its own. Needs root.
    """

    def __init__(self, folder: Path, hidden: Sequence[Path]) -> None:
        """Set the folder with its files, and the folders of this machine that it does not see."""
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self._venv = folder / "venv"
        self._hidden = [str(path) for path in hidden]
        self._name = f"laptop{os.getpid()}"
        self._started: list[subprocess.Popen[str]] = []
        subnet = f"10.78.{os.getpid() % 250}"
        self.platform_address, self._address = f"{subnet}.1", f"{subnet}.2"

    def start_connected(self) -> None:
        """Make the link to the machine of the platform, which has the ``platform_address``."""
        here, there = f"{self._name}h", f"{self._name}l"
        in_laptop = ("-netns", self._name)
        for words in (
            ("netns", "add", self._name),
            ("link", "add", here, "type", "veth", "peer", "name", there, "netns", self._name),
            ("address", "add", f"{self.platform_address}/30", "dev", here),
            ("link", "set", here, "up"),
            (*in_laptop, "address", "add", f"{self._address}/30", "dev", there),
            (*in_laptop, "link", "set", there, "up"),
            (*in_laptop, "link", "set", "lo", "up"),
        ):
            subprocess.run(["ip", *words], check=True)

    def disconnect(self) -> None:
        """End the programs of the laptop, and remove the link and the namespace."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        subprocess.run(["ip", "link", "delete", f"{self._name}h"], check=False)
        subprocess.run(["ip", "netns", "delete", self._name], check=False)

    def install(self) -> None:
        """Do what the guide says: ``pip install aitne``, without its extra for servers."""
        subprocess.run([sys.executable, "-m", "venv", str(self._venv)], check=True)
        install = [self._venv / "bin/python", ROOT / "scripts/install.py", "--constraint"]
        subprocess.run(
            [*install, ROOT / "constraints.txt", ROOT / "runtime", ROOT],
            check=True,
            timeout=_INSTALL_S,
            cwd=self.home,
        )

    def start(self, *argv: str, folder: Path | None = None) -> subprocess.Popen[str]:
        """Start a program in ``folder``, by default the home."""
        hide = "".join(f'mount -t tmpfs none "{path}" && ' for path in self._hidden)
        script = f'{hide}cd "$1" && shift && exec "$@"'
        environment = {"HOME": str(self.home), "PATH": f"{self._venv}/bin:/usr/bin:/bin"}
        process = subprocess.Popen(
            [
                "ip",
                "netns",
                "exec",
                self._name,
                "sh",
                "-c",
                script,
                "sh",
                folder or self.home,
                *argv,
            ],
            env={**environment, "PATH": f"{environment['PATH']}:/usr/sbin:/sbin"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def run(self, *argv: str, folder: Path | None = None) -> tuple[str, str]:
        """Run a program that must succeed; its output and its messages."""
        process = self.start(*argv, folder=folder)
        output, messages = process.communicate(timeout=240)
        assert process.returncode == 0, f"{argv}: {process.returncode}\n{output}\n{messages}"
        return output, messages
