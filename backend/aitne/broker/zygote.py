"""Zygote: the process from which the users' helpers are forked.

It is forked from the broker before the broker has read any secret, and keeps root's rights only to
fork children: every child permanently becomes one account and then accesses that account's files.
Helpers are forked and not started as separate programs because ordinary users cannot read root's
Python installation.
"""

from __future__ import annotations

import base64
import ctypes
import json
import logging
import os
import resource
import signal
import socket
import struct
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from aitne.adapters import ended_job_folders, job_files, own_account_files
from aitne.adapters.path_facts import TimeoutExecutor, read_areas, read_paths
from aitne.core.broker.account_file_verbs import (
    FileArgs,
    ListFolderArgs,
    ReadPartArgs,
    ReadPartResult,
)
from aitne.core.broker.error_conversion import error_to_wire
from aitne.core.broker.outside_job_verbs import OutsideLogArgs
from aitne.core.broker.protocol import (
    MAX_READ_BYTES,
    CreateArgs,
    FenceResult,
    JobLocationArgs,
    OutcomeResult,
    ReadFileArgs,
    ReadFileResult,
    ReadLogArgs,
    ReadLogResult,
    TaskArgs,
    TidyResult,
)
from aitne.core.broker.storage_area_verbs import AreasArgs, AreasResult, PathsArgs, PathsResult
from aitne.core.broker.verb_base_models import EmptyResult
from aitne.core.errors import AitneError, InvalidInput, Unavailable
from aitne.core.ports.job_files import LogChunk
from aitne.core.ports.storage_system import Storage
from aitne.local_system.privilege_drop import become_account

_LOG = logging.getLogger("aitne.broker")
LENGTH = struct.Struct(">I")
MAX_FRAME_BYTES = 64 << 20
_MAX_ORDER_BYTES = 1 << 20
# https://man7.org/linux/man-pages/man2/prctl.2.html
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


