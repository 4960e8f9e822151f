"""The client and the command line over real sockets, in processes of their own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from aitne.cli.main import main
from aitne.client import Client, credentials
from aitne.client.errors import CertificateInvalid, Unreachable
from aitne.client.http_transport import ASK_FROM, ConnectionFailed, HttpTransport
from tests.support import realtime
from tests.support.certificates import Authority
from tests.support.fake_api import JOB_ID, Answer, FakeApi, job, page, problem, serve

pytestmark = realtime.PROCESSES

Aitne = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def url(api: FakeApi) -> Iterator[str]:
    with serve(api) as address:
        yield address


@pytest.fixture
def env(url: str, tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AITNE_")}
    return {
        **kept,
        "AITNE_URL": url,
        "AITNE_TOKEN": "secret",
        "XDG_CONFIG_HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
    }


@pytest.fixture
def aitne(env: dict[str, str]) -> Aitne:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "from aitne.cli.main import run; run()", *words],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def raw_server(answer: bytes) -> tuple[str, threading.Thread]:
    """Start a server that sends these bytes to the first request and closes the connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve_once() -> None:
        with listener:
            line, _ = listener.accept()
            with line:
                while b"\r\n\r\n" not in line.recv(65_536):
                    pass
                line.sendall(answer)

    thread = threading.Thread(target=serve_once)
    thread.start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}", thread


def fetch(answer: bytes) -> tuple[int, bytes]:
    url, thread = raw_server(answer)
    try:
        reply = HttpTransport(url).send("GET", "/", headers={}, body=None, timeout_s=5)
        try:
            return reply.status, b"".join(reply.chunks())
        finally:
            reply.close()
    finally:
        thread.join()


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcmore", (200, b"abc")),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", (200, b"until the end")),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"
            b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n",
            (200, b"abcde"),
        ),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
        (b"HTTP/1.1 500\r\ncontent-length:0\r\n\r\n", (500, b"")),
    ],
)
def test_answers_as_they_come(answer: bytes, read: tuple[int, bytes]) -> None:
    assert fetch(answer) == read


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "without an answer"),
        (b"SSH-2.0-OpenSSH\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 OK\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 9 + b"x" * 70_000, "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "ended early"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "ended early"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "ended early"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc", "ended early"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "ended early"),
    ],
)
def test_a_broken_answer_is_never_taken_for_a_whole_one(answer: bytes, reason: str) -> None:
    with pytest.raises(ConnectionFailed, match=reason):
        fetch(answer)


