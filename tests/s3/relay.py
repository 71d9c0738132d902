"""A relay before a server, that counts what it sends, and may damage a byte of it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

PIECE_BYTES = 1 << 16


class Relay:
    """Hands on what comes. ``sent`` is what the server has said."""

    def __init__(self, endpoint: str) -> None:
        address = urlsplit(endpoint)
        self._server = (address.hostname, address.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self.sent = 0
        # Once so much was said, one byte is another.
        self.damage_at: int | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            threading.Thread(target=self._hand_on, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._hand_on, args=(server, client, True), daemon=True).start()

    def _hand_on(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(PIECE_BYTES):
                target.sendall(self._noted(piece) if is_answer else piece)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _noted(self, piece: bytes) -> bytes:
        with self._lock:
            self.sent += len(piece)
            # In the middle of a body.
            due = self.damage_at is not None and self.sent >= self.damage_at
            if not due or len(piece) < PIECE_BYTES // 2 or b"HTTP/1" in piece:
                return piece
            self.damage_at = None
        middle = len(piece) // 2
        return piece[:middle] + bytes([piece[middle] ^ 1]) + piece[middle + 1 :]


@contextmanager
def relay(endpoint: str) -> Iterator[Relay]:
    one = Relay(endpoint)
    try:
        yield one
    finally:
        one.close()
