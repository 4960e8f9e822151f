"""Conversion of a Python function to a job: the files that are uploaded, and the job file."""

from __future__ import annotations

import functools
import io
import json
import os
import shlex
import sys
import zipfile
from pathlib import Path

from aitne.client.api_session import quote_segment
from aitne.client.pickling import NotPicklableError, dumps
from aitne.core.archive_bytecode import compile_bytecode
from aitne.core.byte_size_format import describe_bytes
from aitne.core.errors import InvalidInput, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from aitne.client.api_session import ApiSession
    from aitne.client.tree_upload import Trees

FOLDER = ".aitne-function"
"""Folder of the job's tree with the function and its runner."""
NAME_CHARACTERS = 100
PICKLING = "_aitne_pickling.py"
"""Name under which the runner imports ``aitne.client.pickling``."""
SMALL_BYTES = 1 << 20
"""Size up to which the platform is not asked for its limit before the upload."""
OWN_FIELDS = ("commands", "tree", "repo", "array", "sweep", "template", "parameters", "type")
"""Fields of a job file that a function's job sets itself, or that have no meaning for it."""
INHERITED = (
    *("project", "image", "container", "environment"),
    *("datasets", "env", "secrets"),
)
"""Fields of a job file that are those of the session in which the function is submitted."""
_SOFTWARE = frozenset({"image", "container", "environment"})
"""Of these, the fields that are inherited together or not at all."""


class FunctionCall:
    """A function with its arguments, pickled for a job. If ``items`` is set, the job is an array
    job with one task for each item.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        items: Sequence[Any] | None = None,
        python: str | None = None,
        sync: str | os.PathLike[str] | None = None,
    ) -> None:
        """Pickle the function and its arguments.

        Raises:
            InvalidInput: ``function`` is not a function, ``items`` is empty, or a value cannot be pickled.
        """
        if not callable(function):
            raise InvalidInput(
                f"{function!r} is no function. Pass the function without calling it."
            )
        if items is not None and not items:
            raise InvalidInput("There are no items to call the function for.")
        self.name = _get_name(function)
        self.tasks = len(items or ())
        self._python = python
        self._sync = sync
        self._workdir: str | None = None
        contents = {"function.pkl": _pickle_call(function, tuple(args), dict(kwargs), self.name)}
        for index, item in enumerate(items or ()):
            contents[f"items/{index}.pkl"] = _pickle_value(item, f"items[{index}]")
        self._contents = contents

    def make_job_file(self, session: ApiSession, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the job file, without the tree. ``options`` are those of ``client.functions.submit``.

        Raises ``InvalidInput`` for a field that a function's job sets itself.
        """
        job = {name: value for name, value in options.items() if value is not None}
        for name in OWN_FIELDS:
            if name in job:
                raise InvalidInput(
                    f"{name} cannot be set for a function, which is the job's program."
                )
        session_fields = _read_session_fields(session)
        inherited = {} if session_fields is None else dict(session_fields)
        if _SOFTWARE & job.keys():
            inherited = {k: v for k, v in inherited.items() if k not in _SOFTWARE}
        local = session.platform.data_dir is not None
        own_python = not _SOFTWARE & job.keys() and (session_fields is not None or local)
        python = self._python or (sys.executable if own_python else "python3")
        workdir = job.pop("workdir", None)
        if workdir is None and self._sync is None:
            workdir = os.getcwd() if session_fields is not None else "~"
        self._workdir = workdir
        resources = dict(job.pop("resources", {}))
        nodes, gpus = job.pop("nodes"), job.pop("gpus", None)
        if nodes != 1:
            resources["nodes"] = nodes
        if gpus is not None:
            resources["gpu"] = gpus
        ranks = job.pop("ranks_per_node", None)
        if ranks is not None or nodes != 1:
            job["distributed"] = {"ranks_per_node": ranks, **job.get("distributed", {})}
        if ranks is not None:  # each rank computes, so one CPU for all of them is never meant
            resources.setdefault("cpu", ranks)
        file = {"name": self.name[:NAME_CHARACTERS], **inherited, **job, "type": "job"}
        command = f"exec {shlex.quote(python)} {FOLDER}/run.py"
        return {**file, "commands": [command], **({"resources": resources} if resources else {})}

    def upload(self, trees: Trees) -> str:
        """Upload the files of the job and return the digest of their tree. File contents that the
        platform already has are not transferred again.

        Raises ``InvalidInput`` if the files exceed the platform's limits, and the errors of
        ``client.trees.upload``.
        """
        call = {
            "python": sys.version_info[:2],
            "workdir": self._workdir,
            "sync": self._sync is not None,
            "array": self.tasks > 0,
        }
        contents = {
            **self._contents,
            "call.json": json.dumps(call).encode(),
            "run.py": _read_source("function_runner.py"),
            "library.zip": _make_library_zip(),
        }
        size = sum(map(len, contents.values()))
        limit = trees.limits().max_bytes if size > SMALL_BYTES else size
        if size > limit:
            raise InvalidInput(
                f"The function and its arguments have {describe_bytes(size, 'up')}, and the limit "
                f"of the platform is {describe_bytes(limit, 'down')}. Write large values to a file "
                "or a dataset that the job can read, and pass the path."
            )
        files = {f"{FOLDER}/{name}": content for name, content in contents.items()}
        return trees.upload(self._sync, files=files).digest


