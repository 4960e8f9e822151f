"""Main program of the agent: takes the fence, runs the job's programs, reports the end. Its exit
code is that of the job.

A job with ranks on several nodes has an agent on each; only the agent of the first node handles the
fence and the final report.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Sequence

from aitne.agent import attempt_fence, http_client
from aitne.agent.outcome import (
    PREFIX,
    START_FAILED,
    Ending,
    make_command_outcome,
    make_program_outcome,
    make_start_failure_outcome,
    with_full_disk_reason,
    with_launcher_reason,
)
from aitne.agent.program_observer import Observer
from aitne.agent.program_supervisor import Programs
from aitne.agent.reporter import Reporter
from aitne.agent.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from typing import NoReturn

    from aitne.agent.node_order import PlacementReport
    from aitne.agent.session_ranks import RanksBesideApp
    from aitne.agent.spec import TreeSpec

FAILED = 1
NOT_READY = 120
"""Exit code: a requirement of the program, such as a file, is missing, and nothing was started; or
another account listens on the job's ``MASTER_PORT``."""
DUPLICATE = 121
"""Exit code: another scheduler job runs this attempt; the platform does not take it for the job's
outcome."""
FENCE_FAILED = 122
"""Exit code: the fence could neither be created nor read."""
NEVER_ANSWERED = 123
"""Exit code: the session's app did not answer in time."""
OUT_OF_MEMORY = 119
"""Exit code: the job exceeded the memory limit of its cgroup."""
PREEMPTED = 75
"""Exit code with which a program says that it was asked to end, saved its state and is to be
resumed (EX_TEMPFAIL)."""
NODE = "--node"
ATTACH, INSIDE = "--attach", "--inside"
_ASK_S, _CLEAR_S = 1.0, 10.0
"""Seconds after a program's end until the remaining processes of its container are terminated, and
until they are killed. A busy container daemon takes a while to remove a container."""


def main(arguments: Sequence[str]) -> None:
    """Run the job whose folder is the last argument. With ``--node``, run only the part of this
    node."""
    if len(arguments) == 2 and arguments[0] in (ATTACH, INSIDE):
        _run_beside_program(*arguments)
    of_node = list(arguments[:1]) == [NODE]
    if len(arguments) != 1 + of_node:
        _exit_with_message(2, f"usage: python -m aitne.agent [{NODE}] JOB_DIR")
    job_dir = os.path.abspath(arguments[-1])
    try:
        spec = Spec(job_dir, os.environ)
    except (OSError, ValueError, KeyError, TypeError) as error:
        _exit_with_message(FAILED, f"{job_dir}/agent.json cannot be used: {error!r}")
    if of_node:
        spec.node_rank = _node_rank(spec)
    else:
        _take_fence(spec)
    if spec.authority is not None:
        http_client.trust_authority(spec.authority)
    threading.excepthook = _log_thread_failure
    programs, reporter = Programs(), Reporter(spec)
    programs.forward_signals(spec.script_signal)
    if spec.sweep_setting is not None:
        spec.env.update(spec.sweep_setting.env)
    if not of_node and not spec.apps:
        _create_offered_folders(spec)
    spread = (
        spec.ranks is not None
        and spec.ranks.nodes > 1
        and not (of_node or spec.runs_app_with_ranks)
    )
    ending = (
        None if of_node or spec.tree is None else _fill_tree(spec, spec.tree, programs, reporter)
    )
    if ending is None and spec.log_files and not of_node:
        from aitne.agent import additional_log_links

        additional_log_links.create_log_links(spec, os.environ, _write_to_log)
    placement: PlacementReport | None = None
    if ending is None and spec.is_placed and not of_node:
        from aitne.agent import node_order as placements

        try:
            placement = placements.decide_node_order(spec, reporter)
        except placements.OrderUnavailable as error:
            reporter.start()
            ending = Ending(NOT_READY, START_FAILED, str(error))
    if ending is None:
        ending = (_run_on_nodes if spread else _run_with_preparation)(spec, programs, reporter)
        if not of_node and programs.stop_signal is None:
            ending = with_full_disk_reason(spec, ending)
    if placement is not None:
        placement.finish()
    if ending.code == 0 and spec.ranks is not None and not of_node:
        from aitne.agent import multi_node_run

        ending.message, ending.in_log = multi_node_run.find_release_reason(spec), False
    if ending.message is not None and not ending.in_log:
        _write_to_log(ending.message)
    if of_node:
        _exit_with_node_outcome(spec, ending, programs, reporter)
    stop_requested = programs.stop_requested or ending.stop_requested
    if stop_requested and ending.code == PREEMPTED:
        ending.reason = "preempted"
        ending.message = "it was asked to end, has saved its state and will be resumed"
    interrupted = programs.stop_signal is not None or ending.reason == "preempted"
    try:
        attempt_fence.write_outcome(
            job_dir,
            spec.task,
            spec.owner,
            spec.restart_count,
            ending.code,
            interrupted=interrupted,
            reason=ending.reason,
            message=ending.message,
            lost_nodes=ending.lost_nodes,
        )
    except OSError as error:
        _write_to_log(f"the outcome could not be written: {error}")
        interrupted = True
    _remove_empty_folders(spec)
    reporter.report_finish(ending.code, ending.message)
    if not interrupted and spec.task is None:
        spec.remove_token()
    _exit_with_message(ending.code)


