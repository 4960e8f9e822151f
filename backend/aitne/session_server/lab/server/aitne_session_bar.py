"""Server part of the bar in JupyterLab: the session's end and resource usage, the button to extend
it, its attached ranks, and the open notebook as a batch job.

JupyterLab's page requests these from this server, which requests them from the platform: status and
extension with the job's token that it received from the agent, ranks, batch jobs and events with the
session token. No page has either of them; the job's token is in no file or environment variable.

Runs in the session's environment: it may import only the standard library, Jupyter and what
Jupyter needs, and no other module of this package.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import os
import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import yaml
from jupyter_server.base.handlers import APIHandler
from tornado import web
from tornado.ioloop import IOLoop
from tornado.iostream import StreamClosedError

_ANSWER_S = 10.0
_SILENCE_S = 45.0
"""Seconds without a line after which a stream of events is broken: the platform sends a comment
every 15 s."""
_MOST_STREAMS = 8
_MOST_BYTES = 1 << 20
_EXTENSION_S = 3_600
_RANK_MEMORY = 2 << 30
"""Memory in bytes of a rank whose request names none."""
_OK = 200
_threads = ThreadPoolExecutor(2, thread_name_prefix="aitne-session")
_streams = threading.BoundedSemaphore(_MOST_STREAMS)

_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEY = re.compile(r"[a-z0-9-]{1,100}")
_INHERITED = (
    "project",
    "image",
    "container",
    "environment",
    "datasets",
    "env",
    "secrets",
    "slurm",
)
"""Fields of the session's job file that a notebook has as a batch job too."""


class PlatformApi:
    """Client of a part of the platform's API."""

    def __init__(self, url: str, token: str, authority: str | None) -> None:
        """Create a client for ``url``. ``authority`` is the CA (PEM) that signed the platform's
        certificate; None: a CA of the system.
        """
        self._url = url
        self._token = token
        context = ssl.create_default_context()
        if authority is not None:
            context.load_verify_locations(cadata=authority)
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def send_request(
        self, path: str = "", body: dict[str, Any] | None = None, key: str | None = None
    ) -> tuple[int, bytes]:
        """Send a request to the platform; return status and body of its response. A request that is
        repeated with the same ``key`` creates nothing twice.

        Blocks, so it must be called in a thread. Raises ``OSError`` if there is no response.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        request = urllib.request.Request(self._url + path, data, headers)  # noqa: S310 (the agent's own URL)
        try:
            with self._opener.open(request, timeout=_ANSWER_S) as answer:
                return answer.status, answer.read(_MOST_BYTES)
        except urllib.error.HTTPError as error:
            return error.code, error.read(_MOST_BYTES)

    def follow_changes(self, session: str) -> Iterator[bool]:
        """Yield True for each event of ``session`` or its ranks, and where events may have been
        missed; False for other events and for the comments that the platform sends in silence.

        Blocks, so it must be called in a thread. Raises ``OSError`` if the stream breaks, and
        ``urllib.error.HTTPError`` if the platform refuses it.
        """
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "text/event-stream"}
        request = urllib.request.Request(self._url + "/events", headers=headers)  # noqa: S310 (the agent's own URL)
        with self._opener.open(request, timeout=_SILENCE_S) as answer:
            for line in answer:
                if line.startswith(b"data:"):
                    yield _is_relevant(session, json.loads(line.removeprefix(b"data:")))
                elif line.startswith(b":"):
                    yield False


def _is_relevant(session: str, event: dict[str, Any]) -> bool:
    """Return whether the session or one of its rank groups changed, or events were skipped."""
    if "last_event_id" in event:
        return True
    return session in (event.get("job_id"), (event.get("data") or {}).get("session_id"))


_platform: dict[str, PlatformApi] = {}
"""``session``: the session's own status; ``jobs``: the API for programs of the session."""


