"""HTTPS in front of a port that speaks HTTP, with a certificate of its own."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import shutil
import ssl
import subprocess
import threading
from pathlib import Path

from tests.support.requirements import lacking


class TlsFront:
    """Hands bytes on, in a thread. ``spki`` is the digest by which Chromium trusts the certificate."""

    def __init__(self, folder: Path, names: list[str], port: int, behind: int) -> None:
        self._port = port
        self._behind = behind
        self._certificate, self._key = folder / "certificate.pem", folder / "key.pem"
        self.spki = self._certify(names)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> TlsFront:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._certificate, self._key)
        serving = asyncio.start_server(self._pass_on, "127.0.0.1", self._port, ssl=context)
        self._server = self._loop.run_until_complete(serving)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
            await asyncio.wait({task})

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = await asyncio.open_connection("127.0.0.1", self._behind)
        try:
            await asyncio.gather(_copy(reader, behind[1]), _copy(behind[0], writer))
        finally:
            for each in (writer, behind[1]):
                each.transport.abort()

    def _certify(self, names: list[str]) -> str:
        openssl = shutil.which("openssl")
        if openssl is None:
            lacking("browser", "there is no openssl")
        request = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
        request += ["-subj", f"/CN={names[0]}", "-addext"]
        request += [f"subjectAltName={','.join(f'DNS:{name}' for name in names)}"]
        request += ["-keyout", str(self._key), "-out", str(self._certificate)]
        subprocess.run(request, check=True, capture_output=True)
        public = [openssl, "pkey", "-in", str(self._key), "-pubout", "-outform", "DER"]
        der = subprocess.run(public, check=True, capture_output=True).stdout
        return base64.b64encode(hashlib.sha256(der).digest()).decode()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return
    finally:
        writer.close()
