"""A real slapd on a loopback port, with a certificate of its own authority and a few people in it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.ports import reserve_ports
from tests.support.requirements import lacking

SLAPD = "/usr/sbin/slapd"
SCHEMAS = Path("/etc/ldap/schema")
SUFFIX = "dc=example,dc=org"
SERVICE_DN = f"cn=service,{SUFFIX}"
SERVICE_PASSWORD = "of the service"
PASSWORD = "correct horse"

_CONF = """\
include {schemas}/core.schema
include {schemas}/cosine.schema
include {schemas}/nis.schema
include {schemas}/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/slapd.pid
TLSCACertificateFile {folder}/ca.pem
TLSCertificateFile {folder}/server.pem
TLSCertificateKeyFile {folder}/server.key
security simple_bind={ssf}
database mdb
suffix "{suffix}"
rootdn "cn=root,{suffix}"
rootpw root
directory {folder}/db
access to attrs=userPassword by anonymous auth by * none
access to dn.subtree="ou=groups,{suffix}" by dn.exact="{service}" read by * none
access to * by dn.exact="{service}" read by self read by anonymous none by * none
"""

_PEOPLE = f"""\
dn: {SUFFIX}
objectClass: dcObject
objectClass: organization
o: Example
dc: example

dn: ou=people,{SUFFIX}
objectClass: organizationalUnit
ou: people

dn: ou=groups,{SUFFIX}
objectClass: organizationalUnit
ou: groups

dn: {SERVICE_DN}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: service
userPassword: {SERVICE_PASSWORD}

dn: cn=vision,ou=groups,{SUFFIX}
objectClass: posixGroup
cn: vision
gidNumber: 2000
memberUid: ada
memberUid: bob

dn: cn=operators,ou=groups,{SUFFIX}
objectClass: groupOfNames
cn: operators
member: uid=ada,ou=people,{SUFFIX}
"""


def _person(number: int, uid: str, name: str) -> str:
    return f"""
dn: uid={uid},ou=people,{SUFFIX}
objectClass: inetOrgPerson
objectClass: posixAccount
uid: {uid}
cn: {name}
sn: {name.split()[-1]}
mail: {uid}@example.org
uidNumber: {3000 + number}
gidNumber: 2000
homeDirectory: /home/{uid}
userPassword: {PASSWORD}
"""


@dataclass(frozen=True)
class Directory:
    """A running LDAP server, with its ports and the CA file of its certificate."""

    port: int
    tls_port: int
    ca_file: Path
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """Stop the server with SIGSTOP: it accepts connections and answers nothing."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue the stopped server."""
        os.kill(self.process.pid, signal.SIGCONT)


@contextmanager
def directory(folder: Path) -> Iterator[Directory]:
    """Run an LDAP server in ``folder`` during the block; it accepts passwords over TLS only."""
    if not Path(SLAPD).exists():
        lacking("ldap", f"there is no {SLAPD} (Debian's package slapd)")
    _certificates(folder)
    (folder / "db").mkdir()
    conf = folder / "slapd.conf"
    conf.write_text(
        _CONF.format(schemas=SCHEMAS, folder=folder, suffix=SUFFIX, service=SERVICE_DN, ssf=128)
    )
    people = "".join(
        _person(number, uid, name)
        for number, (uid, name) in enumerate(
            [("ada", "Ada Lovelace"), ("bob", "Bob Babbage"), ("eve", "Eve Nobody")]
        )
    )
    ldif = folder / "people.ldif"
    ldif.write_text(_PEOPLE + people)
    subprocess.run(
        [SLAPD, "-T", "add", "-f", str(conf), "-l", str(ldif)], check=True, capture_output=True
    )
    port = reserve_ports(2)
    tls_port = port + 1
    urls = f"ldap://127.0.0.1:{port}/ ldaps://127.0.0.1:{tls_port}/"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [SLAPD, "-d", "0", "-f", str(conf), "-h", urls], stdout=log, stderr=log
        )
    try:
        for each in (port, tls_port):
            _wait_for(each, process, folder / "log")
        yield Directory(port, tls_port, folder / "ca.pem", process)
    finally:
        os.kill(process.pid, signal.SIGCONT)
        process.terminate()
        process.wait(10)


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        else:
            return


def _certificates(folder: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        lacking("ldap", "there is no openssl")

    def run(*words: str) -> None:
        subprocess.run([openssl, *words], check=True, capture_output=True, cwd=folder)

    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run("req", "-x509", *new_key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Tests")
    run("req", *new_key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=127.0.0.1")
    run(
        *("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
        *("-CAcreateserial", "-out", "server.pem", "-days", "2", "-extfile", "names"),
    )
