"""A Debian 12 that has nothing else, in a folder: packages and wheels are tried in one.

Needs root and debootstrap. How packages of Debian and PyPI are reached is taken from this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OWN_WAY = ("etc/apt/apt.conf.d", "etc/resolv.conf", "etc/hosts", "etc/pip.conf", "etc/ssl/certs", "usr/local/share/ca-certificates")
OWN_VARIABLES = ("PIP_CERT", "PIP_INDEX_URL", "SSL_CERT_FILE", "http_proxy", "https_proxy")
ENTER = r"""
folder=$1 user=$2 script=$3
shift 3
home=$(sed -n "s/^$user:.*:\([^:]*\):[^:]*$/\1/p" "$folder/etc/passwd")
mount -t proc proc "$folder/proc"
mount --rbind /dev "$folder/dev"
mount -t tmpfs tmpfs "$folder/dev/shm"
exec chroot --userspec="$user" "$folder" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME="$home" "$@" bash -euc "$script"
"""


def run(*command: str | Path) -> str:
    """Runs a command in the project's folder; it must succeed. Its output."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3000, check=False)
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout[-20000:]}"
    return done.stdout


class Debian:
    """A system in a folder, with an ordinary user. Whatever a command there has started ends with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @staticmethod
    def bootstrap(folder: Path) -> Debian:
        run("debootstrap", "--variant=minbase", "bookworm", folder)
        for name in OWN_WAY:
            own, there = Path("/") / name, folder / name
            if own.is_dir():
                shutil.copytree(own, there, symlinks=True, dirs_exist_ok=True)
            elif own.exists():
                shutil.copyfile(own, there)
        made = Debian(folder)
        made.do("apt-get -qq update; useradd --create-home user")
        return made

    def copy(self, folder: Path) -> Debian:
        run("cp", "-a", self._folder, folder)
        return Debian(folder)

    def install(self, *packages: str) -> None:
        self.do(f"DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends {' '.join(packages)}")

    def put(self, *files: Path) -> None:
        """Copies files to its /srv."""
        for file in files:
            shutil.copy(file, self._folder / "srv")

    def do(self, script: str, user: str = "root") -> str:
        """Runs a script of bash, in the user's home. Its output."""
        variables = [f"{name}={os.environ[name]}" for name in OWN_VARIABLES if name in os.environ]
        namespace = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
        return run(*namespace, "bash", "-euc", ENTER, "bash", self._folder, user, f"cd; {script}", *variables)

    def remove(self) -> None:
        shutil.rmtree(self._folder)
