"""Run a command and report its remaining processes: ``keeper.py RESULT COMMAND...``.

As the supervisor of a job does, it adopts every process that loses its parent. RESULT gets the number of
the command's process, and in the end its exit code and who is left.
"""

import ctypes
import json
import os
import subprocess
import sys
import time

_SUBREAPER = 36
_PATIENCE_S = 5.0


def main(result: str, *command: str) -> None:
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)
    process = subprocess.Popen(command)
    write(result + ".pid", str(process.pid))
    while True:
        pid, status = os.wait()
        if pid == process.pid:
            break
    give_up = time.monotonic() + _PATIENCE_S
    while (left := children()) and time.monotonic() < give_up:
        time.sleep(0.02)
    code = os.waitstatus_to_exitcode(status)
    write(result, json.dumps({"code": code if code >= 0 else 128 - code, "left": left}))


def children() -> list[str]:
    """Return the command lines of the children that still run; collect those that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return []
    found = []
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        for pid in file.read().split():
            with open(f"/proc/{pid}/cmdline", "rb") as line:
                found.append(line.read().replace(b"\0", b" ").decode(errors="replace"))
    return found


def write(path: str, text: str) -> None:
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


main(*sys.argv[1:])
