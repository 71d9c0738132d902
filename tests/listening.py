"""listening.py FILE COMMAND...: runs the command beside somebody who listens to the loopback of this network namespace, and writes what TCP
carries there to FILE: the payloads of 1000 bytes and more, from whatever connection. What a busy machine sends again is there once."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
from pathlib import Path

PAYLOAD_BYTES_MIN = 1000
EVERY_PROTOCOL = 3
SO_RCVBUFFORCE = 33
WAITING_BYTES_MAX = 256 << 20
OUTGOING = 4  # on the loopback each frame is seen twice


def payload(frame: bytes) -> tuple[bytes, bytes]:
    """Of a TCP segment over IPv4, and which one it is: addresses, ports and sequence number; of other frames nothing."""
    packet = frame[14:]
    if frame[12:14] != b"\x08\x00" or len(packet) < 40 or packet[9] != socket.IPPROTO_TCP:
        return b"", b""
    segment = packet[4 * (packet[0] & 15) : int.from_bytes(packet[2:4], "big") or None]
    return packet[12:20] + segment[:8], segment[4 * (segment[12] >> 4) :]


def listen(wire: socket.socket, has_ended: threading.Event, found: bytearray) -> None:
    heard: set[bytes] = set()
    while not has_ended.is_set():
        try:
            frame, source = wire.recvfrom(1 << 17)
        except TimeoutError:
            continue
        which, data = payload(frame)
        if source[2] != OUTGOING and len(data) >= PAYLOAD_BYTES_MIN and which not in heard:
            heard.add(which)
            found += data


def main() -> int:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    found = bytearray()
    has_ended = threading.Event()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL)) as wire:
        wire.bind(("lo", 0))
        wire.settimeout(0.1)
        # What the listener has no time for waits: as much as may, where this user may say so.
        with contextlib.suppress(PermissionError):
            wire.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, WAITING_BYTES_MAX)
        listener = threading.Thread(target=listen, args=(wire, has_ended, found))
        listener.start()
        try:
            code = subprocess.run(sys.argv[2:]).returncode
        finally:
            has_ended.set()
            listener.join()
    Path(sys.argv[1]).write_bytes(found)
    return code


if __name__ == "__main__":
    sys.exit(main())
