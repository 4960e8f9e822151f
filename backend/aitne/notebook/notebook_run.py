"""Execution of a notebook as a job: ``python notebook_run.py FOLDER``.

``FOLDER`` is the folder of the job's attempt. It contains ``notebook.json``, which says what to
run, and gets the executed copy and its page. Both are written while the notebook runs, so that
something is left whatever ends the job. The last line of the log, and a file, say why a notebook
did not complete.

Needs nbclient, nbformat and nbconvert, which the environment of sessions and images with JupyterLab
have.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NoReturn

from aitne.notebook.job_log import JobLog
from aitne.notebook.notebook_parameters import (
    INJECTED,
    NotANotebook,
    find_parameter_cell,
    get_cell_source,
    get_cell_tags,
    list_warnings,
    parse_notebook,
    render_parameters,
)

REQUEST, EXECUTED, PAGE = "notebook.json", "executed.ipynb", "executed.html"
"""Names of the files in the job's folder: what to run, the executed copy, and its page."""
FAILURE = "failure.json"
"""Name of the file in the job's folder in which the agent reads why the notebook failed."""
SKIPPED = "skip-execution"
"""Tag of cells that are not run."""
STARTUP_S = 300
INTERRUPT_S = 5.0
"""Seconds that a cell has to end after an interrupt, when the job is asked to end."""
COPY_EVERY_S, PAGE_EVERY_S = 1.0, 5.0
"""Minimum number of seconds between two times that a file is written."""
_PATIENCE = 20
"""A file is not written again before this many times the duration of the last time has passed, so
that large notebooks are not delayed."""
_LOOK_S = 0.5
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_FORWARDED = (signal.SIGUSR1, signal.SIGUSR2)
LOG = JobLog()


class NotebookFailed(Exception):
    """Error: a notebook did not complete.

    Args:
        sentence: the reason, as a sentence without full stop.
        code: exit code of the job.
        state: state of the notebook: ``failed`` or ``stopped``.
    """

    def __init__(self, sentence: str, code: int = 1, state: str = "failed") -> None:
        super().__init__(sentence)
        self.code = code
        self.state = state


