"""Several machines on one network, which are removed completely afterwards.

    with Fleet() as fleet:
        portal, n1 = fleet.up(["portal", "n1"])
        n1.run(["ping", "-c1", "portal"])

All resources that a fleet creates on the host have its slot in their names: a bridge, three iptables
rules, control groups, and a folder with the overlays. A fleet holds a lock on its slot. A process that
gets the lock of a slot with resources in it knows that their owner died, and removes them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.machines import base as bases
from tests.machines.machine import Machine, MachineError
from tests.machines.network import Network
from tests.machines.software import SOFTWARE, software_folder

SLOTS = 10
SHARED = ("home", "srv/aitne")
"""Folders that every machine has in common, as from a file server."""
NETWORK_FILE = """\
[Match]
Name=host0
[Network]
Address={address}/24
Gateway={gateway}
LinkLocalAddressing=no
"""


class Fleet:
    """Machines that boot together.

    They have ``software`` at ``SOFTWARE`` unless ``up`` is told otherwise; it is empty until ``ensure_software`` was called.
    """

    def __init__(self) -> None:
        self.machines: dict[str, Machine] = {}
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        """Take a free slot, clear what an earlier owner left there, and make the network.

        Raises:
            MachineError: as many fleets as there are slots run already.
        """
        self.base = bases.ensure_base()
        self._ends.enter_context(bases.in_use(self.base.root.parent))
        self.software = software_folder(self.base)
        self._ends.enter_context(bases.in_use(self.software))
        slot, lock = _free_slot()
        self._ends.enter_context(lock)
        self.slot = slot
        self.folder = _folder(slot)
        self.network = Network(slot)
        self._ends.callback(_clear, slot)
        try:
            self.folder.mkdir(parents=True)
            for name in SHARED:
                self.shared(name).mkdir(parents=True)
            self.network.up()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    def shared(self, name: str) -> Path:
        """Return the host's folder that all machines have as ``/name``; one of ``SHARED``."""
        return self.folder / "shared" / name

    def up(
        self,
        names: Sequence[str],
        *,
        software: bool = True,
        files: Iterable[Path] = (),
        folders: Sequence[tuple[Path, str]] = (),
    ) -> list[Machine]:
        """Boot machines of these names side by side and wait until they are up; once in a fleet's life.

        Args:
            names: host names, without domain.
            software: whether ``SOFTWARE`` is mounted; without it the machines have no part of the platform.
            files: files and folders of this machine that they have too, read-only.
            folders: folders of this machine, each with its path on the machines, read-only.

        Raises:
            MachineError: one did not come up; the message has the end of its console.
        """
        addresses = {name: self.network.address(index) for index, name in enumerate(names)}
        hosts = "".join(f"{address} {name}\n" for name, address in addresses.items())
        resolv = Path("/etc/resolv.conf").read_text()
        options = bases.bind_argv([(self.shared(name), f"/{name}") for name in SHARED])
        if software:
            options += bases.bind_argv([(self.software, SOFTWARE)], read_only=True)
        binds = [*((path, str(path)) for path in files), *folders]
        options += bases.bind_argv(binds, read_only=True)
        for name, address in addresses.items():
            machine = Machine(
                name,
                address,
                _machine_folder(self.slot, name),
                self.slot,
                self.network.bridge,
                self.base.root,
                self.base.ssh_key,
                options,
            )
            self.machines[name] = machine
            machine.prepare(
                {
                    "/etc/hostname": f"{name}\n",
                    "/etc/hosts": f"127.0.0.1 localhost\n{hosts}",
                    "/etc/resolv.conf": resolv,
                    "/etc/systemd/network/70-host0.network": NETWORK_FILE.format(
                        address=address, gateway=self.network.gateway
                    ),
                }
            )
            machine.boot()
        for machine in self.machines.values():
            machine.wait_ready()
        return list(self.machines.values())

    def down(self) -> None:
        """Switch all machines off and undo every mount, rule, bridge and folder.

        Raises:
            MachineError: one did not go off; the others have, and the slot is free.
        """
        for machine in self.machines.values():
            machine.kill()
        with self._ends:  # last in, first out: the machines before their network
            for machine in self.machines.values():
                self._ends.callback(machine.power_cut)
        self.machines.clear()

    def consoles(self) -> str:
        """Return the ends of all console logs."""
        return "\n".join(
            f"== console of {name}\n{machine.console[-1500:]}"
            for name, machine in self.machines.items()
        )


def clear_leftovers() -> None:
    """Undo what fleets whose owner died have left."""
    for slot in range(SLOTS):
        lock = _try_lock(slot)
        if lock is not None:
            with lock:
                _clear(slot)


def _free_slot() -> tuple[int, IO[str]]:
    clear_leftovers()
    for slot in range(SLOTS):
        lock = _try_lock(slot)
        if lock is not None:
            return slot, lock
    raise MachineError(f"{SLOTS} fleets run on this machine already.")


def _try_lock(slot: int) -> IO[str] | None:
    fleets = bases.machines_dir() / "fleets"
    fleets.mkdir(parents=True, exist_ok=True)
    lock = (fleets / f"{slot}.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _clear(slot: int) -> None:
    """Stop the machines of a slot and remove its network and its folder, as its records name them."""
    folder = _folder(slot)
    machines = folder / "machines"
    network = Network(slot)
    if machines.is_dir():
        nowhere = Path(os.devnull)
        left = [
            Machine(one.name, "", one, slot, network.bridge, nowhere, nowhere)
            for one in machines.iterdir()
        ]
        for machine in left:
            machine.kill()
        for machine in left:
            machine.remove()
    network.down()
    if folder.is_dir():
        _refuse_mounts_below(folder)
        shutil.rmtree(folder)


def _refuse_mounts_below(folder: Path) -> None:
    """Raise an error if a file system is mounted below the folder, whose files must not be deleted."""
    with Path("/proc/self/mountinfo").open() as mounts:
        below = [line.split()[4] for line in mounts if line.split()[4].startswith(f"{folder}/")]
    if below:
        raise MachineError(f"Something is mounted on {', '.join(below)}; umount it first.")


def _folder(slot: int) -> Path:
    return bases.machines_dir() / "fleets" / str(slot)


def _machine_folder(slot: int, name: str) -> Path:
    return _folder(slot) / "machines" / name
