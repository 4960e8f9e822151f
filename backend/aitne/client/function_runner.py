"""Program that runs a submitted function in its job and writes the return value or exception.

It is part of the job's tree, in the folder ``.aitne-function``, and is started by the Python
interpreter of the job. It therefore uses only the standard library and the syntax of Python 3.6. It
checks the version of Python before it loads the function, because bytecode of another minor version
can crash the interpreter.

The result is a file in the folder of the attempt: one line of JSON, followed by the pickle. A rank
on which the function returned writes ``result.<rank>``; the first rank on which it raised an
exception writes ``result.error``. In an array job the names begin with ``result-<task>``.
"""

import contextlib
import importlib
import json
import os
import sys
import traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

REFUSED, RAISED = 117, 1
"""Exit codes: nothing was run; the function raised an exception."""
FORMAT = 1


def main() -> None:
    """Load the function from the folder of this file, call it, and write its result."""
    folder = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(folder, "call.json"), encoding="utf-8") as file:
        call = json.load(file)
    _delete_earlier_error()
    _check_version(call["python"])
    _enter_workdir(call["workdir"])
    pickling = _import_pickling(folder, call)
    function, args, kwargs = _load_call(folder, call, pickling)
    try:
        value = function(*args, **kwargs)
        data = pickling.dumps(value, "result")
    except pickling.NotPicklableError as error:
        sentence = (
            f"The function has returned, but its result cannot be pickled: {error}. Return plain "
            "values, or write the result to a file and return its path."
        )
        _report_exception(TypeError(sentence), pickling)
    except BaseException as error:  # noqa: BLE001 - SystemExit too: the function has not returned
        _report_exception(error, pickling)
    else:
        path = _get_result_path(os.environ.get("RANK") or "0")
        temporary = f"{path}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        _write_result(os.open(temporary, flags, 0o600), {"kind": "value"}, data)
        os.replace(temporary, path)


def _import_pickling(folder: str, call: "dict[str, Any]") -> "Any":
    """Import the pickling module and extend ``sys.path`` with the job's modules."""
    if os.path.abspath(sys.path[0]) == folder:
        del sys.path[0]
    # The cloudpickle that wrote the function reads it; all else of the job's Python comes first.
    library = os.path.join(folder, "library.zip")
    sys.path.insert(0, library)
    importlib.import_module("cloudpickle")
    pickling = importlib.import_module("_aitne_pickling")
    sys.path[0:1] = [os.path.dirname(folder)] if call["sync"] else []
    if call["workdir"] not in (None, "~"):
        sys.path.insert(0, os.getcwd())
    sys.path.append(library)
    return pickling


def _get_result_path(suffix: str) -> str:
    task = os.environ.get("SLURM_ARRAY_TASK_ID", "")
    name = f"result-{task}" if task.isdigit() else "result"
    return os.path.join(os.environ["AITNE_JOB_DIR"], f"{name}.{suffix}")


def _get_restart_count() -> int:
    """Return how often the scheduler has started this attempt again."""
    count = os.environ.get("SLURM_RESTART_COUNT", "")
    return int(count) if count.isdigit() else 0


def _delete_earlier_error() -> None:
    """Delete the exception of an earlier run of this attempt, which the scheduler has restarted."""
    if _get_restart_count() == 0:
        return
    try:
        with open(_get_result_path("error"), "rb") as file:
            earlier = json.loads(file.readline())["restart"] < _get_restart_count()
    except FileNotFoundError:
        return
    except (ValueError, KeyError):
        earlier = True
    if earlier:
        with contextlib.suppress(FileNotFoundError):  # another rank of this node was faster
            os.unlink(_get_result_path("error"))


def _check_version(required: "list[int]") -> None:
    found = list(sys.version_info[:2])
    if found != required:
        _exit_refused(
            f"The function was submitted from Python {required[0]}.{required[1]}, and {sys.executable} "
            f"of this job is Python {found[0]}.{found[1]}. Functions can only travel between equal "
            "versions: submit it with `python=` and the path of such a Python, or with an image or "
            "environment that has one."
        )


def _enter_workdir(workdir: "str | None") -> None:
    """Enter the working directory; None: stay in the job's tree."""
    if workdir is None:
        return
    folder = os.path.expanduser(workdir)
    try:
        os.chdir(folder)
    except OSError as error:
        _exit_refused(
            f"The working directory {folder} cannot be entered: {error.strerror}. Submit the "
            "function with `workdir=` and a folder that the job has."
        )


def _load_call(folder: str, call: "dict[str, Any]", pickling: "Any") -> "Any":
    """Return the function, its arguments and its keyword arguments."""
    names = ["function.pkl"]
    if call["array"]:
        names.append(f"items/{int(os.environ['SLURM_ARRAY_TASK_ID'])}.pkl")
    contents = []
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            contents.append(file.read())
    try:
        function, args, kwargs = pickling.loads(contents[0])
        if call["array"]:
            args = (pickling.loads(contents[1]),)
    except ImportError as error:
        _exit_refused(
            f"The function or its arguments need what the job's Python does not have: {error}. "
            "Submit it with `sync=` and the folder of the module, or with `python=` or `image=` and a "
            "Python or image that has the package."
        )
    return function, args, kwargs


def _report_exception(error: BaseException, pickling: "Any") -> "NoReturn":
    """Print the traceback, write the exception to the result file, and exit with status 1, as
    Python does for an uncaught exception.
    """
    frames = error.__traceback__ and error.__traceback__.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames))
    sys.stderr.write(text)
    try:
        data = pickling.dumps(error, "the exception")
        pickling.loads(data)
    except Exception:  # noqa: BLE001 - not every exception can be made from what it keeps
        data = b""
    header = {
        "kind": "exception",
        "type": type(error).__qualname__,
        "message": str(error),
        "traceback": text,
        "rank": int(os.environ.get("RANK") or 0),
    }
    _write_error(header, data)
    sys.exit(RAISED)


def _exit_refused(sentence: str) -> "NoReturn":
    sys.stderr.write(f"aitne: {sentence}\n")
    _write_error({"kind": "refused", "message": sentence})
    sys.exit(REFUSED)


def _write_error(header: "dict[str, object]", data: bytes = b"") -> None:
    """Write ``result.error`` unless another rank has already written it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = os.open(_get_result_path("error"), flags, 0o600)
    except FileExistsError:
        return
    _write_result(descriptor, header, data)


def _write_result(descriptor: int, header: "dict[str, object]", data: bytes) -> None:
    common = {"format": FORMAT, "python": sys.version_info[:2], "restart": _get_restart_count()}
    with os.fdopen(descriptor, "wb") as file:
        file.write(json.dumps({**header, **common, "bytes": len(data)}).encode() + b"\n")
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    main()