def configure(url: str, token: str, authority: str | None) -> None:
    """Set the platform's URL, token and CA; called before the server starts.

    The API for programs of the session is that of the environment variables that the session has.
    """
    _platform.clear()
    _platform["session"] = PlatformApi(url, token, authority)
    base, own = os.environ.get("AITNE_URL"), os.environ.get("AITNE_TOKEN")
    if base and own:
        _platform["jobs"] = PlatformApi(f"{base.rstrip('/')}/api/v1", own, authority)


def make_batch_file(
    session: dict[str, Any],
    notebook: str,
    options: dict[str, Any],
    group: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a job file that runs ``notebook`` with the software, data and resources of the
    session. The working folder is the folder of the notebook.

    Args:
        session: the session's job file.
        notebook: absolute path of the notebook.
        options: the page's choices ``name``, ``nodes``, ``gpu``, ``max_duration``, ``parameters``
            (lines ``NAME=VALUE``) and ``ranks_per_node``; omitted or None: as in the session, no
            parameters, no ranks.
        group: record of the rank group whose ranks have what each rank of the job gets, beside the
            session's own resources; None: one CPU and 2 GiB for each.

    Raises ``ValueError`` if the parameters are invalid.
    """
    resources = dict(session.get("resources") or {})
    resources |= {name: options[name] for name in ("nodes", "gpu") if options.get(name) is not None}
    inherited = {name: session[name] for name in _INHERITED if session.get(name)}
    limit = options.get("max_duration") or session.get("max_duration")
    ranks = options.get("ranks_per_node")
    if isinstance(ranks, int):
        cpu, memory, gpus, kind = _get_rank_resources(group)
        resources["cpu"] = int(resources.get("cpu") or 1) + ranks * cpu
        # A job file has the memory as text with a unit; the platform adds what one node needs.
        resources["memory"] = f"{_parse_bytes(resources.get('memory')) + ranks * memory}B"
        if gpus and options.get("gpu") is None:
            resources["gpu"] = f"{kind}:{ranks * gpus}" if kind else ranks * gpus
    parameters = _parse_parameters(str(options.get("parameters") or ""))
    return inherited | {
        "type": "job",
        "name": options.get("name") or os.path.basename(notebook),
        "workdir": os.path.dirname(notebook),
        "notebook": {"path": notebook, **({"parameters": parameters} if parameters else {})},
        "resources": resources,
        **({} if ranks is None else {"distributed": {"ranks_per_node": ranks}}),
        **({} if limit is None else {"max_duration": limit}),
    }


def _get_rank_resources(group: dict[str, Any] | None) -> tuple[int, int, int, str | None]:
    """Return the CPUs, the bytes of memory, the GPUs and their type of each rank of the group."""
    if group is None:
        return 1, _RANK_MEMORY, 0, None
    per_node = int((group.get("distributed") or {}).get("ranks_per_node") or 1)
    resources = group["resources"]
    cpu, memory = resources["cpu"] // per_node or 1, resources["memory_bytes"] // per_node
    gpu = resources.get("gpu") or {}
    return cpu, memory, gpu.get("count", 0) // per_node, gpu.get("type")


def _parse_bytes(memory: Any) -> int:
    """Return the bytes of a size in a job file, such as ``2G``; 0 for None."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGTP]?)(?:i?B)?", str(memory or 0).strip())
    if match is None:
        raise ValueError(f"the memory {memory} of the session cannot be read")
    return int(float(match[1]) * 1024 ** " KMGTP".index(match[2] or " "))


def _parse_parameters(text: str) -> dict[str, Any]:
    """Return the values of ``NAME=VALUE`` lines by name, which are YAML as with `aitne batch -p`, such
    as ``0.1`` or ``[1, .nan]``, or else the text itself. Raises ``ValueError`` for another line."""
    values: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not name.isidentifier():
            raise ValueError(f"the parameter {line} is not NAME=VALUE")
        try:
            values[name] = _encode_floats(yaml.load(value, _Yaml))  # noqa: S506 - a SafeLoader
        except (yaml.YAMLError, ValueError, RecursionError):
            values[name] = value
    return values