def _node_rank(spec: Spec) -> int:
    """Return the number of this node in the order of the job's nodes. On the other nodes of a
    session or notebook the agent runs only the ranks."""
    from aitne.agent import multi_node_run, node_order

    try:
        number = node_order.get_node_number(spec)
    except node_order.OrderUnavailable as error:
        _exit_with_message(FAILED, str(error))
    spec.node_rank, spec.apps, spec.leader = number, [], []
    with contextlib.suppress(OSError):
        multi_node_run.write_node_name(spec)
    return number


def _run_beside_program(what: str, folder: str) -> NoReturn:
    """Run a program in the allocation of a running job, in addition to the job's own program: the
    connection of a terminal (``--attach``) or the program of an SSH login (``--inside``).
    """
    if what == ATTACH:
        from aitne.agent.attachment import serve_attach_connection

        serve_attach_connection(folder)
    from aitne.agent.running_program_environment import run_session_command

    run_session_command(folder)


def _take_fence(spec: Spec) -> None:
    try:
        attempt_fence.take_fence(spec.job_dir, spec.task, spec.owner, spec.restart_count)
        attempt_fence.reserve_outcome(spec.job_dir, spec.task)
    except attempt_fence.RunEndedError as error:
        _exit_with_message(error.code, f"this run is not started again: {error}")
    except attempt_fence.DuplicateRunError as error:
        _exit_with_message(
            DUPLICATE, f"this attempt runs already or has ended: {error}. Nothing was started"
        )
    except OSError as error:
        _exit_with_message(
            FENCE_FAILED, f"the fence could not be taken: {error}. Nothing was started"
        )


def _create_offered_folders(spec: Spec) -> None:
    """Create the folders for checkpoints and metrics, and set the environment variables that name
    them."""
    folders = {"AITNE_CHECKPOINTS": spec.checkpoints_folder, "AITNE_METRICS": spec.metrics_folder}
    for name, folder in folders.items():
        os.environ[name] = folder
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as error:
            _write_to_log(f"the folder {folder} could not be created: {error}. The job continues")
    if spec.sweep_setting is not None:
        path = f"{spec.job_dir}/params-{spec.task}.json"
        os.environ["AITNE_PARAMS"] = path
        try:
            attempt_fence.write_private_file(
                path, json.dumps(spec.sweep_setting.values).encode(), os.O_TRUNC
            )
        except OSError as error:
            _write_to_log(f"the file {path} could not be written: {error}. The job continues")


def _remove_empty_folders(spec: Spec) -> None:
    """Remove those folders of ``_create_offered_folders`` that no program has used, because they count
    toward the user's quota. Folders of other array tasks are kept."""
    for folder in (spec.checkpoints_folder, spec.metrics_folder):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _exit_with_node_outcome(
    spec: Spec, ending: Ending, programs: Programs, reporter: Reporter
) -> NoReturn:
    from aitne.agent import multi_node_run

    reporter.flush()
    try:
        multi_node_run.write_node_outcome(
            spec, ending.code, ending.reason, ending.message, programs.stop_requested
        )
    except OSError as error:
        _exit_with_message(
            ending.code, f"the outcome of node {spec.node} could not be written: {error}"
        )
    # After a requested end, exit code 0 keeps srun from ending the agents of other nodes at once,
    # which may still be saving their state. The first node's agent reads the outcome.
    _exit_with_message(0 if programs.stop_requested else ending.code)