def _get_name(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", type(function).__name__)
    return "lambda" if name == "<lambda>" else str(name)


def _pickle_call(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> bytes:
    try:
        return dumps((function, args, kwargs), name)
    except NotPicklableError:
        # Once more in parts, whose names are those that the caller knows.
        for path, part in ((name, function), ("args", args), ("kwargs", kwargs)):
            _pickle_value(part, path)
        raise
    except ModuleNotFoundError as error:
        raise _make_no_cloudpickle_error(error) from error


def _pickle_value(value: object, path: str) -> bytes:
    try:
        return dumps(value, path)
    except NotPicklableError as error:
        raise InvalidInput(
            f"{error}. It cannot travel to the job: leave it out, or create it in the function."
        ) from error
    except ModuleNotFoundError as error:
        raise _make_no_cloudpickle_error(error) from error


def _make_no_cloudpickle_error(error: ModuleNotFoundError) -> InvalidInput:
    if error.name != "cloudpickle":
        return InvalidInput(f"The function cannot be pickled: {error}.")
    return InvalidInput(
        "Functions travel by cloudpickle, which this Python does not have: `pip install cloudpickle`."
    )


def _read_session_fields(session: ApiSession) -> Mapping[str, Any] | None:
    """Return the job-file fields of the session in which this program runs, which its jobs inherit;
    None if the program does not run in a session.
    """
    session_id = os.environ.get("AITNE_SESSION") or os.environ.get("AITNE_SESSION_ID")
    if not session_id:
        return None
    try:
        file = session.request_json("GET", f"/jobs/{quote_segment(session_id)}/file")["file"]
    except NotFound:
        return None  # it is a session of another platform
    return {name: file[name] for name in INHERITED if file.get(name)}


@functools.cache
def _read_source(name: str) -> bytes:
    return (Path(__file__).parent / name).read_bytes()


@functools.cache
def _make_library_zip() -> bytes:
    """Return a zip file with the modules that the runner imports, and the parts of ``aitne`` that
    programs in jobs use.
    """
    import cloudpickle

    own, pickler = Path(__file__).parents[1], Path(cloudpickle.__file__).parent
    core = (
        *(
            "__init__",
            "archive_bytecode",
            "byte_size_format",
            "dataset_manifest",
            "errors",
            "tree_document",
        ),
        *("sessions/__init__", "sessions/session_variables"),
    )
    files = [
        own / "__init__.py",
        *sorted((own / "client").glob("*.py")),
        *(own / "core" / f"{name}.py" for name in core),
    ]
    named = {f"aitne/{path.relative_to(own).as_posix()}": path for path in files}
    imported = {f"cloudpickle/{path.name}": path for path in sorted(pickler.glob("*.py"))}
    imported[PICKLING] = Path(__file__).with_name("pickling.py")
    named |= imported
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as library:
        for name, path in named.items():
            # Without the file's time, so that the same contents are the same file.
            library.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
            if name in imported:  # by each job, and compiling takes longer
                library.writestr(
                    zipfile.ZipInfo(f"{name}c"),
                    compile_bytecode(path.name, path.read_bytes()),
                    zipfile.ZIP_DEFLATED,
                )
    return buffer.getvalue()
