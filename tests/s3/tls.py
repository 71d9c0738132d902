"""TLS in front of a server on loopback: a certificate made on the spot, and the file of the authority that has signed it."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


@dataclass
class Front:
    port: int
    authority: Path
    names: list[str] = field(default_factory=list)  # that clients have asked for


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: str, key: ec.EllipticCurvePrivateKey, issuer: str, signer: ec.EllipticCurvePrivateKey, names: list[x509.GeneralName]
) -> bytes:
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=not names, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM)


def _make_certificates(folder: Path, names: list[str]) -> tuple[Path, Path]:
    """The authority's file, and the server's with its key."""
    of_authority, of_server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority, server = folder / "authority.pem", folder / "server.pem"
    authority.write_bytes(_certificate("authority", of_authority, "authority", of_authority, []))
    known: list[x509.GeneralName] = []
    for name in names:
        try:
            known.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            known.append(x509.DNSName(name))
    key = of_server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    server.write_bytes(_certificate("server", of_server, "authority", of_authority, known) + key)
    return authority, server


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _serve(raw: socket.socket, context: ssl.SSLContext, server_port: int) -> None:
    # A client that does not trust the server goes here.
    with suppress(OSError), raw, context.wrap_socket(raw, server_side=True) as client:
        with socket.create_connection(("127.0.0.1", server_port)) as server:
            back = threading.Thread(target=_pump, args=(server, client))
            back.start()
            _pump(client, server)
            back.join()


@contextmanager
def tls_front(server_port: int, folder: Path, names: list[str]) -> Iterator[Front]:
    """Takes TLS for these names and hands the bytes on to the server, until the block ends."""
    authority, certificate = _make_certificates(folder, names)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        front = Front(listener.getsockname()[1], authority)

        def note(_: ssl.SSLObject, name: str | None, __: ssl.SSLContext) -> None:
            front.names.append(name or "")

        context.sni_callback = note
        serving: list[tuple[threading.Thread, socket.socket]] = []

        def listen() -> None:
            with suppress(OSError):
                while True:
                    raw, _ = listener.accept()
                    # The duplicate ends the connection when the block ends.
                    thread = threading.Thread(target=_serve, args=(raw, context, server_port))
                    serving.append((thread, raw.dup()))
                    thread.start()

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield front
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for one, connection in serving:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                one.join()
                connection.close()
