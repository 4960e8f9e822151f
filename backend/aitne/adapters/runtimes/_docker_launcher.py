"""Launcher of one container.

The agent starts the launcher (``python -m ..._docker_launcher JSON TMP [--gpus] -- PROGRAM ARGUMENT...``)
instead of the program. The launcher first starts a guard, a process
in a session of its own that removes the container when the launcher has ended for any reason. If
even the guard could not remove it, because the machine failed, a later launcher's guard finds the
container by its label.

Only environment variables with the prefix that the JSON specifies are passed to the program.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from docker.types import DeviceRequest

from aitne.adapters.runtimes._docker_stream_forwarding import ContainerStream, write_to_log
from aitne_train.launcher.visible_gpus import parse_visible_gpus

FAILED = 125
"""Exit code if the container could not be created; ``docker run`` uses the same code."""
OWNER = "aitne.launcher"
"""Container label with the identity of the launcher's process."""
PIDS = "pids"
"""File in TMP with the PID of the container's first process, for programs that determine the job's
processes.
"""
_FORWARDED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGCONT")
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_ANSWER_S = 60
_OUT_OF_MEMORY = 137


def main(arguments: Sequence[str]) -> NoReturn:
    """Run one container and exit with its exit code."""
    container, tmp, *rest = arguments
    end = rest.index("--")
    facts = json.loads(container)
    wake = _redirect_signals()
    try:
        code = _run_guarded_container(
            facts, tmp, rest[end + 1 :], wake, gpus="--gpus" in rest[:end]
        )
    except (DockerException, OSError) as error:  # OSError: the connection's own, of requests
        write_to_log(f"Docker at {facts['url']} failed: {_format_error(error)}")
        code = FAILED
    os._exit(code)


_NVIDIA = "NVIDIA_VISIBLE_DEVICES"


def container_options(
    facts: dict[str, Any], tmp: str, argv: Sequence[str], *, gpus: bool
) -> dict[str, Any]:
    """Return the body of the request to the Docker daemon that creates the container. ``facts`` is
    the description from ``DockerRuntime``, ``tmp`` the job's temporary folder.
    """
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    memory = facts["memory_bytes"]
    host: dict[str, Any] = {
        "Init": True,  # so that the program is not process 1, which default signals do not end
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "Privileged": False,
        "ReadonlyRootfs": not facts["writable"],
        "IpcMode": "private",
        "NetworkMode": "host" if facts["network"] else "none",
        "GroupAdd": [str(group) for group in _list_group_ids(facts["url"])],
        "Mounts": [
            _make_mount(os.path.join(tmp, "tmp"), "/tmp", writable=True),  # noqa: S108 - the container's
            _make_mount(os.path.join(tmp, "var_tmp"), "/var/tmp", writable=True),  # noqa: S108
            *(
                _make_mount(source, target, writable=writable)
                for source, target, writable in facts["binds"]
            ),
        ],
        # Files in /dev/shm count towards the container's memory limit; the default is half of the
        # RAM, as on the host.
        "ShmSize": half if memory is None else memory,
        "LogConfig": {"Type": "none", "Config": {}},
    }
    if memory is not None:
        host |= {"Memory": memory, "MemorySwap": memory}
    if facts["cpus"] is not None:
        host["NanoCpus"] = facts["cpus"] * 1_000_000_000
    if facts["cgroup_parent"] is not None:
        host["CgroupParent"] = facts["cgroup_parent"]
    variables = _get_prefixed_variables(facts["env_prefix"])
    # If NVIDIA's runtime is Docker's default, this variable alone would give GPUs
    # (https://docs.nvidia.com/datacenter/cloud-native/container-toolkit, "void" gives none).
    variables.pop(_NVIDIA, None)
    if not gpus:
        variables[_NVIDIA] = "void"
    else:
        host["DeviceRequests"] = [_gpu_request(variables.get("CUDA_VISIBLE_DEVICES", ""))]
    return {
        "Image": facts["image"],
        # Disable the image's entry point; Docker would prepend it to the command.
        "Entrypoint": [],
        "Cmd": list(argv),
        "User": f"{os.getuid()}:{os.getgid()}",
        "WorkingDir": facts["workdir"],
        "Env": [f"{name}={value}" for name, value in (variables | {"HOME": facts["home"]}).items()],
        "Labels": {**facts["labels"], OWNER: process_identity(os.getpid())},
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "HostConfig": host,
    }


def _list_group_ids(url: str) -> Sequence[int]:
    """Return the GIDs of this process except the group that owns Docker's socket, which would give
    the program root's rights.
    """
    socket = url.removeprefix("unix://")
    socket_group = {os.stat(socket).st_gid} if socket != url and os.path.exists(socket) else set()
    return sorted(set(os.getgroups()) - socket_group)


def _make_mount(source: str, target: str, *, writable: bool) -> dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": not writable}


def _get_prefixed_variables(prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value
        for name, value in os.environ.items()
        if name.startswith(prefix) and name != prefix
    }


def _gpu_request(visible: str) -> DeviceRequest:
    """Return the request for the GPUs with the UUIDs in ``visible``. If they are given by index,
    request all GPUs, because indices would be renumbered inside the container.
    """
    names = parse_visible_gpus(visible)
    if names and all(name.startswith(("GPU-", "MIG-")) for name in names):
        return DeviceRequest(device_ids=names, capabilities=[["gpu"]])
    return DeviceRequest(count=-1, capabilities=[["gpu"]])