def test_silence_ends_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        transport = HttpTransport(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(ConnectionFailed, match="no answer in time") as caught:
            transport.send("GET", "/", headers={}, body=None, timeout_s=0.1)
    assert caught.value.sent


LONG = b"x" * (ASK_FROM + 1)


def exchange(begin: Sequence[bytes], end: bytes) -> tuple[int, bytes, bytes]:
    """Send a long body to a server that says ``begin`` before it has come and ``end`` after it:
    the status and body of the answer, and what came after the head."""
    received = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve_once() -> None:
            line, _ = listener.accept()
            with line:
                while b"\r\n\r\n" not in received:
                    received.extend(line.recv(65_536))
                for part in begin:
                    line.sendall(part)
                while end and len(received.partition(b"\r\n\r\n")[2]) < len(LONG):
                    received.extend(line.recv(65_536))
                line.sendall(end)

        thread = threading.Thread(target=serve_once)
        thread.start()
        transport = HttpTransport(f"http://127.0.0.1:{listener.getsockname()[1]}")
        reply = transport.send("PUT", "/", headers={}, body=LONG, timeout_s=5)
        answer = b"".join(reply.chunks())
        reply.close()
        thread.join()
    head, _, rest = bytes(received).partition(b"\r\n\r\n")
    assert b"Expect: 100-continue" in head
    return reply.status, answer, rest


@pytest.mark.parametrize("begin", [[b"HTTP/1.1 100 Continue\r\n\r\n"], []], ids=["asked", "not"])
def test_a_long_body_is_sent_when_it_is_wanted(
    begin: Sequence[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not begin:
        monkeypatch.setattr("aitne.client.http_transport.CONTINUE_S", 0.05)
    done = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok"
    status, answer, sent = exchange(begin, done)
    assert (status, answer) == (201, b"ok")
    assert sent == LONG


def test_a_long_body_that_is_refused_is_not_sent() -> None:
    refusal = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 5\r\n\r\nlater"
    assert exchange([refusal], b"") == (429, b"later", b"")


@pytest.mark.parametrize("url", ["ftp://a", "http://", "a:b", "http://a:b", "http://u@h", "x"])
def test_invalid_platform_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="write http://host:port"):
        HttpTransport(url)


def test_token_with_invalid_characters_is_refused() -> None:
    transport = HttpTransport("http://127.0.0.1:1")
    for token in ("a\r\nX: y", "a\nb", "ä"):
        with pytest.raises(ValueError, match="HTTP cannot carry"):
            transport.send("GET", "/", headers={"Authorization": token}, body=None, timeout_s=1)


def test_the_sdk_over_a_socket(api: FakeApi, url: str) -> None:
    api.on("POST", "/jobs", job("PENDING_SUBMIT", name='q"\n🚀'))
    with Client(url=url, token="secret") as client:
        found = client.jobs.create({"name": 'q"\n🚀', "commands": ["true"]})
    assert found.name == 'q"\n🚀'
    assert api.requests[0].json["name"] == 'q"\n🚀'
    assert api.requests[0].headers["authorization"] == "Bearer secret"


def test_a_log_that_breaks_off_is_taken_up_again(api: FakeApi, url: str) -> None:
    def headers(offset: int) -> dict[str, str]:
        return {"X-Log-Offset": str(offset), "X-Log-Size": "4"}

    api.on(
        "GET",
        f"/jobs/{JOB_ID}/logs",
        Answer(200, [b"ab"], headers(0), cut=True),
        Answer(200, [b"cd"], headers(2)),
        Answer(200, [], headers(4)),
    )
    api.on("GET", f"/jobs/{JOB_ID}", job(), job(), job("COMPLETED"))
    client = Client(url=url, token="secret")
    assert b"".join(client.jobs.follow_logs(JOB_ID)) == b"abcd"


def test_closed_platform_port_is_reported_as_unreachable(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    client = Client(url=address, token="secret")
    client._session.sleep = lambda seconds: None
    client._session.clock = iter(range(1_000)).__next__
    with pytest.raises(Unreachable, match="Connection refused"):
        client.me()


def test_a_program_of_its_own(api: FakeApi, aitne: Aitne) -> None:
    api.on("GET", "/jobs", page(job()), page())
    done = aitne("ps")
    assert (done.returncode, done.stderr) == (0, "")
    assert "digits" in done.stdout
    api.on("GET", "/jobs", problem(403, "not_allowed", "The token may not read."))
    done = aitne("--json", "ps")
    assert (done.returncode, done.stderr) == (3, "aitne: The token may not read.\n")


def test_a_reader_that_has_seen_enough_is_no_error(api: FakeApi, env: dict[str, str]) -> None:
    log = Answer(200, [b"line\n" * 10_000] * 20, {"X-Log-Offset": "0", "X-Log-Size": "1000000"})
    api.on("GET", f"/jobs/{JOB_ID}", job("COMPLETED"))
    api.on("GET", f"/jobs/{JOB_ID}/logs", log)
    aitne = subprocess.Popen(
        [sys.executable, "-c", "from aitne.cli.main import run; run()", "logs", JOB_ID],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert aitne.stdout is not None
    assert aitne.stdout.readline() == b"line\n"
    aitne.stdout.close()
    assert aitne.stderr is not None
    assert aitne.stderr.read() == b""
    aitne.stderr.close()
    assert aitne.wait(10) == 1


def test_the_short_way_loads_no_parser(env: dict[str, str], api: FakeApi) -> None:
    api.on("GET", "/jobs", page(job()), page())
    check = (
        "import sys; from aitne.cli.main import main; main(['ps']);"
        "heavy = {'typer', 'rich', 'pydantic', 'yaml', 'http.client', 'dataclasses', 'typing'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], env=env, capture_output=True, text=True, check=False
    )
    assert done.stderr == "[]\n"


def test_certificate_is_named_with_its_remedy_until_login_has_ca(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    authority = Authority(tmp_path)
    api = FakeApi()
    api.on("GET", "/me", {"user": {"name": "ada"}, "platform": {"title": "Aitne"}})
    with serve(api, certificate=authority.issue("server", "127.0.0.1")) as url:
        with pytest.raises(CertificateInvalid) as untrusted:
            Client(url, "token").me()
        assert "self-signed" in untrusted.value.message or "local issuer" in untrusted.value.message
        assert "--ca-file" in untrusted.value.message
        line = ["login", url, "--token", "token", "--ca-file"]
        assert main([*line, str(tmp_path / "missing.pem")]) == 2
        assert "missing.pem cannot be used" in capsys.readouterr().err
        assert main([*line, str(authority.path)]) == 0
        assert Client(url).me().user.name == "ada"
        assert main([*line[:-1]]) == 0  # a later login keeps the CA
        assert credentials.find_ca_file(url) == str(authority.path)
    with serve(api, certificate=authority.issue("other", "localhost")) as url:
        credentials.store_token(url, "token", "ada", ca_file=str(authority.path))
        with pytest.raises(CertificateInvalid, match="Use the name that the certificate is for"):
            Client(url).me()
