"""Exceptions of Kedge: one class a kind of failure, all of them subclasses of :class:`Error`."""

from __future__ import annotations

__all__ = [
    "BusyError",
    "CorruptError",
    "Error",
    "IncompleteError",
    "InvalidArgumentError",
    "LostError",
    "MismatchError",
    "NotFoundError",
    "PermissionDeniedError",
    "SpaceError",
    "StorageError",
    "TimeoutExpiredError",
    "UnavailableError",
    "UnsupportedError",
    "from_status",
]


class Error(Exception):
    """A failed call. ``str()`` names what was expected, what was found and what to do; ``status`` is the C API's code."""

    errno: int | None = None  #: of the disk or machine where it happened, where that is known

    def __init__(self, message: str, status: int = 0, errno: int = 0) -> None:
        super().__init__(message)
        self.status = status
        if errno:
            self.errno = errno


class InvalidArgumentError(Error, ValueError):
    """The caller broke a contract; nothing was changed."""


class NotFoundError(Error, LookupError):
    """No such version, region or file."""


class CorruptError(Error):
    """Bytes that fail their checksum, and no good copy left."""


class UnsupportedError(Error):
    """A format version or feature that this build or machine lacks."""


class SpaceError(Error, OSError):
    """A tier or the store is full."""


class StorageError(Error, OSError):
    """Any other failure of a device."""


class PermissionDeniedError(Error, PermissionError):
    """Files or sockets of another user, or a read-only store."""


class UnavailableError(Error):
    """The agent cannot be reached."""


class TimeoutExpiredError(Error, TimeoutError):
    """A bounded wait ended; the message names who is missing."""


class MismatchError(Error, ValueError):
    """Ranks, sizes, types, shapes or configuration disagree with what was saved; nothing was overwritten."""


class BusyError(Error):
    """The job is held by another live attempt; or a newer one has taken it over, and this process should end."""


class IncompleteError(Error):
    """A part of the version is missing, or another rank failed."""


class LostError(Error):
    """There was a version, and no copy of any is left. No :class:`NotFoundError`: this is no first launch."""


_CLASSES: dict[int, type[Error]] = {
    1: InvalidArgumentError,
    2: NotFoundError,
    4: CorruptError,
    5: UnsupportedError,
    6: SpaceError,
    7: StorageError,
    8: PermissionDeniedError,
    9: UnavailableError,
    10: TimeoutExpiredError,
    11: MismatchError,
    12: BusyError,
    13: InvalidArgumentError,
    14: IncompleteError,
    16: LostError,
}


def from_status(status: int, message: str, errno: int = 0) -> Error:
    """The exception for a status code of the C API (``kedge_status``)."""
    return _CLASSES.get(status, Error)(message, status, errno)
