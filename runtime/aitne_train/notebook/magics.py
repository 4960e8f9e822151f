"""Magics of notebooks for ranks: ``%ranks``, ``%%distributed``, ``%push`` and ``%pull``."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, line_magic, magics_class
from IPython.display import publish_display_data

from aitne_train.notebook.rank_groups import RankGroup, RankGroups, RanksError
from aitne_train.notebook.rank_table import LiveTable

_WHY_S = 5.0
"""Seconds after the loss of ranks for which a cell waits for the platform's reason."""
_OPTIONS = (
    ("--nodes", int, "number of nodes, on each of which as many ranks run"),
    ("--gpu", str, "GPUs of each rank: a type, a number, or type:number"),
    ("--cpu", int, "CPUs of each rank"),
    ("--memory", str, "memory of each rank, such as 16G"),
    ("--max-duration", str, "time limit, such as 2h"),
    ("--idle", str, "time without work after which the ranks are released, such as 15m; or off"),
    ("--partition", str, "partition of the cluster"),
    ("--python", str, "path of the Python interpreter of the ranks"),
)


class _Parser(argparse.ArgumentParser):
    """Parser of the arguments of a magic. Errors are shown in the notebook."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}. {self.format_usage().strip()}")

    def parse_line(self, line: str) -> argparse.Namespace:
        """Parse the arguments in ``line``. Raises ``UsageError`` if they are invalid."""
        try:
            return self.parse_args(shlex.split(line))
        except ValueError as error:
            raise UsageError(f"{self.prog}: {error}") from error
        except SystemExit as end:  # after --help
            raise UsageError("") from end


def _build_ranks_parser() -> _Parser:
    parser = _Parser(prog="%ranks", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="verb", parser_class=_Parser)
    start = verbs.add_parser("start", prog="%ranks start", allow_abbrev=False)
    start.add_argument("ranks", type=int, help="number of ranks in total")
    for option, kind, text in _OPTIONS:
        start.add_argument(option, type=kind, help=text)
    verbs.add_parser("stop", prog="%ranks stop")
    verbs.add_parser("interrupt", prog="%ranks interrupt")
    verbs.add_parser("output", prog="%ranks output")
    return parser


def _build_distributed_parser() -> _Parser:
    parser = _Parser(prog="%%distributed", allow_abbrev=False)
    parser.add_argument("-n", type=int, metavar="COUNT", help="only the first COUNT ranks")
    parser.add_argument("--one-per-node", action="store_true", help="the first rank of each node")
    return parser


def _build_pull_parser() -> _Parser:
    parser = _Parser(prog="%pull", allow_abbrev=False)
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "-r", "--rank", type=int, default=0, help="rank whose values are pulled (0)"
    )
    chosen.add_argument("--all", action="store_true", help="a list with the values of all ranks")
    parser.add_argument("names", nargs="+", metavar="NAME")
    return parser


@magics_class
class RankMagics(Magics):
    """Magics of one kernel and the ranks that it uses."""

    def __init__(self, shell: InteractiveShell, groups: RankGroups) -> None:
        super().__init__(shell)
        self._session = groups
        self._group: RankGroup | None = None
        self._table: LiveTable | None = None
        self._waits: str | None = None
        self._printed: list[str] = []
        self._compared = False

    # --- magics ----------------------------------------------------------------------------------

    @line_magic
    def ranks(self, line: str) -> None:
        """Start, show, interrupt or release ranks.

        ``%ranks start N [--nodes …] [--gpu …]`` requests ranks and waits for them; ``%ranks`` shows
        them, or waits again; ``%ranks interrupt`` interrupts what they execute, ``%ranks output``
        prints the last cell's output again, ``%ranks stop`` releases them.
        """
        options = _build_ranks_parser().parse_line(line)
        if options.verb == "start":
            self._start_ranks(options)
        elif options.verb == "stop":
            self._release_ranks()
        elif options.verb == "interrupt":
            self._require_group().interrupt()
        elif options.verb == "output":
            sys.stdout.write("".join(self._printed) or "No cell has printed anything.\n")
        elif (group := self._waits or self._find_unattached()) is not None:
            self._wait_for_group(group)
        else:
            self._show_ranks()

    @cell_magic
    def distributed(self, line: str, cell: str) -> Any:
        """Execute the cell on all ranks, or on the first ``-n`` of them."""
        from aitne_train.notebook.cell import DistributedCell, RanksLostError
        from aitne_train.notebook.display import CellDisplay

        options = _build_distributed_parser().parse_line(line)
        group = self._require_group()
        if not self._compared:
            self._compared = True
            for sentence in group.compare_versions():
                sys.stderr.write(f"{sentence}\n")
        ranks = group.choose_ranks(options.n, one_per_node=options.one_per_node)
        display = CellDisplay(ranks)
        self._printed = display.printed
        try:
            return DistributedCell(group.link, cell, ranks, display).run()
        except RanksLostError as error:
            self._detach_group()
            why = self._session.explain_end(group.id, wait_s=_WHY_S)
            if why and why not in str(error):
                raise RanksLostError(f"{why} ({error})") from None
            raise

    @line_magic
    def push(self, line: str) -> None:
        """Set variables on all ranks to their values in this notebook: ``%push x y``."""
        names = line.split()
        if not names:
            raise UsageError("%push: names of variables are missing: %push x y")
        missing = [name for name in names if name not in self.shell.user_ns]
        if missing:
            raise UsageError(f"%push: {missing[0]} is not defined in this notebook")
        self._require_group().push_variables({name: self.shell.user_ns[name] for name in names})

    @line_magic
    def pull(self, line: str) -> None:
        """Set variables of this notebook to their values on rank 0: ``%pull x``."""
        options = _build_pull_parser().parse_line(line)
        group = self._require_group()
        if options.rank not in group.ranks:
            raise UsageError(f"%pull: the group has no rank {options.rank}")
        ranks = group.ranks if options.all else [options.rank]
        found = group.pull_variables(options.names, ranks)
        for name in options.names:
            column = [found[rank][name] for rank in ranks]
            self.shell.user_ns[name] = column if options.all else column[0]

    # --- the group -------------------------------------------------------------------------------

    def _require_group(self) -> RankGroup:
        """Return the group to which this kernel is attached. If there is none, attach the kernel to
        a running group.

        Raises:
            RanksError: no group is running.
        """
        if self._group is not None and not self._group.ended:
            return self._group
        ended, self._group = self._group, None
        if ended is not None:
            ended.close()
        self._session.wait_for_own_ranks(_Line())
        for folder in self._session.list_ready():
            try:
                return self._attach_group(folder)
            except RanksError as error:
                if not self._session.remove_ended_group(folder):
                    why = str(error).rstrip(".")
                    raise RanksError(f"{why}. If the group has ended, remove {folder}") from error
        why = (
            f"The ranks have ended: {ended.link.message}. " if ended and ended.link.message else ""
        )
        starting = [
            status for _, status in self._session.list_statuses() if status.state == "starting"
        ]
        if starting:
            raise RanksError(
                f"{starting[0].registered} of {starting[0].size} ranks have started: `%ranks` waits for them"
            )
        raise RanksError(f"{why}No ranks are attached: `%ranks start 4` starts four")

    def _find_unattached(self) -> str | None:
        """Return the ID of a group of this session that has not started yet, if no ranks are
        attached and none are ready; None: there is none."""
        if (self._group is not None and not self._group.ended) or self._session.list_ready():
            return None
        return self._session.find_starting()

    def _attach_group(self, folder: Any) -> RankGroup:
        self._group = RankGroup(folder, self._on_notice)
        self._compared = False
        self._waits = None
        return self._group

    def _detach_group(self) -> None:
        if self._table is not None:
            self._table.stop()
        if self._group is not None:
            self._group.close()
        self._group = self._table = None

    def _on_notice(self, kind: str, content: Mapping[str, Any]) -> None:
        """Print a notification of the controller. Called on another thread."""
        if kind == "idle":
            at = datetime.fromtimestamp(content["release_at"]).astimezone()
            sys.stderr.write(
                f"The ranks have had no work for a while: they are released at {at:%H:%M:%S}. Any cell on them "
                "prevents that; %pull saves what only they have.\n"
            )

    # --- verbs of %ranks -------------------------------------------------------------------------

    def _start_ranks(self, options: argparse.Namespace) -> None:
        if self._has_group(options.ranks):
            return
        body: dict[str, Any] = {}
        for option, _, _ in _OPTIONS:
            name = option[2:].replace("-", "_")
            value = getattr(options, name)
            if value is not None:
                body[name] = value
        if "python" in body:
            body["python"] = _resolve_interpreter(body["python"])
        if "partition" in body:
            body["slurm"] = {"partition": body.pop("partition")}
        self._waits = self._session.request_group(options.ranks, **body)
        self._wait_for_group(self._waits)

    def _has_group(self, count: int) -> bool:
        """Return whether a group with ``count`` ranks is running already, for example because the
        notebook is executed again. Waits for groups that are starting.

        Raises:
            RanksError: another number of ranks is attached.
        """
        self._session.wait_for_own_ranks(_Line())
        for folder, status in self._session.list_statuses():
            if status.state == "starting":
                self._session.wait_for_start(folder, _Line())
        if self._group is None and not self._session.list_ready():
            return False
        try:
            attached = self._require_group()
        except RanksError:  # they have ended
            return False
        if len(attached.ranks) != count and self._session.of_job:
            raise RanksError(
                f"This job has {len(attached.ranks)} ranks, and {count} are requested: submit the notebook with as "
                "many, or with another parameter."
            )
        if len(attached.ranks) != count:
            raise RanksError(
                f"{len(attached.ranks)} ranks are attached already: `%ranks stop` releases them"
            )
        sys.stdout.write(f"{count} ranks are attached already.\n")
        if lacks := attached.torch_warning:
            sys.stdout.write(f"{lacks}\n")
        return True

    def _wait_for_group(self, group: str) -> None:
        say = _Line()
        try:
            folder = self._session.wait_for_group(group, say)
            attached = self._attach_group(folder)
        except KeyboardInterrupt:
            say(
                "The ranks stay in the queue. `%ranks` waits for them again, and `%ranks stop` cancels them."
            )
            return
        except RanksError:
            self._waits = None
            raise
        nodes = sorted({rank.node for rank in attached.link.ranks.values()})
        count = "1 rank is" if len(attached.ranks) == 1 else f"{len(attached.ranks)} ranks are"
        say(
            " ".join(
                filter(None, [f"{count} ready on {', '.join(nodes)}.", attached.torch_warning])
            )
        )

    def _show_ranks(self) -> None:
        if self._table is not None:
            self._table.stop()
        line = _Line()
        self._table = LiveTable(self._require_group(), line.show_table)
        self._table.start()

    def _release_ranks(self) -> None:
        group = self._waits
        if group is None:
            attached = self._require_group()
            group = attached.id
            if not self._session.with_platform:
                attached.release()
        if self._session.with_platform:
            self._session.release_group(group)
        self._waits = None
        self._detach_group()
        sys.stdout.write("The ranks are released. The variables of this notebook are kept.\n")


def _resolve_interpreter(path: str) -> str:
    """Return the absolute path of the ranks' interpreter. Raises ``UsageError`` if ``path`` is
    relative to the notebook's folder or home and names nothing there."""
    absolute = os.path.abspath(os.path.expanduser(path))
    if path != absolute and not os.path.exists(absolute):
        raise UsageError(f"%ranks start: --python: there is no {absolute}")
    return absolute


class _Line:
    """Output of a magic, a line or a table, that is updated in place."""

    def __init__(self) -> None:
        self._name = f"aitne-{id(self)}-{os.urandom(4).hex()}"
        self._shown = ""

    def __call__(self, text: str) -> None:
        """Show ``text`` in place of the previous text."""
        if text != self._shown:
            self._publish({"text/plain": text}, update=bool(self._shown))
            self._shown = text

    def show_table(self, text: str, html: str, update: bool) -> None:
        """Show a table, given as text and as HTML. ``update``: replace the table shown before."""
        self._publish({"text/plain": text, "text/html": html}, update=update)

    def _publish(self, data: Mapping[str, str], *, update: bool) -> None:
        publish_display_data(data=dict(data), transient={"display_id": self._name}, update=update)


def load_magics(shell: InteractiveShell, groups: RankGroups) -> None:
    """Register the magics, which use ``groups``, with a shell. Has no effect if they are registered
    already."""
    if not isinstance(getattr(shell, "aitne_ranks", None), RankMagics):
        shell.aitne_ranks = RankMagics(shell, groups)
        shell.register_magics(shell.aitne_ranks)