class Zygote:
    """Client of the zygote, a small process of root that is forked at the broker's start and forks
    the per-user helpers.

    Create it before any thread starts and before any secret is read, because helpers inherit its
    memory.
    """

    def __init__(self, storages: Mapping[str, Storage]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                ours.close()
                _serve_orders(theirs, parent, _Work(storages))
            except Exception:  # noqa: BLE001 - the process reports the error and ends
                _LOG.exception("the process that helpers are forked from failed")
            finally:
                os._exit(1)
        theirs.close()
        ours.settimeout(10.0)
        self._orders = ours
        self.broken = False
        """True if the zygote has ended or its answers no longer match the requests.

        The broker must then be restarted.
        """

    def fork_helper(self, uid: int, gid: int, groups: tuple[int, ...]) -> tuple[socket.socket, int]:
        """Fork a helper that runs under this account; return the connection to it and its PID.

        Must not be called by two threads at once.

        Raises:
            Unavailable: the zygote has ended, or could not fork.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            order = json.dumps({"uid": uid, "gid": gid, "groups": groups}).encode()
            socket.send_fds(self._orders, [order], [theirs.fileno()])
            answer = self._orders.recv(_MAX_ORDER_BYTES)
            pid = int(json.loads(answer)["pid"])
        except (OSError, ValueError, KeyError) as error:
            ours.close()
            self.broken = True
            raise Unavailable(
                f"No process could be started for uid {uid}: {error or 'the zygote is gone'}."
            ) from error
        finally:
            theirs.close()
        return ours, pid

    def close(self) -> None:
        """Close the connection, which ends the zygote. Running helpers end when their own
        connections are closed.
        """
        self._orders.close()
        os.waitpid(self.pid, 0)


class _Work:
    """Execution of verbs in a per-user helper, with the rights of its account."""

    def __init__(self, storages: Mapping[str, Storage]) -> None:
        self._storages = storages
        self._patience = TimeoutExecutor()

    def execute_verb(self, verb: str, args: dict[str, Any]) -> BaseModel:
        """Execute the verb and return its result."""
        if verb == "areas":
            areas = AreasArgs.model_validate(args)
            facts = read_areas(self._patience, self._storages, areas.areas, areas.account)
            return AreasResult(areas=facts)
        if verb == "paths":
            paths = PathsArgs.model_validate(args)
            return PathsResult(paths=read_paths(self._patience, paths.paths))
        if verb in ("look_at_file", "list_folder", "read_part"):
            return _execute_account_file_verb(verb, args)
        return _execute_job_file_verb(verb, args)


def _serve_orders(orders: socket.socket, parent: int, work: _Work) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends with the broker
    _call_prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    _redirect_to_null(0, 1)
    _close_other_descriptors([0, 1, 2, orders.fileno()])
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(orders, _MAX_ORDER_BYTES, 1)
        except OSError:
            return
        if not data:
            return
        order = json.loads(data)
        pid = os.fork()
        if pid == 0:
            try:
                orders.close()
                _become_account(order, descriptors[0])
                _serve_requests(socket.socket(fileno=descriptors[0]), work)
            finally:
                os._exit(1)
        for descriptor in descriptors:
            os.close(descriptor)
        orders.send(json.dumps({"pid": pid}).encode())


def _become_account(order: dict[str, Any], connection: int) -> None:
    """Change this process permanently to the account in ``order``."""
    _redirect_to_null(2)
    _close_other_descriptors([0, 1, 2, connection])
    signal.signal(
        signal.SIGCHLD, signal.SIG_DFL
    )  # exit codes of a storage system's tools are needed
    become_account(int(order["uid"]), int(order["gid"]), [int(group) for group in order["groups"]])
    _call_prctl(_PR_SET_DUMPABLE, 0)  # its user must not read remains of root's memory
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    os.chdir("/")


def _serve_requests(connection: socket.socket, work: _Work) -> None:
    """Handle requests one at a time until the broker closes the connection."""
    while True:
        head = _receive_exactly(connection, LENGTH.size)
        if head is None:
            return
        (size,) = LENGTH.unpack(head)
        body = _receive_exactly(connection, size) if size <= MAX_FRAME_BYTES else None
        if body is None:
            return
        answer = _answer_request(body, work)
        connection.sendall(LENGTH.pack(len(answer)) + answer)


def _answer_request(body: bytes, work: _Work) -> bytes:
    try:
        ask = json.loads(body)
        return (
            b'{"ok":'
            + work.execute_verb(ask["verb"], ask["args"]).model_dump_json().encode()
            + b"}"
        )
    except AitneError as error:
        return json.dumps({"error": error_to_wire(error)}).encode()
    except ValidationError as error:
        return json.dumps({"error": error_to_wire(InvalidInput(str(error)))}).encode()


def _receive_exactly(connection: socket.socket, size: int) -> bytes | None:
    """Return exactly ``size`` bytes from the connection; None if the broker has closed it."""
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 1 << 20))
        if not part:
            return None
        data += part
    return bytes(data)


def _redirect_to_null(*descriptors: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(null, descriptor)
    os.close(null)


def _close_other_descriptors(descriptors: list[int]) -> None:
    """Close all descriptors except these, such as the sockets of peers and the file of the audit
    log.
    """
    low = 0
    for keep in sorted(descriptors):
        if low < keep:  # CPython takes an empty range from 0 for all
            os.closerange(low, keep)
        low = keep + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _call_prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    numbers = [ctypes.c_ulong(argument) for argument in (value, 0, 0, 0)]
    if libc.prctl(option, *numbers) != 0:
        raise OSError(ctypes.get_errno(), f"prctl {option}")


def _execute_job_file_verb(verb: str, args: dict[str, Any]) -> BaseModel:
    if verb == "create":
        create = CreateArgs.model_validate(args)
        job_files.create_attempt_folder(create.place, create.files)
        return EmptyResult()
    if verb == "read_log":
        read = ReadLogArgs.model_validate(args)
        limit = min(read.limit, MAX_READ_BYTES)
        return _to_read_result(
            job_files.read_log(read.place, read.task, offset=read.offset, limit=limit)
        )
    if verb == "outside_log":
        outside = OutsideLogArgs.model_validate(args)
        limit = min(outside.limit, MAX_READ_BYTES)
        return _to_read_result(
            job_files.read_outside_log(outside.log.path, offset=outside.offset, limit=limit)
        )
    if verb == "read_file":
        asked = ReadFileArgs.model_validate(args)
        limit = min(asked.limit, MAX_READ_BYTES)
        chunk = job_files.read_file(asked.place, asked.name, offset=asked.offset, limit=limit)
        return ReadFileResult(part=None if chunk is None else _to_read_result(chunk))
    if verb in ("tidy", "remove"):
        place = JobLocationArgs.model_validate(args).place
        if verb == "remove":
            return ended_job_folders.remove_job_folder(place)
        return TidyResult(size=ended_job_folders.remove_unneeded_files(place))
    task = TaskArgs.model_validate(args)
    if verb == "fence":
        return FenceResult(fence=job_files.read_fence(task.place, task.task))
    if verb == "close_fence":
        return FenceResult(fence=job_files.close_fence(task.place, task.task))
    if verb == "outcome":
        return OutcomeResult(outcome=job_files.read_outcome(task.place, task.task))
    raise InvalidInput(f"A helper has no verb {verb!r}.")


def _execute_account_file_verb(verb: str, args: dict[str, Any]) -> BaseModel:
    if verb == "look_at_file":
        look = FileArgs.model_validate(args)
        return own_account_files.get_entry(look.root.folder, look.path)
    if verb == "list_folder":
        of = ListFolderArgs.model_validate(args)
        return own_account_files.list_folder(
            of.root.folder, of.path, after=of.after, limit=of.limit
        )
    part = ReadPartArgs.model_validate(args)
    data = own_account_files.read_part(
        part.root.folder,
        part.path,
        etag=part.etag,
        offset=part.offset,
        limit=min(part.limit, MAX_READ_BYTES),
    )
    return ReadPartResult(data=base64.b64encode(data))


def _to_read_result(chunk: LogChunk) -> ReadLogResult:
    data = base64.b64encode(chunk.data)
    return ReadLogResult(data=data, offset=chunk.offset, size=chunk.size)
