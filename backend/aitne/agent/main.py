"""The agent's course: fence, programs, last words. Its exit code is the job's."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence

from aitne.agent import fence
from aitne.agent.programs import NOT_FOUND, NOT_STARTED, Programs
from aitne.agent.reporter import Reporter
from aitne.agent.spec import Spec

TYPE_CHECKING = False
if TYPE_CHECKING:  # typing costs as much time as the agent's own code
    from typing import NoReturn

FAILED = 1
DUPLICATE = 121
"""Another start of this attempt holds the fence: this is no outcome of the job."""
FENCE_FAILED = 122
"""The fence could be neither taken nor read."""
NEVER_ANSWERED = 123
"""The session's app did not answer in time."""


def main(arguments: Sequence[str]) -> None:
    """Run the job in the folder that is the only argument."""
    if len(arguments) != 1:
        _leave(2, "usage: python -m aitne.agent JOB_DIR")
    job_dir = os.path.abspath(arguments[0])
    try:
        spec = Spec(job_dir, os.environ)
    except (OSError, ValueError, KeyError, TypeError) as error:
        _leave(FAILED, f"{job_dir}/agent.json cannot be used: {error!r}")
    try:
        fence.take(job_dir, spec.task, spec.owner, spec.restart_count)
    except fence.Ended as error:
        _leave(error.code, f"this run is not begun again: {error}")
    except fence.Duplicate as error:
        _leave(DUPLICATE, f"this attempt runs already, or has run: {error}. Nothing was started")
    except OSError as error:
        _leave(FENCE_FAILED, f"the fence could not be taken: {error}. Nothing was started")
    threading.excepthook = _told_once
    programs, reporter = Programs(), Reporter(spec)
    programs.forward_signals()
    code, message = _run(spec, programs, reporter)
    if message is not None:
        _say(message)
    try:
        fence.leave_outcome(
            job_dir,
            spec.task,
            spec.owner,
            spec.restart_count,
            code,
            interrupted=programs.stop_signal is not None,
        )
    except OSError as error:
        _say(f"how it ended could not be written down: {error}")
    reporter.finish(code, message)
    _leave(code)


def _run(spec: Spec, programs: Programs, reporter: Reporter) -> tuple[int, str | None]:
    """The exit code, and a sentence if the agent has one to add."""
    # The agent's own environment is the programs', so that PATH finds them.
    os.environ["PATH"] = os.pathsep.join([*spec.path, os.environ.get("PATH") or os.defpath])
    os.environ.update(spec.env)
    workdir = os.path.expanduser(spec.workdir)
    try:
        os.chdir(workdir)
    except OSError as error:
        reporter.start()
        return FAILED, f"the working directory {workdir} cannot be entered: {error.strerror}"
    os.environ["PWD"] = workdir
    observer = _Observer(spec, reporter)
    for argv in spec.commands:
        try:
            pid = programs.start(argv)
        except OSError as error:
            reporter.start()
            return _not_started(argv[0], error)
        if not spec.apps:
            observer.begin()
        code = programs.wait(pid)
        if code != 0:
            return code, None
        if programs.stop_signal is not None:
            return 128 + programs.stop_signal, None
    if not spec.apps:
        return 0, None
    return _run_app(spec, programs, reporter, observer)


def _run_app(
    spec: Spec, programs: Programs, reporter: Reporter, observer: _Observer
) -> tuple[int, str | None]:
    from aitne.agent.session import Session  # a batch job does without

    app = spec.apps[0]
    session = Session(spec, app, programs, reporter, observer.sample)
    try:
        code = session.run()
    except OSError as error:
        reporter.start()
        return _not_started(app.argv[0], error)
    return (code, None) if session.failure is None else (NEVER_ANSWERED, session.failure)


class _Observer:
    """Begins to report and to measure once, after the first program has been started."""

    def __init__(self, spec: Spec, reporter: Reporter) -> None:
        self._spec = spec
        self._reporter = reporter
        self._begun = False

    def begin(self) -> None:
        """Say that the job has started, and measure from now on."""
        if not self._begun:
            self._begun = True
            self._reporter.phase("started")
            self._reporter.start()
            self.sample()

    def sample(self) -> None:
        """Measure from now on."""
        if self._spec.platform_url:
            from aitne.agent.sampler import Sampler  # its imports can wait until the program runs

            Sampler(self._spec, self._reporter).start()


def _not_started(program: str, error: OSError) -> tuple[int, str]:
    code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_STARTED
    return code, f"{program} cannot be started: {error.strerror or error}"


def _told_once(failure: threading.ExceptHookArgs) -> None:
    """A helper thread has died; the program it served goes on."""
    name = failure.thread.name if failure.thread is not None else "a"
    _say(f"the {name} thread of the agent ended: {failure.exc_value!r}. The job goes on")


def _say(sentence: str) -> None:
    try:
        os.write(2, f"aitne: {sentence}.\n".encode("utf-8", "replace"))
    except OSError:
        return  # a full disk must not change how the job ends


def _leave(code: int, sentence: str | None = None) -> NoReturn:
    if sentence is not None:
        _say(sentence)
    sys.stdout.flush()
    os._exit(code)