def _run_guarded_container(
    facts: dict[str, Any], tmp: str, argv: Sequence[str], wake: int, *, gpus: bool
) -> int:
    client = docker.APIClient(base_url=facts["url"], version="auto", timeout=_ANSWER_S)
    if gpus and _is_podman(client):
        write_to_log(
            "Podman would silently start this without its GPUs, so it is not started: "
            "use apptainer or Docker for jobs with GPUs"
        )
        return FAILED
    name = f"aitne-{uuid.uuid4().hex}"
    guard = _start_guard(facts["url"], name)
    try:
        options = container_options(facts, tmp, argv, gpus=gpus)
        return _run_container(client, facts["url"], name, options, tmp, wake)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(tmp, PIDS))
        # What cannot be removed now is left to the guard and the next launcher; the exit code
        # stays the same.
        with contextlib.suppress(DockerException, OSError):
            remove_container(client, name)
            os.write(guard, b".")


def _run_container(
    client: docker.APIClient,
    url: str,
    name: str,
    options: dict[str, Any],
    tmp: str,
    wake: int,
) -> int:
    try:
        client.create_container_from_config(options, name)
    except ImageNotFound:
        write_to_log(f"the image {options['Image']} is not in Docker's store on this node")
        return FAILED
    stream = ContainerStream(client, url, name, wake)
    early = stream.signals()
    stop = next((number for number in early if number in _STOPPING), None)
    if stop is not None:
        return 128 + stop
    client.start(name)
    pid = client.inspect_container(name)["State"]["Pid"]
    if pid:
        with open(os.path.join(tmp, PIDS), "w", encoding="ascii") as file:
            file.write(f"{pid}\n")
    code = stream.forward_until_end(pid, early)
    if code == _OUT_OF_MEMORY and _out_of_memory(client, name):
        memory = options["HostConfig"].get("Memory")
        limit = "" if memory is None else f" of {memory >> 20} MiB"
        write_to_log(f"the container was ended at its memory limit{limit}")
    return code


def _out_of_memory(client: docker.APIClient, name: str) -> bool:
    try:
        return bool(client.inspect_container(name)["State"]["OOMKilled"])
    except (DockerException, OSError):
        return False  # unknown: the daemon does not answer


def _format_error(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _is_podman(client: docker.APIClient) -> bool:
    parts = client.version().get("Components") or ()
    return any(str(part.get("Name", "")).startswith("Podman") for part in parts)


def remove_container(client: docker.APIClient, name: str) -> None:
    """Stop and remove a container; do nothing if there is none of that name."""
    try:
        client.remove_container(name, force=True, v=True)
    except APIError as error:
        if error.status_code not in (404, 409):  # 409: another process removes it at this moment
            raise


# --- the guard -----------------------------------------------------------------------------------


def _start_guard(url: str, name: str) -> int:
    """Start the guard, a child process that removes the container when the launcher has ended. A
    byte written to the returned descriptor tells it that the container is removed already.
    """
    watched, writer = os.pipe()
    if os.fork():
        os.close(watched)
        return writer
    os.close(writer)
    _ignore_docker_errors(lambda: _run_guard(url, name, watched))
    os._exit(0)


def _run_guard(url: str, name: str, watched: int) -> None:
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in _FORWARDED:  # it ends soon, but not before its work is done
        signal.signal(getattr(signal, number), signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    client = docker.APIClient(base_url=url, version="auto", timeout=_ANSWER_S)
    _ignore_docker_errors(lambda: remove_abandoned_containers(client))
    if os.read(watched, 1) == b"":
        remove_container(client, name)


def _ignore_docker_errors(action: Callable[[], None]) -> None:
    try:
        action()
    except (DockerException, OSError):
        return  # the daemon does not answer: the next launcher's guard tries again


def remove_abandoned_containers(client: docker.APIClient) -> None:
    """Remove containers that earlier launchers left behind, whose processes no longer exist."""
    for container in client.containers(all=True, filters={"label": OWNER}):
        if not _is_alive(container["Labels"].get(OWNER, "")):
            remove_container(client, container["Id"])


def process_identity(pid: int) -> str:
    """Return ``<boot ID>/<PID namespace of this process>/<pid>/<start time>``.

    The start time is ``None`` if the process has ended.
    """
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    return f"{boot}/{os.readlink('/proc/self/ns/pid')}/{pid}/{_read_start_time(pid)}"


def _read_start_time(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def _is_alive(owner: str) -> bool:
    boot, _, rest = owner.partition("/")
    namespace, _, number = rest.partition("/")
    pid = number.partition("/")[0]
    if not pid.isdecimal():
        return False
    here_boot, _, here = process_identity(int(pid)).partition("/")
    if here_boot == boot and not here.startswith(namespace + "/"):
        return True  # unknown here: its guard is in the other namespace
    return f"{here_boot}/{here}" == owner


def _redirect_signals() -> int:
    """Redirect signals to a pipe from now on, and return the pipe's read end."""
    wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    for number in _FORWARDED:
        signal.signal(getattr(signal, number), lambda *_: None)
    return wake


if __name__ == "__main__":
    main(sys.argv[1:])
