"""Programs that know nothing of burst buffers, under ``kedge with-buffers``."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import textwrap
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from buffers import BIN, MIB, Buffer
from waiting import until


def run(buffer: Buffer, *words: object, expect: int = 0) -> subprocess.CompletedProcess[bytes]:
    command = [BIN / "kedge", "with-buffers", *map(str, words)]
    done = subprocess.run(command, env=buffer.environment(), capture_output=True, timeout=120)
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def python(buffer: Buffer, text: str, *words: object, expect: int = 0) -> subprocess.CompletedProcess[bytes]:
    return run(buffer, sys.executable, "-c", textwrap.dedent(text), *words, expect=expect)


def test_streams_and_descriptors(buffer: Buffer) -> None:
    with buffer.server():
        done = run(buffer, BIN.parent / "test" / "buffer_stdio", "bb:/fast/dir/file")
        assert b"a burst buffer cannot write elsewhere than at the file's end" in done.stderr
        said = done.stderr.decode().count
        refused = {
            "change a file's permissions": 3,
            "give a file to another user": 5,
            "set a file's times": 8,
            "make links": 7,
            "say a path without links": 2,
            "say how a file system is": 4,
            "read with flags": 1,
            "write with flags": 1,
        }
        assert {what: said(f"a burst buffer cannot {what}") for what in refused} == refused
        assert buffer.get("dir/file.stream") == buffer.get("dir/file.descriptor") == b"left open"
        assert buffer.get("dir/file") == b"parent"
        until(lambda: all(name.startswith("files/") for name in buffer.files()))


def test_programs_of_the_system(buffer: Buffer, content: Path, tmp_path: Path) -> None:
    with buffer.server():
        run(buffer, "cp", content, "bb:/fast/run/copied")
        assert buffer.get("run/copied") == content.read_bytes()
        assert run(buffer, "cat", "bb://fast/run/copied").stdout == content.read_bytes()
        run(buffer, "cp", "bb:/fast/run/copied", "bb:/fast/run/again")
        run(buffer, "cmp", "bb:/fast/run/again", content)
        assert run(buffer, "head", "-c", 5, "bb:/fast/run/again").stdout == content.read_bytes()[:5]
        assert run(buffer, "tail", "-c", 5, "bb:/fast/run/again").stdout == content.read_bytes()[-5:]
        run(buffer, "mv", "bb:/fast/run/again", "bb:/fast/moved")
        run(buffer, "test", "-e", "bb:/fast/run/again", expect=1)
        run(buffer, "rm", "bb:/fast/moved")
        assert run(buffer, "stat", "-c", "%s", "bb:/fast/run/copied").stdout.strip() == str(content.stat().st_size).encode()
        run(buffer, "dd", f"if={content}", "of=bb:/fast/run/dd", "bs=1M", "status=none")
        assert buffer.get("run/dd") == content.read_bytes()
        run(buffer, "sh", "-c", "echo built in > bb:/fast/shell")
        assert buffer.get("shell") == b"built in\n"
        # The shell has opened it, and the program that it starts cannot write there.
        refused = run(buffer, "sh", "-c", "cat /etc/passwd > bb:/fast/child; exit $?", expect=1)
        assert b"Bad file descriptor" in refused.stderr and buffer.get("child") == b""
        assert b"kedge ls does" in run(buffer, "ls", "bb:/fast/run", expect=2).stderr
        assert buffer.files() == ["files/child", "files/run/copied", "files/run/dd", "files/shell"]


def test_python_and_numpy(buffer: Buffer) -> None:
    with buffer.server():
        python(
            buffer,
            """
            import json, os, pickle
            import numpy as np
            field = np.arange(700000.0).reshape(700, 1000)
            np.save("bb:/fast/py/field.npy", field)
            assert (np.load("bb:/fast/py/field.npy") == field).all()
            assert (np.load("bb:/fast/py/field.npy", mmap_mode="r")[5, :9] == field[5, :9]).all()
            with open("bb:/fast/py/state.tmp", "w") as file:
                json.dump({"step": 7}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace("bb:/fast/py/state.tmp", "bb:/fast/py/state")
            assert json.load(open("bb:/fast/py/state")) == {"step": 7}
            assert os.path.getsize("bb:/fast/py/field.npy") > field.nbytes and not os.path.exists("bb:/fast/py/state.tmp")
            try:
                open("bb:/fast/py/state", "r+")
            except OSError as error:
                assert "not supported" in str(error)
            else:
                raise SystemExit("it was opened to be changed")
            """,
        )
        assert sorted(buffer.files()) == ["files/py/field.npy", "files/py/state"]


@pytest.mark.parametrize("end", ["os._exit(0)", "os.kill(os.getpid(), 9)", "os.abort()"])
def test_what_a_program_that_dies_was_writing_does_not_appear(buffer: Buffer, end: str) -> None:
    with buffer.server():
        text = f"import os; file = open('bb:/fast/file', 'wb'); file.write(bytes({20 * MIB})); file.flush(); {end}"
        command = [BIN / "kedge", "with-buffers", sys.executable, "-c", text]
        subprocess.run(command, env=buffer.environment(), timeout=120)
        until(lambda: buffer.files() == [])
        until(lambda: buffer.state()["used_bytes"] == 0)


def test_a_full_buffer_is_an_error_of_the_program(buffer: Buffer) -> None:
    with buffer.server("--capacity", "8MiB"):
        text = "file = open('bb:/fast/file', 'wb')\nfor _ in range(64): file.write(bytes(1 << 20))\nfile.close()"
        done = python(buffer, text, expect=1)
        assert b"No space left on device" in done.stderr and b"remove files" in done.stderr
        until(lambda: buffer.files() == [])


def with_file_limit(buffer: Buffer, bytes_max: int) -> AbstractContextManager[object]:
    """A server whose files may have so many bytes: its kernel says EFBIG."""
    return buffer.server(before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_max, bytes_max)))


@pytest.mark.parametrize("kind", ["descriptor", "file"])
def test_errors_of_the_server_come_with_their_errno(buffer: Buffer, kind: str) -> None:
    """The owner's quota, the capacity, and what the server's kernel says of its disk."""
    text = {
        "descriptor": """
            descriptor = os.open("bb:/fast/file", os.O_WRONLY | os.O_CREAT)
            for _ in range(64):
                os.write(descriptor, bytes(1 << 20))
            os.fsync(descriptor)
        """,
        "file": """
            with open("bb:/fast/file", "wb") as file:
                for _ in range(64):
                    file.write(bytes(1 << 20))
        """,
    }[kind]
    program = (
        "import os\ntry:\n"
        + textwrap.indent(textwrap.dedent(text), "    ")
        + "\nexcept OSError as error:\n    print(error.errno)\nelse:\n    raise SystemExit('no error')"
    )

    def number() -> int:
        return int(python(buffer, program).stdout)

    with buffer.server(quota="8MiB"):
        assert number() == errno.EDQUOT
    with buffer.server("--capacity", "8MiB"):
        assert number() == errno.ENOSPC
    with with_file_limit(buffer, 8 * MIB):
        assert number() == errno.EFBIG


def test_without_a_server_other_files_are_as_ever(buffer: Buffer, content: Path, tmp_path: Path) -> None:
    with buffer.server():
        pass
    (buffer.root / "fast.buffer").unlink()
    run(buffer, "cp", content, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == content.read_bytes()
    done = run(buffer, "cat", "bb:/fast/file", expect=1)
    assert b"no burst buffer called fast" in done.stderr


def test_the_command_says_how_it_is_called(buffer: Buffer) -> None:
    assert b"usage:" in run(buffer, "--help").stdout
    assert b"usage:" in run(buffer, expect=2).stdout
    assert run(buffer, "sh", "-c", "exit 5", expect=5).stdout == b""
    assert os.environ.get("LD_PRELOAD") is None
