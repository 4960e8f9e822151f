"""Slurm's commands run as the right account, without privileges or environment of the broker."""

from __future__ import annotations

import pwd
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from aitne.adapters.command import _process
from aitne.adapters.command.as_user import AsUserCommand
from aitne.adapters.command.local import LocalCommand
from aitne.adapters.unix_account_mapping import unix_user
from aitne.core.errors import CommandTimeout, NotAllowed, Unavailable
from aitne.local_system.own_account import own_account_name
from tests.support import realtime
from tests.support.slurm import root_or_skip
from tests.support.waiting import eventually

pytestmark = realtime.PROCESSES

TELL = """#!/bin/sh
echo "who $(id -u) $(id -G)"
echo "cwd $(pwd)"
env | sed 's/^/env /'
grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status | sed 's/^/status /'
echo "fds $(ls /proc/self/fd | tr '\\n' ' ')"
for word in "$@"; do echo "arg $word"; done
cat | sed 's/^/stdin /'
"""


SCRIPTS = {
    "squeue": TELL,
    "scontrol": TELL,
    "sinfo": "#!/bin/sh\nsleep 60 & wait\n",
    "sdiag": "#!/bin/sh\nexec yes 0123456789\n",
}


@pytest.fixture
def prefix(users: dict[str, str]) -> Iterator[list[str]]:
    """A command prefix with programs named as Slurm's, which print their identity."""
    with tempfile.TemporaryDirectory(prefix="aitne-commands-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        for name, text in SCRIPTS.items():
            Path(folder, name).write_text(text)
            Path(folder, name).chmod(0o755)
        yield ["env", f"PATH={folder}:/usr/bin:/bin"]


def said(output: bytes, word: str) -> list[str]:
    lines = output.decode().splitlines()
    return [line.partition(" ")[2] for line in lines if line.startswith(f"{word} ")]


async def test_as_a_user(
    users: dict[str, str], prefix: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AITNE_SECRET_OF_ROOT", "x")
    anna = unix_user(users["anna"])
    words = ["squeue", "--name=a b", "$(id)", "x\ny", "-o", "%i"]

    command = AsUserCommand(unix_user, None, prefix)
    done = await command.run(
        words, account=anna.name, stdin=b"#!/bin/bash\n", env={"SLURM_CONF": "/x"}, timeout_s=20
    )

    assert done.returncode == 0, done.output_text
    assert said(done.stdout, "who") == [f"{anna.uid} {anna.gid}"]
    assert said(done.stdout, "cwd") == ["/"]
    assert said(done.stdout, "stdin") == ["#!/bin/bash"]
    assert said(done.stdout, "arg")[:3] == ["--name=a b", "$(id)", "x"]
    names = {line.partition("=")[0] for line in said(done.stdout, "env")}
    assert names <= {"PATH", "LANG", "SLURM_CONF", "PWD", "_", "SHLVL", "OLDPWD"}
    status = dict(line.split(":\t") for line in said(done.stdout, "status"))
    assert status.pop("NoNewPrivs") == "1"
    assert set(status.values()) == {"0000000000000000"}
    assert set(said(done.stdout, "fds")[0].split()) <= {"0", "1", "2", "3"}


async def test_as_the_operator_and_as_root(users: dict[str, str], prefix: list[str]) -> None:
    ben = unix_user(users["ben"])
    command = AsUserCommand(unix_user, ben, prefix)
    looked = await command.run(["squeue"], account=None, timeout_s=20)
    assert said(looked.stdout, "who") == [f"{ben.uid} {ben.gid}"]
    extended = await command.run(
        ["scontrol", "update", "JobId=1", "TimeLimit=5"], account=None, timeout_s=20
    )
    assert said(extended.stdout, "who") == [f"{ben.uid} {ben.gid}"]
    # Slurm takes a node's state from an administrator alone.
    drained = await command.run(
        ["scontrol", "update", "NodeName=n1", "State=RESUME"], account=None, timeout_s=20
    )
    assert said(drained.stdout, "who")[0].startswith("0 ")
    # As a user it stays the user's, whatever it says.
    as_user = await command.run(
        ["scontrol", "update", "NodeName=n1"], account=ben.name, timeout_s=20
    )
    assert said(as_user.stdout, "who") == [f"{ben.uid} {ben.gid}"]


@pytest.mark.parametrize("argv", [["bash", "-c", "id"], ["/usr/bin/squeue"], ["../squeue"], []])
async def test_commands_other_than_slurm_commands_are_refused(
    users: dict[str, str], prefix: list[str], argv: list[str]
) -> None:
    command = AsUserCommand(unix_user, None, prefix)
    with pytest.raises(NotAllowed, match="Slurm's commands"):
        await command.run(argv, account=users["anna"], timeout_s=5)


async def test_command_that_times_out_is_killed_with_all_its_processes(
    users: dict[str, str], prefix: list[str]
) -> None:
    command = AsUserCommand(unix_user, None, prefix)
    with pytest.raises(CommandTimeout, match="sinfo"):
        await command.run(["sinfo"], account=users["anna"], timeout_s=0.5)
    uid = pwd.getpwnam(users["anna"]).pw_uid
    eventually(
        "its processes are gone",
        lambda: not any(_runs_as(each, uid) for each in Path("/proc").iterdir()),
        within_s=30,
    )


async def test_output_without_end_is_refused(
    users: dict[str, str], prefix: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_process, "MAX_OUTPUT_BYTES", 1 << 20)
    command = AsUserCommand(unix_user, None, prefix)
    with pytest.raises(Unavailable, match="wrote more than"):
        await command.run(["sdiag"], account=users["anna"], timeout_s=20)


async def test_a_program_that_is_not_there() -> None:
    root_or_skip()
    with pytest.raises(Unavailable, match="could not be started"):
        await LocalCommand(["/no/such/prefix"]).run(["squeue"], account=None, timeout_s=5)


async def test_without_a_broker_nobody_else_is_acted_for() -> None:
    command = LocalCommand()
    done = await command.run(["id", "-un"], account=own_account_name(), timeout_s=20)
    assert done.stdout.decode().strip() == own_account_name()
    ignored = await command.run(["true"], account=None, stdin=b"x" * (1 << 20), timeout_s=20)
    assert ignored.returncode == 0, "what does not read its input may still succeed"
    with pytest.raises(NotAllowed, match="no broker"):
        await command.run(["id"], account="somebody-else", timeout_s=5)


def _runs_as(process: Path, uid: int) -> bool:
    try:
        return process.name.isdecimal() and process.stat().st_uid == uid
    except OSError:
        return False
