"""Options of ``aitne-run``, including those of ``horovodrun`` that are useful here."""

from __future__ import annotations

import argparse

from aitne_train.launcher import horovod_import, hosts
from aitne_train.launcher.own_addresses import INTERFACE

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the launcher's own code
    from collections.abc import Sequence

_EXAMPLES = """\
examples:
  aitne-run -np 4 python train.py            four ranks on this node
  aitne-run -H n1:2,n2:2 python train.py     two on each of two nodes, by ssh
  aitne-run python train.py                  in a job of the platform or of Slurm: one for each of its tasks
  srun --ntasks=8 aitne-run python train.py  Slurm starts the ranks; each becomes the program
  aitne-run -np 4 --horovod python train.py  a script for Horovod, unmodified, without Horovod
  aitne-run -np 4 --restarts 3 python train.py
                                             all are restarted when one fails, at most three times

The exit code is that of the rank that failed first, or 128 + n if signal n ended it.
"""

_VARIABLES = (
    ("--timeline-filename", "FILE", "HOROVOD_TIMELINE"),
    ("--cache-capacity", "N", "HOROVOD_CACHE_CAPACITY"),
    ("--autotune-log-file", "FILE", "HOROVOD_AUTOTUNE_LOG"),
    ("--autotune-warmup-samples", "N", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES"),
    ("--autotune-steps-per-sample", "N", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"),
    ("--stall-check-warning-time-seconds", "SECONDS", "HOROVOD_STALL_CHECK_TIME_SECONDS"),
    ("--stall-check-shutdown-time-seconds", "SECONDS", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"),
)
"""Options of horovodrun that set an environment variable to their value."""
_FLAGS = (
    ("--timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES"),
    ("--autotune", "HOROVOD_AUTOTUNE"),
    ("--no-stall-check", "HOROVOD_STALL_CHECK_DISABLE"),
)
"""Options of horovodrun that set an environment variable to 1."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line of ``aitne-run``."""
    parser = argparse.ArgumentParser(
        prog="aitne-run",
        usage="aitne-run [options] [--] program [arguments ...]",
        description="Start the ranks of a distributed program, and end them all when one fails.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "-np", "--num-proc", dest="np", type=parse_positive, metavar="N", help="number of ranks"
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-H", "--hosts", metavar="HOSTS", dest="hosts", help="nodes and their ranks: a:2,b:2"
    )
    group.add_argument(
        "--hostfile",
        "-hostfile",
        metavar="FILE",
        help="the same in a file, a line `name slots=2` for each",
    )
    parser.add_argument(
        "--launcher",
        choices=("auto", "local", "ssh", "srun", "mpirun"),
        default="auto",
        help="program that starts the ranks on their nodes (auto: an available one)",
    )
    parser.add_argument(
        "--transport", metavar="NAME", help="transport of the collectives; sets AITNE_TRANSPORT"
    )
    parser.add_argument(
        "--gloo", action="store_const", dest="transport", const="auto", help="exchange without MPI"
    )
    parser.add_argument(
        "--mpi", action="store_const", dest="transport", const="mpi", help="as --transport mpi"
    )
    parser.add_argument("-p", "--ssh-port", type=parse_positive, metavar="PORT", help="port of ssh")
    parser.add_argument(
        "-i", "--ssh-identity-file", metavar="FILE", help="file with the private key of ssh"
    )
    parser.add_argument(
        "--order",
        type=_parse_order,
        default="auto",
        metavar="ORDER",
        help="order of the hosts: auto (by the network's topology, if it is known), given, or file:PATH",
    )
    _add_variables(parser)
    add_common_options(parser)
    return parser


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that the commands ``aitne-run`` and ``aitne-run node`` have in common."""
    parser.add_argument(
        "--prefix",
        "-prefix-timestamp",
        "--prefix-output-with-timestamp",
        action="store_true",
        help="begin each line of output with its rank: [3] ...",
    )
    parser.add_argument(
        "--bind",
        action="store_const",
        const="auto",
        default="off",
        help="bind each rank to CPUs of its own, if there are enough; as --bind-to auto",
    )
    parser.add_argument(
        "--bind-to",
        dest="bind",
        choices=("auto", "cores", "off"),
        help="auto: CPUs beside the GPU of the rank, if that is known; cores: an even part; off: none (off)",
    )
    parser.add_argument(
        "--restarts",
        type=_parse_count,
        default=0,
        metavar="N",
        help="restart all ranks up to N times when one fails",
    )
    parser.add_argument(
        "--timeout",
        "--start-timeout",
        type=parse_positive,
        default=120,
        metavar="SECONDS",
        help="time for nodes and ranks to join (120)",
    )
    parser.add_argument(
        "--grace",
        type=parse_positive,
        default=30,
        metavar="SECONDS",
        help="time for ranks to end after a signal (30)",
    )
    parser.add_argument(
        "--network-interface",
        "--network-interfaces",
        metavar="NAMES",
        help="network interface between nodes; of several, the first that a node has",
    )
    parser.add_argument(
        "--horovod",
        action="store_true",
        help="run scripts for Horovod unmodified: `import horovod.torch` is aitne_train",
    )
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def parse_positive(text: str) -> int:
    """Return the integer in ``text``, which must be at least 1. Raises
    ``argparse.ArgumentTypeError``."""
    count = hosts.parse_number(text)
    if not count or count > hosts.MOST_RANKS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return count


def _parse_order(text: str) -> str:
    if text not in ("auto", "given") and not (text.startswith("file:") and text[5:]):
        raise argparse.ArgumentTypeError(f"{text!r} is not auto, given or file:PATH")
    return text


def _parse_count(text: str) -> int:
    return 0 if text == "0" else parse_positive(text)


def build_variables(options: argparse.Namespace) -> dict[str, str]:
    """Return the environment variables for the ranks that the command line's options set."""
    chosen = dict(getattr(options, "variables", None) or ())
    if getattr(options, "transport", None):
        chosen["AITNE_TRANSPORT"] = options.transport
    if options.network_interface:
        chosen[INTERFACE] = options.network_interface
    if options.horovod:
        chosen[horovod_import.VARIABLE] = ""
    return chosen


def build_ssh_options(options: argparse.Namespace) -> list[str]:
    """Return the options for ``ssh``, with which launchers are started on other nodes."""
    port = ["-p", str(options.ssh_port)] if options.ssh_port else []
    return port + (["-i", options.ssh_identity_file] if options.ssh_identity_file else [])


class _SetVariable(argparse.Action):
    """Action of an option that sets an environment variable, whose name is ``const``."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | int | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        chosen = dict(namespace.variables or ())
        if self.nargs == 0:
            chosen[self.const] = "1"
        elif self.const == "HOROVOD_FUSION_THRESHOLD":
            chosen[self.const] = str(int(str(values)) << 20)
        else:
            chosen[self.const] = str(values)
        namespace.variables = chosen


def _add_variables(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("options of horovodrun that set a variable")
    for option, metavar, name in _VARIABLES:
        group.add_argument(
            option, metavar=metavar, action=_SetVariable, const=name, dest="variables", help=name
        )
    for option, name in _FLAGS:
        group.add_argument(
            option, nargs=0, action=_SetVariable, const=name, dest="variables", help=f"{name}=1"
        )
    group.add_argument(
        "--fusion-threshold-mb",
        metavar="MIB",
        type=parse_positive,
        action=_SetVariable,
        const="HOROVOD_FUSION_THRESHOLD",
        dest="variables",
        help="HOROVOD_FUSION_THRESHOLD, in MiB",
    )