def _encode_floats(value: Any) -> Any:
    """Return a value with infinite numbers and NaN as the platform encodes them in JSON."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if isinstance(value, dict):
        return {str(name): _encode_floats(part) for name, part in value.items()}
    return [_encode_floats(part) for part in value] if isinstance(value, list) else value


class _Yaml(yaml.SafeLoader):
    """YAML loader with the values of YAML 1.2's core schema, as `aitne batch` reads them."""


_Yaml.yaml_implicit_resolvers = {}
for _tag, _pattern in (
    ("bool", r"true|True|TRUE|false|False|FALSE"),
    ("null", r"~|null|Null|NULL|"),
    ("int", r"[-+]?[0-9]+"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN",
    ),
):
    _Yaml.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), None)
_Yaml.yaml_constructors = {
    tag: make
    for tag, make in yaml.SafeLoader.yaml_constructors.items()
    if tag is None or tag.rpartition(":")[2] in ("null", "bool", "float", "str", "seq", "map")
}
# YAML 1.1 would read 010 as eight.
_Yaml.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))


def submit_notebook(
    api: PlatformApi, session: str, root: str, options: dict[str, Any]
) -> tuple[int, bytes]:
    """Submit the notebook ``options["path"]``, relative to the folder ``root``, as a batch job.
    Return the status and the body of the platform's response.

    Blocks and raises the same errors as ``PlatformApi.send_request``.
    """
    path = str(options.get("path")).strip("/")
    notebook = os.path.join(os.path.abspath(root), path)
    if not notebook.endswith(".ipynb") or not os.path.isfile(notebook):
        return 404, json.dumps({"detail": f"There is no notebook {path}. Save it first."}).encode()
    status, body = api.send_request(f"/jobs/{session}/file")
    if status != _OK:
        return status, body
    group, attached = str(options.get("group")), None
    if _ID.fullmatch(group) is not None:
        status, record = api.send_request(f"/jobs/{group}")
        attached = json.loads(record) if status == _OK else None
    try:
        file = make_batch_file(json.loads(body), notebook, options, attached)
    except ValueError as error:
        return 422, json.dumps({"detail": f"Not submitted: {error}."}).encode()
    return api.send_request("/jobs", file, _take_idempotency_key(options))


def _take_idempotency_key(options: dict[str, Any]) -> str | None:
    """Remove the idempotency key from the page's request and return it; None if there is none."""
    key = options.pop("key", None)
    return key if isinstance(key, str) and _KEY.fullmatch(key) else None


class _Handler(APIHandler):  # type: ignore[misc]
    async def answer_from_platform(
        self, api: str, path: str = "", body: dict[str, Any] | None = None
    ) -> None:
        await self.answer_from(self.get_api(api).send_request, path, body)

    async def answer_from(self, function: Callable[..., tuple[int, bytes]], *request: Any) -> None:
        """Answer with the status and body that ``function``, which blocks, returns."""
        try:
            status, body = await IOLoop.current().run_in_executor(_threads, function, *request)
        except OSError as error:
            raise web.HTTPError(503, "The platform does not answer.") from error
        self.set_status(status)
        self.set_header("Content-Type", "application/json")
        self.finish(body)

    def get_api(self, name: str) -> PlatformApi:
        if name not in _platform:
            raise web.HTTPError(409, "This session has no token for jobs. Start a new session.")
        return _platform[name]

    def parse_fields(self) -> dict[str, Any]:
        body = self.get_json_body()
        if not isinstance(body, dict):
            raise web.HTTPError(400, "The request has no JSON object.")
        return body


class StatusHandler(_Handler):
    """Handler of the page's requests for the session's status."""

    # The bar asks while no user works: that keeps no session alive.
    _track_activity = False

    @web.authenticated  # type: ignore[untyped-decorator]
    async def get(self) -> None:
        """Return the end of the session and its resource usage."""
        await self.answer_from_platform("session")