def _fill_tree(spec: Spec, tree: TreeSpec, programs: Programs, reporter: Reporter) -> Ending | None:
    """Fill the folder in which the job runs with the uploaded working tree or repository. Return
    the job's outcome if that fails, otherwise None."""
    from aitne.agent import job_tree
    from aitne.agent.required_files import StopRequested

    try:
        job_tree.create_tree(spec, tree, lambda: programs.stop_signal is not None)
    except job_tree.TreeUnavailable as error:
        reporter.start()
        return Ending(NOT_READY, START_FAILED, f"the job's files are missing: {error}")
    except StopRequested:
        return Ending(128 + (programs.stop_signal or 0))
    return None


def _run_with_preparation(spec: Spec, programs: Programs, reporter: Reporter) -> Ending:
    """Run the job's programs, and before and after that create and remove what they need, such as
    temporary folders."""
    if spec.secrets:
        from aitne.agent import job_secrets

        try:
            job_secrets.load_secrets(spec)
        except job_secrets.SecretsUnavailable as error:
            reporter.start()
            return Ending(NOT_READY, START_FAILED, f"the job's secrets are missing: {error}")
    if spec.starts_directly:
        return _run_commands(spec, programs, reporter)
    from aitne.agent.program_launcher import ProgramLauncher, ProgramStartError
    from aitne.agent.required_files import StopRequested

    def report_reading() -> None:
        # A session that reports nothing would count as one that did not start in time.
        reporter.queue_phase("running")
        reporter.start()

    launcher = ProgramLauncher(spec)
    try:
        launcher.prepare(lambda: programs.stop_signal is not None, report_reading)
        programs.launcher = launcher
        programs.leader_only = spec.launch.forwards_signals
        if spec.launch.prefix:
            from aitne.agent.sampler import adopt_orphans

            adopt_orphans()
        # A rank that was killed for its memory must not end the app.
        if not spec.runs_app_with_ranks:
            launcher.watch_memory()
        ending = _run_commands(spec, programs, reporter)
        if spec.launch.prefix:
            programs.end_descendants(_ASK_S, _CLEAR_S)
        if launcher.ran_out_of_memory(ending.code):
            from aitne.agent.sizes import describe_bytes

            message = f"out of memory: the job used more than its {describe_bytes(spec.memory_bytes or 0)}"
            return Ending(OUT_OF_MEMORY, "out_of_memory", message)
        return ending if ending.message is not None else with_launcher_reason(spec, ending)
    except ProgramStartError as error:
        reporter.start()
        return Ending(error.code, START_FAILED, error.sentence)
    except StopRequested:
        return Ending(128 + (programs.stop_signal or 0))
    finally:
        launcher.close()


def _run_on_nodes(spec: Spec, programs: Programs, reporter: Reporter) -> Ending:
    """Start the agents of all nodes of a distributed job, wait for them, and return the outcome."""
    from aitne.agent import multi_node_run

    def report_start() -> None:
        reporter.queue_phase("started")
        reporter.start()

    try:
        outcome = multi_node_run.run_nodes(spec, programs, report_start)
    except OSError as error:
        reporter.start()
        return make_start_failure_outcome("srun", error)
    # Each node's agent has logged the reason.
    lost, ended = outcome.lost_nodes, (outcome.code, outcome.reason, outcome.message)
    stopped = outcome.stop_requested
    return Ending(*ended, in_log=not lost, stop_requested=stopped, lost_nodes=lost)


