"""nginx and Caddy with the files of deploy/, on this machine's ports: only addresses, names and certificates differ."""

import datetime as dt
import os
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.ports import free_port

DEPLOY = Path(__file__).parents[2] / "deploy"
UP_WITHIN_S = 60.0
_NGINX = """
daemon off;
error_log stderr warn;
pid {place}/nginx.pid;
events {{}}
http {{
    access_log off;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    include {place}/jobfarm.conf;
}}
"""


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where it listens: with TLS, and without (nginx alone)."""

    port: int
    plain_port: int | None = None

    @property
    def url(self) -> str:
        """With TLS."""
        return f"https://127.0.0.1:{self.port}"


@contextmanager
def nginx(place: Path, *, nodes: tuple[int, int]) -> Iterator[Proxy]:
    """nginx before the web nodes at these ports."""
    proxy = Proxy(free_port(), free_port())
    _certificate(place)
    text = (DEPLOY / "nginx" / "jobfarm.conf").read_text()
    for theirs, ours in {
        "127.0.0.1:8000": f"127.0.0.1:{nodes[0]}",
        "127.0.0.1:8001": f"127.0.0.1:{nodes[1]}",
        "[::]:443": f"[::1]:{proxy.port}",
        "[::]:80": f"[::1]:{proxy.plain_port}",
        "listen 443": f"listen 127.0.0.1:{proxy.port}",
        "listen 80": f"listen 127.0.0.1:{proxy.plain_port}",
        "/etc/ssl/farm.example.org": str(place),
        "farm.example.org": "127.0.0.1",
    }.items():
        assert theirs in text, theirs
        text = text.replace(theirs, ours)
    (place / "jobfarm.conf").write_text(text)
    (place / "nginx.conf").write_text(_NGINX.format(place=place))
    command = [_program("nginx"), "-p", str(place), "-c", str(place / "nginx.conf"), "-e", "stderr"]
    with _running(command, place / "nginx.log", {}, proxy.port):
        yield proxy


@contextmanager
def caddy(place: Path, *, nodes: tuple[int, int]) -> Iterator[Proxy]:
    """Caddy before the web nodes at these ports, with a certificate of its own authority."""
    proxy = Proxy(free_port())
    text = (DEPLOY / "caddy" / "Caddyfile").read_text()
    for theirs, ours in {"web1:8000": f"127.0.0.1:{nodes[0]}", "web2:8000": f"127.0.0.1:{nodes[1]}"}.items():
        assert theirs in text, theirs
        text = text.replace(theirs, ours)
    options = "{\n\tadmin off\n\tskip_install_trust\n\tauto_https disable_redirects\n}\n"
    (place / "Caddyfile").write_text(options + text)
    environment = {"FARM_ADDRESS": f"127.0.0.1:{proxy.port}", "HOME": str(place), "XDG_DATA_HOME": str(place)}
    command = [_program("caddy"), "run", "--config", str(place / "Caddyfile")]
    with _running(command, place / "caddy.log", environment, proxy.port):
        yield proxy


def trusting() -> ssl.SSLContext:
    """TLS with whoever answers: the certificates are of this test."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def _running(command: list[str], log: Path, environment: Mapping[str, str], port: int) -> Iterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        _wait_until_up(process, log, port)
        yield
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_until_up(process: subprocess.Popen[bytes], log: Path, port: int) -> None:
    end = time.monotonic() + UP_WITHIN_S
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2) as plain:
                trusting().wrap_socket(plain).close()
                return
        except OSError:
            time.sleep(0.05)


def _program(name: str) -> str:
    program = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    assert program, f"the tests need {name} (scripts/test-tools)"
    return program


def _certificate(place: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    (place / "fullchain.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (place / "privkey.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