class NotebookRun:
    """Execution of one notebook."""

    def __init__(self, folder: str) -> None:
        """Read the request and the notebook. ``folder`` is the folder of the job's attempt.

        Raises:
            NotebookFailed: the notebook cannot be read.
        """
        with open(os.path.join(folder, REQUEST), encoding="utf-8") as file:
            request = json.load(file)
        self._parameters: dict[str, Any] = request["parameters"]
        self._own_python = bool(request["own_python"])
        self._package = str(request["package"])
        self._kernel: str | None = request["kernel"]
        self._path = os.path.abspath(os.path.expanduser(request["path"]))
        if request["in_its_folder"]:
            with _convert_read_errors(self._path):
                os.chdir(os.path.dirname(self._path))
        self._notebook = self._read_notebook()
        self._state, self._sentence = "running", ""
        self._number = self._count = 0
        self._writers = [
            _Writer(os.path.join(folder, EXECUTED), self._render_notebook, COPY_EVERY_S),
            _Writer(os.path.join(folder, PAGE), self._render_page, PAGE_EVERY_S),
        ]
        self._stop: asyncio.Future[int] | None = None

    async def run(self) -> None:
        """Run all cells. Raises ``NotebookFailed`` if they did not complete; the copy and the page
        exist in any case."""
        folder = tempfile.mkdtemp(prefix="aitne-kernel-")
        try:
            await self._run_cells(folder)
            self._state = "completed"
            self._sentence = f"Completed: {_format_cell_count(self._count)}."
        except NotebookFailed as error:
            self._state = error.state
            self._sentence = f"{str(error)[:1].upper()}{str(error)[1:]}."
            raise
        except BaseException:
            self._state, self._sentence = "failed", f"Failed in cell {self._number}."
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            problem, of_page = [writer.write() for writer in self._writers]
            if of_page:  # what a cell displays may be no page; the copy has it all the same
                LOG.write_line(f"Warning: {of_page}.")
        if problem:
            raise NotebookFailed(problem)

    async def _run_cells(self, folder: str) -> None:
        from aitne.notebook import kernel_manager, output_limited_kernel_client

        name = self._kernel or kernel_manager.get_kernel_name(self._notebook.metadata)
        try:
            manager = kernel_manager.make_kernel_manager(
                name,
                folder,
                own_python=self._own_python,
                replaced=self._kernel is None
                and kernel_manager.is_in_python(self._notebook.metadata),
                package=self._package,
            )
        except kernel_manager.KernelMissing as error:
            raise NotebookFailed(str(error)) from error
        if self._parameters:
            if (language := kernel_manager.get_kernel_language(manager)) != "python":
                raise NotebookFailed(
                    f"parameters are possible only for notebooks in Python, and this one is {language}"
                )
            self._inject_parameters()
        to_run = [index for index, cell in enumerate(self._notebook.cells) if _is_executed(cell)]
        self._count = len(to_run)
        client = output_limited_kernel_client.BoundedClient(
            self._notebook,
            LOG,
            km=manager,
            timeout=None,
            startup_timeout=STARTUP_S,
            skip_cells_with_tag=SKIPPED,
        )
        self._install_signal_handlers(manager)
        saving = asyncio.ensure_future(self._save_changes(client))
        try:
            await self._start_kernel(client, name)
            for number, index in enumerate(to_run, start=1):
                self._number = number
                await self._run_cell(client, index)
        finally:
            saving.cancel()
            await self._end_kernel(client, manager)

    async def _save_changes(self, client: Any) -> None:
        """Write the files while the notebook runs, whenever something has changed."""
        while True:
            for writer in self._writers:
                writer.write_if_due((self._number, client.messages))
            await asyncio.sleep(_LOOK_S)

    async def _start_kernel(self, client: Any, name: str) -> None:
        try:
            await self._wait_unless_stopped(client.async_start_new_kernel(cwd=os.getcwd()))
            await self._wait_unless_stopped(client.async_start_new_kernel_client())
        except (OSError, RuntimeError) as error:
            remedy = ""
            if self._own_python:
                remedy = ". The job's environment needs ipykernel: `pip install ipykernel` in it"
            raise NotebookFailed(
                f"the notebook's kernel {name!r} cannot be started: {error}{remedy}"
            ) from error
        except _StopRequested as error:
            raise _make_stop_error(error.number, "while its kernel started") from error

    async def _run_cell(self, client: Any, index: int) -> None:
        from nbclient.exceptions import CellExecutionError, DeadKernelError

        from aitne.notebook import kernel_manager

        cell = self._notebook.cells[index]
        where = f"cell {self._number} of {self._count}"
        self._sentence = f"Running: {where}."
        LOG.write_line(f"[{where}] {_first_line(get_cell_source(cell))}")
        running = asyncio.ensure_future(
            client.async_execute_cell(cell, index, execution_count=self._number)
        )
        try:
            await self._wait_unless_stopped(running)
        except CellExecutionError as error:
            value = _first_line(str(error.evalue))
            text = f"{where} failed: {error.ename}{f': {value}' if value else ''}"
            code = int(value) if error.ename == "SystemExit" and value.isdecimal() else 1
            raise NotebookFailed(text, min(code, 255) or 1) from error
        except DeadKernelError as error:
            code, how = await kernel_manager.describe_end(client.km)
            raise NotebookFailed(f"the kernel {how} in {where}", code) from error
        except _StopRequested as error:
            await _interrupt_cell(client, running)
            raise _make_stop_error(error.number, f"in {where}") from error
        finally:
            client.finish_cell(index)

    async def _end_kernel(self, client: Any, manager: Any) -> None:
        """Terminate the kernel. Has no effect if the kernel has already ended or never started."""
        if client.kc is not None:
            client.kc.stop_channels()
        with contextlib.suppress(RuntimeError, OSError):
            await manager.shutdown_kernel(now=True)

    def _install_signal_handlers(self, manager: Any) -> None:
        """Install signal handlers: signals in ``_ENDING`` stop the execution, those in
        ``_FORWARDED`` are forwarded to the kernel."""
        loop = asyncio.get_running_loop()
        stop = self._stop = loop.create_future()

        def end(number: int) -> None:
            if not stop.done():
                stop.set_result(number)

        def forward(number: int) -> None:
            if manager.provisioner is not None and manager.provisioner.pid:
                with contextlib.suppress(OSError):
                    os.kill(manager.provisioner.pid, number)

        for number in _ENDING:
            loop.add_signal_handler(number, end, number)
        for number in _FORWARDED:
            loop.add_signal_handler(number, forward, number)

    async def _wait_unless_stopped(self, awaitable: Any) -> None:
        """Wait for the awaitable ``awaitable``. Exceptions of ``awaitable`` are raised.

        Raises:
            _StopRequested: a signal asked the job to end before ``awaitable`` was done. ``awaitable`` still
                runs.
        """
        assert self._stop is not None  # noqa: S101 - set before the kernel starts
        task = asyncio.ensure_future(awaitable)
        await asyncio.wait({task, self._stop}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise _StopRequested(self._stop.result())
        task.result()

    def _read_notebook(self) -> Any:
        import nbformat

        with _convert_read_errors(self._path), open(self._path, "rb") as file:
            data = file.read()
        try:
            parse_notebook(data)
            notebook = nbformat.reads(data.decode("utf-8-sig"), as_version=4)
            nbformat.validate(notebook)
        except NotANotebook as error:
            raise NotebookFailed(f"{self._path} {error}") from error
        except Exception as error:  # nbformat raises many classes for what is no notebook
            raise NotebookFailed(
                f"{self._path} is not a valid notebook: {_first_line(str(error))}"
            ) from error
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        return notebook

    def _inject_parameters(self) -> None:
        import nbformat

        for sentence in list_warnings(self._notebook, self._parameters):
            LOG.write_line(f"Warning: {sentence}")
        code = render_parameters(self._parameters)
        cell = nbformat.v4.new_code_cell(code, metadata={"tags": [INJECTED]})
        index, replaces = find_parameter_cell(self._notebook.cells)
        self._notebook.cells[index : index + replaces] = [cell]

    def _render_notebook(self) -> bytes:
        import nbformat

        self._notebook.metadata["aitne"] = {
            "job": os.environ.get("AITNE_JOB_ID"),
            "state": self._state,
            "message": self._sentence,
            "cells": self._count,
            "started": self._number,
        }
        # A lone surrogate in the output would be no UTF-8; in JSON it is written as \\udXXX.
        text = nbformat.writes(nbformat.from_dict(self._notebook), version=4)
        return str(text).encode("utf-8", "backslashreplace")

    def _render_page(self) -> bytes:
        import nbformat

        from aitne.notebook import html_page

        return html_page.render_page(
            nbformat.reads(self._render_notebook().decode(), as_version=4),
            title=os.path.basename(self._path),
            state=self._state,
            sentence=self._sentence,
            folder=os.path.dirname(self._path),
        )


class _StopRequested(Exception):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class _Writer:
    """Writer of a file that is replaced while the notebook runs.

    Args:
        path: path of the file.
        content: returns the current content.
        every_s: minimum interval in seconds. It is extended if writing takes long, so that writing
            does not delay the cells.
    """

    def __init__(self, path: str, content: Callable[[], bytes], every_s: float) -> None:
        self._path = path
        self._content = content
        self._every_s = every_s
        self._next = time.monotonic() + every_s
        self._version: object = None

    def write_if_due(self, version: object) -> None:
        """Write the file if the interval has elapsed and ``version`` differs from the version that
        was written last. Errors are reported in the log."""
        if time.monotonic() >= self._next and version != self._version:
            self._version = version
            if problem := self.write():
                LOG.write_line(f"Warning: {problem}.")

    def write(self) -> str | None:
        """Replace the file atomically. Return None, or the reason for a failure as a sentence
        without full stop."""
        began = time.monotonic()
        temporary = f"{self._path}.part"
        try:
            data = self._content()
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(file, "wb") as stream:
                stream.write(data)
            os.replace(temporary, self._path)
        except Exception as error:  # noqa: BLE001 - nbconvert and its parsers raise many classes
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            reason = getattr(error, "strerror", None) or " ".join(str(error).split())[:300]
            return f"{self._path} cannot be written: {reason or type(error).__name__}"
        finally:
            now = time.monotonic()
            self._next = now + max(self._every_s, _PATIENCE * (now - began))
        return None


@contextlib.contextmanager
def _convert_read_errors(path: str) -> Any:
    try:
        yield
    except OSError as error:
        raise NotebookFailed(f"the notebook {path} cannot be read: {error.strerror}") from error


async def _interrupt_cell(client: Any, running: asyncio.Future[Any]) -> None:
    """Interrupt the running cell and wait at most ``INTERRUPT_S`` seconds for its end, so that it
    can clean up. ``running`` is the future of the cell; it is cancelled afterwards."""
    with contextlib.suppress(RuntimeError, OSError):
        await client.km.interrupt_kernel()
    await asyncio.wait({running}, timeout=INTERRUPT_S)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def _make_stop_error(number: int, where: str) -> NotebookFailed:
    sentence = f"the job was asked to end ({signal.Signals(number).name}) {where}"
    return NotebookFailed(sentence, 128 + number, "stopped")


def _is_executed(cell: Any) -> bool:
    return (
        cell.cell_type == "code"
        and bool(get_cell_source(cell).strip())
        and SKIPPED not in get_cell_tags(cell)
    )


def _format_cell_count(count: int) -> str:
    return "1 cell" if count == 1 else f"{count} cells"


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:200] if lines else ""


def main() -> NoReturn:
    """Run the notebook of the job whose folder is the last argument, and exit as a job does."""
    # Messages of libraries do not belong into the log of a user's program.
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    folder = os.path.abspath(sys.argv[-1])
    with contextlib.suppress(OSError):  # of an earlier run of the same attempt
        os.unlink(os.path.join(folder, FAILURE))
    try:
        asyncio.run(NotebookRun(folder).run())
    except NotebookFailed as error:
        _exit_with_failure(folder, error.code, str(error))
    except ImportError as error:
        _exit_with_failure(
            folder,
            1,
            f"{sys.executable} has no {error.name}: a notebook runs as a job where nbclient, nbconvert "
            "and ipykernel are installed, such as in the image jupyter or without an image",
        )
    sys.exit(0)


def _exit_with_failure(folder: str, code: int, sentence: str) -> NoReturn:
    path = os.path.join(folder, FAILURE)
    try:
        with open(path, "w", encoding="utf-8", opener=_open_private) as file:
            json.dump({"message": sentence}, file)
    except OSError as error:
        LOG.write_line(f"Warning: {path} cannot be written: {error.strerror}.")
    LOG.write_line(f"aitne: {sentence}.")
    sys.exit(code)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


if __name__ == "__main__":
    main()