class ChangesHandler(_Handler):
    """Handler of the stream by which the bar follows the session and its ranks."""

    _track_activity = False

    def initialize(self) -> None:
        """Create the handler of one stream."""
        self._closed = threading.Event()

    @web.authenticated  # type: ignore[untyped-decorator]
    async def get(self) -> None:
        """Stream one line per change of the session or its ranks, and empty lines in between.

        The stream ends when the platform ends its own; it is refused if the platform refuses it.
        """
        api = self.get_api("jobs")
        if not _streams.acquire(blocking=False):
            raise web.HTTPError(429, "Too many pages of this session are open. Close one.")
        lines: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        follow = (api, asyncio.get_running_loop(), lines, self._closed)
        # The server's end must not wait for the next line: no thread of a pool.
        threading.Thread(target=_relay_changes, args=follow, daemon=True).start()
        self.set_header("Content-Type", "text/plain")
        while (line := await lines.get()) is not None:
            if isinstance(line, Exception):
                if self._headers_written:
                    return  # the page opens another stream
                code = line.code if isinstance(line, urllib.error.HTTPError) else 503
                raise web.HTTPError(code, "The platform sends no events.") from line
            self.write(line)
            try:
                await self.flush()
            except StreamClosedError:
                return

    def on_connection_close(self) -> None:
        """End the thread that follows the platform: it sees this at its next line."""
        self._closed.set()


def _relay_changes(
    api: PlatformApi,
    loop: asyncio.AbstractEventLoop,
    lines: asyncio.Queue[bytes | Exception | None],
    closed: threading.Event,
) -> None:
    """Put a line into ``lines`` for each line of the platform's events until ``closed`` is set;
    then None, or the error that ended them."""

    def put(line: bytes | Exception | None) -> None:
        loop.call_soon_threadsafe(lines.put_nowait, line)

    try:
        for changed in api.follow_changes(_get_session_id()):
            if closed.is_set():
                break
            put(b"changed\n" if changed else b"\n")
    except (OSError, ValueError, http.client.HTTPException) as error:
        put(error)
    finally:
        _streams.release()
        put(None)


class ExtendHandler(_Handler):
    """Handler of the button in JupyterLab that extends the session."""

    @web.authenticated  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        """Extend the session by an hour."""
        await self.answer_from_platform("session", "/extend", {"duration_s": _EXTENSION_S})


class RanksHandler(_Handler):
    """Handler of the dialog in JupyterLab that attaches ranks."""

    @web.authenticated  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        """Start the ranks that the page requests for this session."""
        options = self.parse_fields()
        path = f"/sessions/{_get_session_id()}/ranks"
        await self.answer_from(
            self.get_api("jobs").send_request, path, options, _take_idempotency_key(options)
        )


class ReleaseHandler(_Handler):
    """Handler of the buttons in JupyterLab that release ranks."""

    @web.authenticated  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        """Release one rank group of this session."""
        group = str(self.parse_fields().get("group"))
        if _ID.fullmatch(group) is None:
            raise web.HTTPError(400, "The rank group has no ID.")
        await self.answer_from_platform(
            "jobs", f"/sessions/{_get_session_id()}/ranks/{group}/release", {}
        )


class BatchHandler(_Handler):
    """Handler of the dialog in JupyterLab that runs the open notebook as a batch job."""

    @web.authenticated  # type: ignore[untyped-decorator]
    async def post(self) -> None:
        """Submit the notebook with the software, data and resources of this session."""
        root = str(self.contents_manager.root_dir)
        await self.answer_from(
            submit_notebook, self.get_api("jobs"), _get_session_id(), root, self.parse_fields()
        )


def _get_session_id() -> str:
    return os.environ.get("AITNE_SESSION", "")


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    if not _platform:
        return
    base = server.web_app.settings["base_url"].rstrip("/")
    handlers = {
        "session": StatusHandler,
        "changes": ChangesHandler,
        "extend": ExtendHandler,
        "ranks": RanksHandler,
        "ranks/release": ReleaseHandler,
        "batch": BatchHandler,
    }
    routes = [(f"{base}/aitne/{path}", handler) for path, handler in handlers.items()]
    server.web_app.add_handlers(".*$", routes)
