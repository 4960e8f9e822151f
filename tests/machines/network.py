"""A bridge on the host with the machines' interfaces, and their route to package indexes."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_FORWARD = Path("/proc/sys/net/ipv4/ip_forward")


@dataclass(frozen=True, slots=True)
class Network:
    """The network of one fleet; ``slot`` (0 to 9) keeps two fleets apart."""

    slot: int

    @property
    def bridge(self) -> str:
        """The name of the bridge, unique to the slot."""
        return f"aitne{self.slot}"

    @property
    def subnet(self) -> str:
        """The subnet of the fleet."""
        return f"10.77.{self.slot}.0/24"

    @property
    def gateway(self) -> str:
        """The host's address on the bridge."""
        return f"10.77.{self.slot}.1"

    def address(self, index: int) -> str:
        """Return the address of the machine with the index ``index``, from 0."""
        return f"10.77.{self.slot}.{11 + index}"

    def up(self) -> None:
        """Make the bridge and let its machines out.

        Raises:
            RuntimeError: ``ip`` or ``iptables`` refused.
        """
        _run("ip", "link", "add", self.bridge, "type", "bridge")
        _run("ip", "address", "add", f"{self.gateway}/24", "dev", self.bridge)
        _run("ip", "link", "set", self.bridge, "up")
        _FORWARD.write_text("1")
        for table, rule in self._rules():
            _run("iptables", "-w", "-t", table, "-I", *rule)

    def down(self) -> None:
        """Undo ``up``, or as much of it as was done. Forwarding stays on: others may have asked for it too."""
        for table, rule in self._rules():
            while _succeeds("iptables", "-w", "-t", table, "-C", *rule):
                _run("iptables", "-w", "-t", table, "-D", *rule)
        if (Path("/sys/class/net") / self.bridge).exists():
            _run("ip", "link", "delete", self.bridge)

    def _rules(self) -> list[tuple[str, list[str]]]:
        ours = ["-m", "comment", "--comment", f"tests of Aitne: {self.bridge}"]
        away = ["-s", self.subnet, "!", "-d", self.subnet]
        return [
            ("nat", ["POSTROUTING", *away, *ours, "-j", "MASQUERADE"]),
            ("filter", ["FORWARD", "-i", self.bridge, *ours, "-j", "ACCEPT"]),
            ("filter", ["FORWARD", "-o", self.bridge, *ours, "-j", "ACCEPT"]),
        ]


def set_cable(port: str, state: str) -> None:
    """Plug in (``up``) or cut (``down``) a machine's cable at the bridge."""
    _run("ip", "link", "set", port, state)


def has_port(port: str) -> bool:
    """Return whether the host's end of a virtual Ethernet pair still exists."""
    return (Path("/sys/class/net") / port).exists()


def _run(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)} failed: {done.stderr.strip()}")


def _succeeds(*argv: str) -> bool:
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
