"""Files on burst buffers: servers with fast storage on other nodes (``kedge-buffer``).

::

    with BurstBuffer("fast") as buffer:
        with buffer.open("run7/result", "wb") as file:
            np.save(file, field)
        with buffer.open("run7/result") as file:
            field = np.load(file)

What is not given comes from the configuration: ``buffer.folder``, ``buffer.owner``, ``buffer.secret``. Errors are those of
:mod:`kedge.errors`. Methods of one connection may be called from several threads, those of one file from one at a time.
"""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, cast

from kedge import _bb

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, StrPath, WriteableBuffer

__all__ = ["BurstBuffer", "Entry", "Room", "WrittenFile"]


@dataclass(frozen=True)
class Entry:
    """A file; ``modified_ns`` is when it was closed, since 1970, by the server's clock."""

    path: str
    bytes: int
    modified_ns: int


@dataclass(frozen=True)
class Room:
    """In bytes; a bound of 0 is none."""

    own: int  #: that the owner's files take
    quota: int  #: that they may take
    used: int  #: that all files take
    capacity: int  #: that they may take; 0: what the disk has
    disk_free: int


class WrittenFile(io.RawIOBase):
    """A file that is written: there under its name from :meth:`close` on, whole, and not before.

    A ``with`` block that an exception leaves discards it, and so does the garbage collector.
    """

    def __init__(self, file: _bb.File, sync: bool) -> None:
        self._file = file
        self._sync = sync

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        self._check()
        self._file.write(view)
        return view.nbytes

    def tell(self) -> int:
        self._check()
        return self._file.tell()[0]

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.close(self._sync)

    def discard(self) -> None:
        """The file never appears; a former one of its name stays."""
        if not self.closed:
            super().close()
            self._file.discard()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


class _ReadFile(io.RawIOBase):
    def __init__(self, file: _bb.File) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        return self._file.readinto(buffer)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        position, size = self._file.tell()
        target = {os.SEEK_SET: 0, os.SEEK_CUR: position, os.SEEK_END: size}[whence] + offset
        if target < 0:
            raise ValueError(f"a negative position: {target}")
        self._file.seek(min(target, size))
        return self._file.tell()[0]

    def tell(self) -> int:
        return self._file.tell()[0]

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._file.discard()


class BurstBuffer:
    """A connection to one server, in the name of one owner."""

    def __init__(
        self,
        server: str,
        *,
        folder: StrPath | None = None,
        owner: str | None = None,
        secret: StrPath | None = None,
        config_file: StrPath | None = None,
    ) -> None:
        """``secret`` is the path of the file that has it."""
        paths = [None if path is None else os.fspath(path) for path in (folder, secret, config_file)]
        self._connection = _bb.Connection(server, paths[0], owner, paths[1], paths[2])

    def open(self, path: str, mode: str = "rb", *, sync: bool = False) -> BinaryIO:
        """A binary file; ``mode`` is ``"rb"`` or ``"wb"``. With ``sync`` one that is written is durable once it is closed."""
        if mode not in ("rb", "wb"):
            raise ValueError(f'the mode is "rb" or "wb", not {mode!r}')
        file = self._connection.open(path, mode == "wb")
        if mode == "wb":
            return cast(BinaryIO, WrittenFile(file, sync))
        return cast(BinaryIO, io.BufferedReader(_ReadFile(file), 1 << 20))

    def list(self, prefix: str = "") -> Sequence[Entry]:
        """The owner's files whose paths begin with ``prefix``, in the order of their bytes."""
        return [Entry(*entry) for entry in self._connection.list(prefix)]

    def remove(self, path: str) -> None:
        """Who reads the file reads on."""
        self._connection.remove(path)

    def rename(self, old: str, new: str) -> None:
        """In one step; a former file ``new`` goes."""
        self._connection.rename(old, new)

    def room(self) -> Room:
        """What there is, and what is used."""
        return Room(*self._connection.room())

    def close(self) -> None:
        """Files that are open keep their connection."""
        self._connection.disconnect()

    def __enter__(self) -> BurstBuffer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
