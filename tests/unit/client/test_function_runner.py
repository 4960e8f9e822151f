"""The program that runs a function in its job, in a process as the agent starts it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import cloudpickle
import pytest

from aitne.client import Client, futures
from aitne.client.function_errors import (
    FunctionRefused,
    RemoteError,
    RemoteTraceback,
    ResultUnusable,
)
from aitne.client.function_packaging import FOLDER, FunctionCall
from aitne.client.function_runner import RAISED, REFUSED
from aitne.client.records import Job
from aitne.core.jobs.job_folder_layout import result_error_file_name, result_file_name
from tests.support.fake_api import job

SELF = sys.modules[__name__]


@dataclass
class Uploads:
    """Takes the files of a job in place of the platform."""

    files: Mapping[str, bytes] = field(default_factory=dict)

    def limits(self) -> Any:
        return SimpleNamespace(max_bytes=1 << 30)

    def upload(self, _: object, *, files: Mapping[str, bytes]) -> Any:
        self.files = files
        return SimpleNamespace(digest="0" * 64)


class Finished:
    """A job whose program has ended."""

    def __init__(self, folder: Path, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.log = done.returncode, done.stdout + done.stderr
        self.files = {path.name: path.read_bytes() for path in folder.iterdir()}

    def value(self, task: int | None = None, rank: int = 0) -> object:
        return futures._parse_result(self.files[result_file_name(task, rank)]).get_value()

    def error(self, task: int | None = None) -> BaseException:
        outcome = futures._parse_result(
            self.files[result_error_file_name(task)], Job(job("FAILED"))
        )
        assert outcome.error is not None
        return outcome.error


Runner = Callable[..., Finished]


@pytest.fixture
def runs(tmp_path: Path, client: Client) -> Iterator[Runner]:
    """Run a function as its job would; functions of this module travel by value."""
    folder = tmp_path / "job" / "1"
    folder.mkdir(parents=True)

    def run(
        function: Callable[..., Any],
        *args: Any,
        env: Mapping[str, str] | None = None,
        call: Mapping[str, Any] | None = None,
        items: list[Any] | None = None,
    ) -> Finished:
        made = FunctionCall(function, args, {}, items=items)
        made.make_job_file(client._session, {"nodes": 1})
        uploads = Uploads()
        made.upload(uploads)  # type: ignore[arg-type]
        tree = tmp_path / "job" / "tree"
        for name, content in uploads.files.items():
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        facts = tree / FOLDER / "call.json"
        facts.write_text(json.dumps({**json.loads(facts.read_text()), **(call or {})}))
        done = subprocess.run(
            [sys.executable, f"{FOLDER}/run.py"],
            cwd=tree,
            env={"AITNE_JOB_DIR": str(folder), "HOME": str(tmp_path), **(env or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        return Finished(folder, done)

    cloudpickle.register_pickle_by_value(SELF)
    yield run
    cloudpickle.unregister_pickle_by_value(SELF)


class OutOfLuck(Exception):
    """An exception with a value."""

    def __init__(self, luck: int) -> None:
        super().__init__(luck)
        self.luck = luck


class Broken(Exception):
    """An exception that pickle cannot make again."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first + second)


def raise_(kind: type[BaseException], *args: Any) -> None:
    raise kind(*args)


def test_function_returns_its_value(runs: Runner) -> None:
    done = runs(lambda x, y: {"sum": x + y}, 20, 22)
    assert (done.code, done.value()) == (0, {"sum": 42}), done.log


def test_exception_is_the_same_with_the_remote_traceback(runs: Runner) -> None:
    done = runs(raise_, OutOfLuck, 3)
    error = done.error()
    assert done.code == RAISED
    assert isinstance(error, OutOfLuck)
    assert error.luck == 3
    assert isinstance(error.__cause__, RemoteTraceback)
    assert "raise kind(*args)" in str(error.__cause__)
    assert FOLDER not in str(error.__cause__)
    assert "OutOfLuck: 3" in done.log


