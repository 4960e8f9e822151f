"""Plan of all that a setup changes on this machine, and its execution."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from aitne.core.errors import SetupError
from aitne.operations.requirements.slurm_requirements import OPERATORS
from aitne.operations.setup import rendering
from aitne.operations.setup.answers import Answers
from aitne.operations.setup.check_results import find_account, run_command
from aitne.operations.setup.file_changes import (
    FileChange,
    FileState,
    compare_files,
    get_path_below,
    list_missing_folders,
    make_folder,
    read_group_ids,
    write_files,
)
from aitne.operations.setup.slurm_inspection import SlurmSite

Say = Callable[[str], None]
_SOFTWARE_WITHIN_S = 1_800.0
_START_WITHIN_S = 1_200.0


@dataclass(frozen=True, slots=True)
class SetupCommand:
    """A command that the setup runs as root, with its purpose."""

    purpose: str
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    within_s: float = 60.0


class SetupPlan:
    """Everything that differs between the answers and this machine. Constructing it changes nothing.

    Args:
        answers: the answers, which were validated.
        root: the folder below which files are written, ``/`` for this machine.
        source: the file that the answers were read from; it is not written, so that its comments stay.

    Raises:
        InvalidInput: the settings that follow from the answers are invalid.
        SetupError: a file cannot be compared.
    """

    def __init__(self, answers: Answers, root: str = "/", source: Path | None = None) -> None:
        self.answers = answers
        self.root = root
        files = [
            file
            for file in rendering.render_files(answers)
            if source is None or not _is_same_file(get_path_below(root, file.path), source)
        ]
        self.changes = compare_files(files, root, self._get_group_ids())
        self.folders = list_missing_folders(rendering.list_folders(answers), root)
        self.creates_account = not self._account_exists()
        self.makes_operator = self._needs_operator()

    @property
    def files_to_write(self) -> list[FileChange]:
        """Files that are written: they are new, changed, or have another mode or owner."""
        return [
            change
            for change in self.changes
            if change.state in (FileState.CREATED, FileState.CHANGED) or change.wrong_mode
        ]

    def describe_changes(self, kept: Collection[Path] = ()) -> list[str]:
        """Return what the execution will do, in its order; ``kept`` are files that are not replaced."""
        answers = self.answers
        sentences = []
        if self.creates_account:
            sentences.append(f"Create the Unix account {answers.account}.")
        sentences += [
            f"Create the folder {get_path_below(self.root, folder.path)} of {folder.owner}."
            for folder in self.folders
        ]
        for change in self.files_to_write:
            if change.path in kept:
                continue
            verb = {FileState.CREATED: "Create", FileState.CHANGED: "Replace"}.get(
                change.state, "Write mode and owner of"
            )
            sentences.append(f"{verb} {change.path}.")
        if self.makes_operator:
            sentences.append(f"Give {answers.operator} Slurm's operator level.")
        return [*sentences, *(f"{step.purpose}." for step in self.list_commands(kept))]

    def execute(self, say: Say, kept: Collection[Path] = ()) -> list[Path]:
        """Carry the plan out; ``kept`` are files that are not replaced.

        Returns:
            The copies of replaced files.

        Raises:
            SetupError: a step failed; its message says what was done before.
        """
        answers, account = self.answers, self.answers.account
        if self.creates_account:
            prefix = () if self.root == "/" else ("--prefix", self.root)
            options = ("--system", "--user-group", "--shell", "/usr/sbin/nologin")
            home = ("--home-dir", str(answers.data_dir))
            self._run_command(
                SetupCommand(
                    f"Create the Unix account {account}",
                    ("useradd", *prefix, *options, *home, account),
                ),
                say,
                "Nothing else was changed.",
            )
        gids = self._get_group_ids()
        for folder in self.folders:
            owned = folder.owner == account
            uid = self._get_user_id(account) if owned else 0
            make_folder(folder, self.root, uid, gids.get(account, 0) if owned else 0)
        steps = list(self.list_commands(kept))
        written = [change for change in self.files_to_write if change.path not in kept]
        copies = write_files(written, gids)
        for change in written:
            say(f"{change.path} is written.")
        if self.makes_operator:
            answer = SlurmSite(answers).grant_operator_level()
            if not answer.has_succeeded:
                raise SetupError(
                    f"sacctmgr did not give {answers.operator} the operator level: "
                    f"{answer.error or answer.output.strip()}. The files are written, and nothing was "
                    "started. Run the command again as an administrator of Slurm."
                )
        for step in steps:
            again = (
                "The files are written. Correct the cause, then run that command and setup again."
            )
            self._run_command(step, say, again)
        return copies

    def list_commands(self, kept: Collection[Path] = ()) -> Iterator[SetupCommand]:
        """Yield the commands that follow the writing of the files."""
        changed = {change.file.path for change in self.files_to_write if change.path not in kept}
        if self.root != "/":
            if self.answers.enable:
                yield from self._list_offline_commands()
            return
        if not Path("/run/systemd/system").is_dir():
            return
        units = rendering.list_units(self.answers)
        if any(path.startswith(rendering.UNITS) for path in changed) or _needs_reload(units):
            yield SetupCommand("Let systemd read the units", ("systemctl", "daemon-reload"))
        if self.answers.has_proxy and (
            rendering.TMPFILES in changed or not Path(rendering.PROXY_DIR).is_dir()
        ):
            argv = ("systemd-tmpfiles", "--create", rendering.TMPFILES)
            yield SetupCommand("Create the folder of the portal's socket", argv)
        if self.answers.enable:
            yield from self._list_start_commands(changed)

    def _list_start_commands(self, changed: Collection[str]) -> Iterator[SetupCommand]:
        answers = self.answers
        if answers.scheduler == "slurm" and (changed or not _is_active("aitne")):
            config = (("AITNE_CONFIG", f"{rendering.CONFIG_DIR}/aitne.toml"),)
            yield SetupCommand(
                f"Install the software for nodes in {answers.slurm.software_dir}",
                (
                    f"{answers.programs}/aitne",
                    *("admin", "software", "--data-dir", str(answers.data_dir)),
                ),
                config,
                _SOFTWARE_WITHIN_S,
            )
        for unit in rendering.list_units(answers):
            name = unit.removeprefix("aitne-") if unit != "aitne" else "aitne"
            own = {f"{rendering.CONFIG_DIR}/{name}.toml", f"{rendering.UNITS}/{unit}.service"}
            if not run_command(["systemctl", "is-enabled", "--quiet", unit]).has_succeeded:
                yield SetupCommand(f"Enable {unit}", ("systemctl", "enable", "--quiet", unit))
            if not _is_active(unit):
                yield SetupCommand(
                    f"Start {unit}", ("systemctl", "start", unit), (), _START_WITHIN_S
                )
            elif own & set(changed) or _is_older(unit, own):
                yield SetupCommand(
                    f"Restart {unit}; jobs and sessions continue",
                    ("systemctl", "restart", unit),
                    (),
                    _START_WITHIN_S,
                )
        for timer in rendering.list_timers(answers):
            if not _is_active(timer):
                argv = ("systemctl", "enable", "--quiet", "--now", timer)
                yield SetupCommand(f"Enable and start {timer}", argv)
        server = answers.proxy.server
        if rendering.PROXY_FILES.get(server) in changed:
            yield SetupCommand(f"Reload {server}", ("systemctl", "reload-or-restart", server))

    def _list_offline_commands(self) -> Iterator[SetupCommand]:
        for unit in rendering.list_units(self.answers):
            wants = get_path_below(
                self.root, f"{rendering.UNITS}/multi-user.target.wants/{unit}.service"
            )
            if not wants.is_symlink():
                argv = ("systemctl", f"--root={self.root}", "--quiet", "enable", unit)
                yield SetupCommand(f"Enable {unit} in {self.root}", argv)
        for timer in rendering.list_timers(self.answers):
            if not get_path_below(
                self.root, f"{rendering.UNITS}/timers.target.wants/{timer}"
            ).is_symlink():
                argv = ("systemctl", f"--root={self.root}", "--quiet", "enable", timer)
                yield SetupCommand(f"Enable {timer} in {self.root}", argv)

    def _run_command(self, step: SetupCommand, say: Say, consequence: str) -> None:
        say(f"{step.purpose} …")
        answer = run_command(step.argv, environment=dict(step.environment), within_s=step.within_s)
        if not answer.has_succeeded:
            lines = (answer.error or answer.output).strip().splitlines()[-5:]
            if step.argv[1] in ("start", "restart"):
                journal = ("journalctl", "--no-pager", "--output=cat", "--lines=10", "--unit")
                say(run_command([*journal, step.argv[-1]]).output.rstrip())
            raise SetupError(
                f"`{' '.join(step.argv)}` failed: {' '.join(lines).rstrip('.') or answer.status}. "
                f"{consequence}"
            )

    def _needs_operator(self) -> bool:
        answers = self.answers
        if self.root != "/" or answers.scheduler != "slurm" or not answers.slurm.create_operator:
            return False
        level = SlurmSite(answers).read_operator_level()
        return level is not None and level.lower() not in OPERATORS

    def _account_exists(self) -> bool:
        if self.root == "/":
            return find_account(self.answers.account) is not None
        return self.answers.account in _read_user_ids(self.root)

    def _get_user_id(self, name: str) -> int:
        return pwd.getpwnam(name).pw_uid if self.root == "/" else _read_user_ids(self.root)[name]

    def _get_group_ids(self) -> dict[str, int]:
        gids = read_group_ids(self.root)
        account = find_account(self.answers.account) if self.root == "/" else None
        if account is not None:
            gids.setdefault(self.answers.account, account.pw_gid)
        return gids


def _is_active(unit: str) -> bool:
    return run_command(["systemctl", "is-active", "--quiet", unit]).has_succeeded


def _read_unit_property(unit: str, name: str) -> str:
    return run_command(["systemctl", "show", f"--property={name}", "--value", unit]).output.strip()


def _needs_reload(units: Collection[str]) -> bool:
    """Return True if the file of a unit has changed since systemd read it, such as by a run that failed."""
    return any(_read_unit_property(unit, "NeedDaemonReload") == "yes" for unit in units)


def _is_older(unit: str, paths: Collection[str]) -> bool:
    """Return True if the unit's main process started before one of its files was written."""
    try:
        started = Path("/proc", _read_unit_property(unit, "MainPID")).stat().st_ctime
        return any(Path(path).stat().st_mtime > started for path in paths)
    except OSError:
        return False


def check_write_permission(plan: SetupPlan) -> None:
    """Check before the first write that this account may write the files.

    Raises:
        SetupError: it may not, or the account must be created without consent.
    """
    if os.geteuid() != 0 and plan.root == "/":
        raise SetupError(
            "Only root writes these files: run the command with sudo, or with --dry-run. Nothing was "
            "changed."
        )
    if plan.root != "/" and not get_path_below(plan.root, "/etc/passwd").is_file():
        raise SetupError(
            f"{plan.root} contains no system: it has no /etc/passwd. Nothing was changed."
        )
    if plan.root != "/" and plan.creates_account and not plan.answers.create_account:
        raise SetupError(
            f"There is no Unix account {plan.answers.account} in {plan.root}. Set create_account = true, "
            "or create it with useradd. Nothing was changed."
        )


def _is_same_file(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False


def _read_user_ids(root: str) -> dict[str, int]:
    try:
        lines: Sequence[str] = (
            get_path_below(root, "/etc/passwd").read_text(errors="replace").splitlines()
        )
    except OSError:
        return {}
    rows = (line.split(":") for line in lines)
    return {row[0]: int(row[2]) for row in rows if len(row) >= 3 and row[2].isdecimal()}