def _run_commands(spec: Spec, programs: Programs, reporter: Reporter) -> Ending:
    """Run the commands of the job one after the other, then the session's app, and return the
    outcome."""
    # The mode of the job's own log; srun in the job would take it for the files of its steps.
    os.environ.pop("SLURM_OPEN_MODE", None)
    if spec.launch.env_prefix is None:
        # The agent's own environment is the programs', so that PATH finds them.
        os.environ["PATH"] = os.pathsep.join([*spec.path, os.environ.get("PATH") or os.defpath])
        os.environ.update(spec.env)
    workdir = os.path.expanduser(spec.workdir)
    try:
        os.chdir(workdir)
    except OSError as error:
        reporter.start()
        return Ending(
            NOT_READY,
            START_FAILED,
            f"the working directory {workdir} cannot be entered: {error.strerror}",
        )
    os.environ["PWD"] = workdir
    # With sbatch it is the folder of the submission: of an imported script that with --chdir has another
    # working directory, it is in the job file.
    os.environ["SLURM_SUBMIT_DIR"] = spec.env.get("SLURM_SUBMIT_DIR", workdir)
    observer = Observer(spec, reporter, programs)
    try:
        return _run_all(spec, programs, reporter, observer)
    finally:
        observer.report_end()


def _run_all(spec: Spec, programs: Programs, reporter: Reporter, observer: Observer) -> Ending:
    if spec.leader:
        return _run_leader(spec, programs, reporter, observer)
    if spec.apps or spec.ranks is not None or "MASTER_PORT" in spec.env:
        return _run_programs(spec, programs, reporter, observer)
    from aitne.agent import master_port

    return master_port.run_with_master_port(
        spec, programs, reporter, lambda: _run_programs(spec, programs, reporter, observer)
    )


def _run_programs(spec: Spec, programs: Programs, reporter: Reporter, observer: Observer) -> Ending:
    # Those of a session start the ranks of the other nodes.
    for number, argv in enumerate(() if spec.runs_app_with_ranks else spec.commands):
        try:
            if spec.ranks is not None:
                from aitne.agent import multi_node_run

                argv = multi_node_run.prepare_node(spec, number)
            pid = programs.start(argv)
        except OSError as error:
            reporter.start()
            return make_start_failure_outcome(argv[0], error)
        if not spec.apps:
            observer.report_start()
        code = programs.wait(pid)
        observer.report_last_profile()
        if code != 0 or programs.stop_signal is not None:
            return make_command_outcome(spec, programs, code, argv)
    if not spec.apps:
        return Ending(0)
    return _run_app(spec, programs, reporter, observer)


def _run_leader(spec: Spec, programs: Programs, reporter: Reporter, observer: Observer) -> Ending:
    """Run the notebook of the job beside its ranks, and return the outcome."""
    from aitne.agent.session_ranks import RanksBesideApp

    ranks = RanksBesideApp(spec, programs, reporter, _write_to_log)
    try:
        pid = programs.start(ranks.argv(spec.leader))
    except OSError as error:
        reporter.start()
        return make_start_failure_outcome(spec.leader[0], error)
    observer.report_start()
    ranks.start()
    code = ranks.wait(pid)
    observer.report_last_profile()
    return make_command_outcome(spec, programs, code, spec.leader)


def _run_app(spec: Spec, programs: Programs, reporter: Reporter, observer: Observer) -> Ending:
    from aitne.agent.app_runner import AppRunner  # not needed for a batch job

    app = spec.apps[0]
    ranks: RanksBesideApp | None = None
    if spec.runs_app_with_ranks:
        from aitne.agent.session_ranks import RanksBesideApp

        ranks = RanksBesideApp(spec, programs, reporter, _write_to_log)
    session = AppRunner(spec, app, programs, reporter, observer.start_observing, ranks)
    try:
        code = session.run()
    except OSError as error:
        reporter.start()
        return make_start_failure_outcome(app.argv[0], error)
    if session.failure is not None:
        return Ending(NEVER_ANSWERED, START_FAILED, session.failure)
    return make_program_outcome(spec, code, app.argv)


def _log_thread_failure(failure: threading.ExceptHookArgs) -> None:
    """Write the failure of a helper thread to the log; the job's program continues."""
    name = failure.thread.name if failure.thread is not None else "a"
    _write_to_log(f"the {name} thread of the agent ended: {failure.exc_value!r}. The job continues")


def _write_to_log(sentence: str) -> None:
    try:
        os.write(2, f"{PREFIX}{sentence}.\n".encode("utf-8", "replace"))
    except OSError:
        return  # a full disk must not change how the job ends


def _exit_with_message(code: int, sentence: str | None = None) -> NoReturn:
    if sentence is not None:
        _write_to_log(sentence)
    sys.stdout.flush()
    os._exit(code)
