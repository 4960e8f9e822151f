"""Program of the test jobs, which tells facts about its node. It is sent to the node as text: standard library only, any
Python from 3.9 on.

Its argument is a JSON object: ``urls`` to reach, ``time_url`` whose server has the reference time,
and ``apptainer``, the program. It prints ``AITNE-NODE`` and a JSON object, and then waits for one
connection from the portal's machine.
"""

from __future__ import annotations

import ctypes
import email.utils
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

MARK = "AITNE-NODE"
BANNER = b"aitne-doctor\n"
WITHIN_S = 5
LISTEN_S = 20


def count_gpus() -> int | str:
    """Return the number of GPUs that NVML sees, or the reason why it sees none, as text."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return "the driver's library libnvidia-ml.so.1 is missing"
    status = nvml.nvmlInit_v2()
    if status:
        return f"the driver does not answer (NVML error {status})"
    count = ctypes.c_uint()
    status = nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    return f"NVML error {status}" if status else count.value


def check_link_atomicity(folder: str) -> str:
    """Return ``atomic`` if a hard link can be made once only, otherwise the reason."""
    source = os.path.join(folder, f".doctor-{os.getpid()}")
    target = source + ".link"
    try:
        with open(source, "w") as file:
            file.write("x")
        os.link(source, target)
        try:
            os.link(source, target)
        except FileExistsError:
            return "atomic" if os.stat(source).st_nlink == 2 else "the link is not counted"
        return "a second link replaced the first"
    except OSError as error:
        return str(error)
    finally:
        for path in (source, target):
            with suppress(OSError):
                os.unlink(path)


def read_program_version(program: str) -> str | None:
    """Return what a program says about its version; None if it does not run."""
    path = shutil.which(program)
    if path is None:
        return None
    try:
        said = subprocess.run(
            [path, "--version"], capture_output=True, timeout=WITHIN_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return said.stdout.decode("utf-8", "replace").strip() if said.returncode == 0 else None


def fetch_server_time(url: str) -> float | None:
    """Return the server's Unix time of an answer of ``url``, None without one. Raises ``OSError``."""
    # The certificate is checked elsewhere: this is about the way to the server, and its clock.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        date = opener.open(url, timeout=WITHIN_S).headers.get("Date")
    except urllib.error.HTTPError as error:
        date = error.headers.get("Date")
    return None if date is None else email.utils.parsedate_to_datetime(date).timestamp()


def main(wanted: dict[str, Any]) -> None:
    """Print what is seen here, then wait for one connection."""
    unreachable, skew = [], None
    for url in wanted["urls"]:
        try:
            there = fetch_server_time(url)
            if there is not None and url == wanted["time_url"]:
                skew = round(time.time() - there, 1)
        except (OSError, ValueError) as error:
            unreachable.append(f"{url}: {getattr(error, 'reason', error)}")
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.bind(("", 0))
    listener.listen(1)
    listener.settimeout(LISTEN_S)
    seen = {
        "host": socket.gethostname(),
        "python": sys.version.split()[0],
        "port": listener.getsockname()[1],
        "unreachable": unreachable,
        "skew_s": skew,
        "link": check_link_atomicity(os.environ.get("AITNE_JOB_DIR") or os.getcwd()),
        "gpus": count_gpus(),
        "apptainer": read_program_version(wanted["apptainer"]),
    }
    print(MARK, json.dumps(seen), flush=True)  # noqa: T201 - the job's log
    try:
        connection, _ = listener.accept()
        connection.sendall(BANNER)
        connection.close()
    except OSError:
        print("no connection from the portal's machine", flush=True)  # noqa: T201


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
