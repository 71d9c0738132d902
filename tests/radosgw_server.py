"""radosgw on the loopback address, with a Ceph cluster of its own: one monitor, one OSD in memory. Debian: radosgw, ceph-mon, ceph-osd.

Ends when it is killed, and the cluster with it.
"""

from __future__ import annotations

import argparse
import ctypes
import grp
import os
import pwd
import signal
import socket
import subprocess
import uuid
from pathlib import Path

CONFIGURATION = """\
[global]
fsid = {cluster}
mon host = v2:127.0.0.1:{monitor}
public addr = 127.0.0.1
public network = 127.0.0.0/8
run dir = {folder}
log file = {folder}/$name.log
admin socket =
keyring = {folder}/keyring
mon data = {folder}/mon
mon data avail crit = 1
mon data avail warn = 2
mon max pg per osd = 1000
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 2147483648
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd crush chooseleaf type = 0
[client.rgw]
rgw data = {folder}/rgw
rgw frontends = beast endpoint=127.0.0.1:{port}
"""
OURS = ["--setuser", pwd.getpwuid(os.getuid()).pw_name, "--setgroup", grp.getgrgid(os.getgid()).gr_name]


def end_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Cluster:
    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        for name in ("mon", "osd", "rgw"):
            (folder / name).mkdir(parents=True)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            monitor = listener.getsockname()[1]
        self.cluster = str(uuid.uuid4())
        (folder / "ceph.conf").write_text(CONFIGURATION.format(cluster=self.cluster, monitor=monitor, port=port, folder=folder))
        self.monitor = f"[v2:127.0.0.1:{monitor}]"

    def do(self, program: str, *words: str) -> None:
        subprocess.run([program, "-c", self.folder / "ceph.conf", *words], check=True, timeout=60)

    def start(self, program: str, *words: str) -> None:
        subprocess.Popen([program, "-c", self.folder / "ceph.conf", *words, "-f", *OURS], preexec_fn=end_with_parent)

    def begin(self) -> None:
        keys, osd = str(self.folder / "keyring"), str(uuid.uuid4())
        rights = [word for what in ("mon", "osd", "mgr") for word in ("--cap", what, "allow *")]
        subprocess.run(["ceph-authtool", "--create-keyring", keys, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *"], check=True)
        for who in ("client.admin", "client.rgw", "osd.0"):
            subprocess.run(["ceph-authtool", keys, "--gen-key", "-n", who, *rights], check=True)
        monitors = str(self.folder / "monmap")
        subprocess.run(["monmaptool", "--create", "--fsid", self.cluster, "--addv", "a", self.monitor, monitors], check=True)
        self.do("ceph-mon", "--mkfs", "-i", "a", "--monmap", monitors)
        self.start("ceph-mon", "-i", "a")
        self.do("ceph", "osd", "new", osd, "0")
        self.do("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self.start("ceph-osd", "-i", "0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int, help="of the loopback address")
    parser.add_argument("folder", type=Path, help="gets what the cluster writes; not there yet, or empty")
    parser.add_argument("--access", required=True)
    parser.add_argument("--secret", required=True)
    arguments = parser.parse_args()
    cluster = Cluster(arguments.folder, arguments.port)
    cluster.begin()
    cluster.do("radosgw-admin", "user", "create", "--uid", "test", "--display-name", "test",
               "--access-key", arguments.access, "--secret-key", arguments.secret)  # fmt: skip
    os.execvp("radosgw", ["radosgw", "-c", str(arguments.folder / "ceph.conf"), "-n", "client.rgw", "-f", *OURS])


if __name__ == "__main__":
    main()