def test_exception_that_cannot_be_pickled_is_described(runs: Runner) -> None:
    error = runs(raise_, Broken, "no ", "luck").error()
    assert isinstance(error, RemoteError)
    assert (error.type_name, error.message) == ("Broken", "Broken: no luck")
    assert isinstance(error.__cause__, RemoteTraceback)


def test_exit_of_the_function_is_no_result(runs: Runner) -> None:
    done = runs(sys.exit, 0)
    assert done.code == RAISED
    assert isinstance(done.error(), SystemExit)


def test_result_that_cannot_be_pickled_is_named(runs: Runner) -> None:
    error = runs(lambda: {"model": [threading.Lock()]}).error()
    assert isinstance(error, TypeError)
    assert "result['model'][0] (_thread.lock)" in str(error)


def test_version_of_python_is_compared_before_anything_is_loaded(runs: Runner) -> None:
    done = runs(raise_, ValueError, "it ran", call={"python": [3, 9]})
    error = done.error()
    assert done.code == REFUSED
    assert "it ran" not in done.log
    assert isinstance(error, FunctionRefused)
    assert "submitted from Python 3.9" in error.message
    assert error.message in done.log


def test_result_of_another_version_of_python_is_not_loaded(runs: Runner) -> None:
    line, _, data = runs(lambda: 1).files["result.0"].partition(b"\n")
    other = json.dumps({**json.loads(line), "python": [3, 9]}).encode()
    with pytest.raises(ResultUnusable, match=r"written by Python 3\.9"):
        futures._parse_result(other + b"\n" + data).get_value()


def test_result_that_breaks_off_is_no_result(runs: Runner) -> None:
    content = runs(lambda: "long enough").files["result.0"]
    assert futures._parse_result(content).complete
    assert not futures._parse_result(content[:-1]).complete
    assert not futures._parse_result(b"").complete


def test_task_gets_its_item(runs: Runner) -> None:
    done = runs(lambda x: x + 1, items=[1, 5, 7], env={"SLURM_ARRAY_TASK_ID": "1"})
    assert done.value(task=1) == 6, done.log


def test_missing_folder_or_module_is_refused(runs: Runner, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert missing in str(runs(lambda: 1, call={"workdir": missing}).error())
    (tmp_path / "job" / "1" / "result.error").unlink()
    module = ModuleType("module_of_the_notebook")
    exec("def function(): return 1", module.__dict__)
    sys.modules[module.__name__] = module
    try:
        done = runs(module.function)
    finally:
        del sys.modules[module.__name__]
    assert done.code == REFUSED
    assert "No module named 'module_of_the_notebook'" in str(done.error())
    assert "sync=" in str(done.error())


def test_first_exception_of_several_ranks_is_kept(runs: Runner) -> None:
    runs(raise_, ValueError, "first", env={"RANK": "1", "WORLD_SIZE": "2"})
    done = runs(raise_, ValueError, "second", env={"RANK": "0", "WORLD_SIZE": "2"})
    assert done.error().args == ("first",)
    assert runs(lambda: 7, env={"RANK": "3"}).value(rank=3) == 7


def test_run_that_was_started_again_forgets_the_earlier_exception(runs: Runner) -> None:
    runs(raise_, ValueError, "first")
    done = runs(raise_, ValueError, "second", env={"SLURM_RESTART_COUNT": "1"})
    assert done.error().args == ("second",)


def test_library_has_all_that_the_client_imports(runs: Runner, tmp_path: Path) -> None:
    """A job's Python without an installation can use ``aitne`` in the function."""
    runs(lambda: 1)
    library = tmp_path / "job" / "tree" / FOLDER / "library.zip"
    code = (
        f"import sys; sys.path.append({str(library)!r}); import aitne; "
        "from aitne import Client, submit, notify, job; import aitne.client.aio; "
        "import aitne.client.function_packaging, aitne.client.job_watcher; print(aitne.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith(str(library)), done.stderr
