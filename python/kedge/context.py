"""Checkpoint and restart from Python: arrays and buffers in place, and objects through call-backs.

A :class:`Context` is one process's handle. Arrays are declared with :meth:`Context.protect`; they are read and written
where they lie, without a copy in Python. Every method may be called from any thread, one at a time a context, and
releases the interpreter lock while it works.
"""

from __future__ import annotations

import enum
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from kedge import _kedge
from kedge.errors import Error

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

__all__ = ["Checkpoint", "Communicator", "Context", "Level", "Rendezvous", "Restart", "SavedRegion", "Statistics"]

_ALL, _SOME, _REST = 0, 1, 2


class Level(enum.IntEnum):
    """What a version survives (``kedge_level``)."""

    NONE = 0
    LOCAL = 1  #: the loss of the process
    NODE = 2  #: the loss of a node
    BUFFER = 3  #: the loss of all compute nodes, on the burst buffer before the store; where there is none, as STORE
    STORE = 4  #: the loss of everything but the store
    LAST = 100  #: the highest level scheduled for the version


class Communicator(Protocol):
    """What Kedge needs of a group of processes; the communicators of mpi4py have it."""

    def Get_rank(self) -> int: ...
    def Get_size(self) -> int: ...
    def allgather(self, data: bytes, /) -> Sequence[bytes]: ...
    def bcast(self, data: bytes, root: int, /) -> bytes: ...
    def barrier(self) -> object: ...


@dataclass(frozen=True)
class Rendezvous:
    """A communicator for processes without MPI that share a folder (``kedge_rendezvous``).

    Every process of a launch names the same folder, on storage that all of them see, and one launch at a time uses it.
    No process waits longer than ``timeout_seconds`` for the others at a time.
    """

    rendezvous_folder: str
    rank: int
    ranks: int
    timeout_seconds: float = 600.0


@dataclass(frozen=True)
class Statistics:
    """Counters of one context since it was made (``kedge_statistics``); times in seconds, sizes in bytes."""

    checkpoints: int
    checkpoints_inline: int
    bytes_captured: int
    blocked_seconds: float
    last_blocked_seconds: float
    bytes_pool: int
    bytes_directory: int
    bytes_through: int
    bytes_unchanged: int
    writes_held: int
    slot_wait_seconds: float
    bytes_restored_pool: int
    bytes_restored_directory: int
    bytes_restored_store: int
    last_restart_seconds: float
    flush_failures: int
    corrupt_copies: int
    checkpoint_interval_seconds: float
    checkpoints_not_due: int


# NumPy's name for each kedge_type; bfloat16, which NumPy lacks, comes as its bits.
_DTYPES: tuple[str, ...] = (
    "u1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "u2", "f4", "f8", "c8", "c16", "?",
)  # fmt: skip


@dataclass(frozen=True)
class SavedRegion:
    """One region of a saved image: ``shape`` is () for a scalar and None where only the bytes are known.

    ``global_shape`` is that of the global array that it was a part of, ``global_offset`` where it began in it; None: of none.
    """

    id: int
    name: str | None
    bytes: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    column_major: bool
    global_shape: tuple[int, ...] | None = None
    global_offset: tuple[int, ...] | None = None

    @property
    def fitting_shape(self) -> tuple[int, ...]:
        """``shape``, or one dimension where elements of ``dtype`` do not make it up."""
        shape = self.shape
        if shape is None or int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize != self.bytes:
            shape = (self.bytes // self.dtype.itemsize,)
        return shape

    def empty(self) -> NDArray[Any]:
        """An uninitialised array that the region fits into."""
        return np.empty(self.fitting_shape, self.dtype, order="F" if self.column_major else "C")


class Checkpoint:
    """A checkpoint being taken in parts; made by ``with context.checkpoint_parts(...)``."""

    def __init__(self, handle: _kedge.Context) -> None:
        self._handle = handle

    def part(self, *ids: int) -> None:
        """Captures these regions; without arguments, all that no part has captured yet."""
        self._handle.checkpoint_part(_SOME if ids else _REST, list(ids))

    def annotate(self, key: str, value: bytes | str) -> None:
        """Stores a key and value with the version."""
        self._handle.annotate(key, value.encode() if isinstance(value, str) else value)

    def route(self, original: str) -> str:
        """The path at which to write the file that is called ``original`` outside."""
        return self._handle.route_file(original)


class Restart:
    """A saved version being read in parts; made by ``with context.restart_parts(...)``."""

    def __init__(self, handle: _kedge.Context) -> None:
        self._handle = handle

    @property
    def regions(self) -> dict[int, SavedRegion]:
        """What was saved, by id."""
        return {region_id: self.region(region_id) for region_id in self._handle.saved_ids()}

    def region(self, region_id: int) -> SavedRegion:
        """Size, type and shape of one saved region, before memory for it is allocated."""
        size, type_code, shape, column_major, name, whole, offset = self._handle.saved_region(region_id)
        dtype = np.dtype(_DTYPES[type_code])
        is_known = type_code != 0 or bool(shape)
        saved = SavedRegion(region_id, name, size, dtype, tuple(shape) if is_known else None, column_major)
        return replace(saved, global_shape=whole, global_offset=offset) if any(whole) else saved

    def part(self, *ids: int) -> None:
        """Restores these regions into the arrays protected under the same ids; without arguments, the rest."""
        self._handle.restart_part(_SOME if ids else _REST, list(ids))

    def annotation(self, key: str) -> bytes:
        """The value stored with the version under ``key``."""
        return self._handle.annotation(key)

    def route(self, original: str) -> str:
        """The path at which the file saved as ``original`` can be read."""
        return self._handle.route_file(original)


class Context:
    """One process's handle; closes (draining) at the end of a ``with`` block.

    Args:
        job: the job's name; None: from the configuration, else the program's name.
        communicator: the processes that checkpoint together (``mpi4py.MPI.COMM_WORLD``, or a :class:`Rendezvous`); None: this
            one alone.
        config_file: a TOML file; None: the usual places.
        settings: configuration keys above file and environment, such as ``{"store.path": "/scratch/me"}``.

    Raises:
        kedge.BusyError: another live attempt holds the job.
    """

    def __init__(
        self,
        job: str | None = None,
        *,
        communicator: Communicator | Rendezvous | None = None,
        config_file: str | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        lines = "\n".join(f"{key}={_setting(value)}" for key, value in (settings or {}).items())
        self._handle = _kedge.Context(job, config_file, lines, communicator)
        self._group: str | None = None  # that is selected

    def __enter__(self) -> Context:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close(drain=kind is None)

    def close(self, drain: bool = True) -> None:
        """Ends the session; with ``drain`` waits until everything is as safe as scheduled, and raises what failed."""
        self._handle.finalize(drain)

    def protect(
        self, region_id: int, array: Any, name: str | None = None, *, reinterpret: bool = False,
        global_shape: Sequence[int] = (), global_offset: Sequence[int] = (), halo: Sequence[int] = (),
        replicated: bool = False,
    ) -> None:
        """Declares a NumPy array or any writable contiguous buffer as a region; it is kept alive until unprotected.

        It is captured and restored where it lies: change it in place (``a *= 2``). After ``a = a * 2`` the name means another
        array, and the next checkpoint warns (``RuntimeWarning``) that only Kedge still has the protected one. With ``reinterpret``
        a restart takes as many bytes that were saved as another type or shape. Structures, and numbers that no C type of
        ``kedge.h`` is for, are saved as bytes, of which a restart compares the shape only.

        An array that is part of a global one says of which shape that is, and where in it this begins: it comes back on another
        number of ranks, too, and so does what all ranks have (``replicated``). With a ``halo`` so many elements on both sides are
        no part of it (ghost cells); such a restart leaves them as they are. Blocks of one global array on one rank are named
        ``field[0]``, ``field[1]``, and so on.

        Raises:
            BufferError: the array is read-only, not contiguous, not in this machine's byte order, or holds Python objects or
                pointers.
            TypeError: the array is a masked one, whose buffer lacks the mask.
            ValueError: global shape and offset have other dimensions than the array.
            kedge.InvalidArgumentError: another region has this name.
        """
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError(
                f"region {region_id} is a {type(array).__name__}, whose buffer lacks the mask: protect its .data and its .mask as two "
                "regions, or the array that .filled() makes"
            )
        self._handle.protect(region_id, array, name, reinterpret, list(global_shape), list(global_offset), list(halo), replicated)

    def protect_object(
        self,
        region_id: int,
        serialize: Callable[[], bytes],
        deserialize: Callable[[bytes], object],
        name: str | None = None,
    ) -> None:
        """Declares state that call-backs turn into bytes at a checkpoint, and take back at a restart."""
        self._handle.protect_object(region_id, serialize, deserialize, name)

    def protect_pickled(self, region_id: int, state: dict[str, Any], name: str | None = None) -> None:
        """Declares a dictionary that is pickled at a checkpoint and updated in place at a restart.

        Unpickling runs code that the checkpoint names: restart only from stores that you trust.
        """

        def restore(data: bytes) -> None:
            saved = pickle.loads(data)
            state.clear()
            state.update(saved)

        self.protect_object(region_id, lambda: pickle.dumps(state, protocol=pickle.HIGHEST_PROTOCOL), restore, name)

    def unprotect(self, region_id: int) -> None:
        """Forgets a region of the current group."""
        self._handle.unprotect(region_id)

    def clear(self) -> None:
        """Forgets all regions of the current group."""
        self._handle.clear()

    def empty(
        self, name: str, shape: int | tuple[int, ...], dtype: DTypeLike = float, *, order: Literal["C", "F"] = "C"
    ) -> NDArray[Any]:
        """A new array in Kedge's memory: every checkpoint of the default group has it, and it is protected by nothing else.

        It reads as zeros. A :meth:`restart` in another process brings it back at the same address, also where it was not made
        there: :meth:`array` finds it by its name. Restart before other arrays are made, or make them in the same order.

        Raises:
            kedge.Error: of code ALREADY_EXISTS: an array or region has this name.
            kedge.SpaceError: ``heap.size`` or the memory is full.
        """
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        block = self._handle.alloc(name, np.empty((), dtype), list(extents), order == "F")
        return np.ndarray(extents, dtype, memoryview(block), order=order)

    def array(self, name: str) -> NDArray[Any]:
        """The array of this name in Kedge's memory: made by :meth:`empty`, here or in the process that was restored.

        Raises:
            kedge.NotFoundError: there is none.
        """
        block, type_code, shape, column_major = self._handle.find(name)
        size = len(memoryview(block))
        is_known = type_code != 0 or bool(shape)
        saved = SavedRegion(0, name, size, np.dtype(_DTYPES[type_code]), tuple(shape) if is_known else None, column_major)
        return np.ndarray(saved.fitting_shape, saved.dtype, memoryview(block), order="F" if column_major else "C")

    def free(self, name: str) -> None:
        """Later versions do not have this array. Its memory goes with the last array that refers to it.

        Raises:
            kedge.NotFoundError: there is none.
        """
        self._handle.free(name)

    @contextmanager
    def group(self, name: str) -> Iterator[None]:
        """Within the block, calls mean the regions of this group; after it those of the one before, or the default one."""
        outer = self._group
        self._handle.group(name)
        self._group = name
        try:
            yield
        finally:
            self._handle.group(outer)
            self._group = outer

    def checkpoint(self, name: str, version: int, *, overwrite: bool = False) -> None:
        """Captures all regions; returns when the arrays may change again. Does not wait for other ranks."""
        self._handle.checkpoint(name, version, overwrite)

    @contextmanager
    def checkpoint_parts(self, name: str, version: int, *, overwrite: bool = False) -> Iterator[Checkpoint]:
        """The same in parts; an exception inside the block abandons the version."""
        self._handle.checkpoint_begin(name, version, overwrite)
        try:
            yield Checkpoint(self._handle)
        except BaseException:
            self._handle.checkpoint_end(False)
            raise
        self._handle.checkpoint_end(True)

    def checkpoint_due(self) -> bool:
        """Whether ``schedule.interval`` has passed since the last checkpoint; always, without one.

        Collective, and alike on all ranks.
        """
        return self._handle.checkpoint_due()

    def should_exit(self) -> bool:
        """Whether the job has been asked to end (``kedge halt``). Collective, and alike on all ranks."""
        return self._handle.should_exit()

    @contextmanager
    def communicating(self) -> Iterator[None]:
        """A hint: this rank communicates inside the block. Agents read its images more seldom meanwhile (``net.pause``)."""
        self._handle.phase(True)
        try:
            yield
        finally:
            self._handle.phase(False)

    def loop(self, name: str, steps: Iterable[int]) -> Iterator[int]:
        """The steps that are still to be done, for ``for step in context.loop("heat", range(1, 1001)): ...``. Collective.

        The newest version is restored first, and steps up to its number are passed over. A version with the step's number is taken
        after each step at which one is due (:meth:`checkpoint_due`), and after the last. The steps end early when the job is asked
        to end (``kedge halt``). ``steps`` ascend from 0 or more; regions are protected before, and the same on all ranks.

        Raises:
            kedge.LostError: there were versions, and no copy of any is left.
        """
        restored = self.restart(name) if self.newest(name) is not None else -1
        done = taken = restored
        for step in steps:
            if step <= restored:
                continue
            yield step
            done = step
            if self.checkpoint_due():
                self.checkpoint(name, step)
                taken = step
            if self.should_exit():
                return
        if done != taken:
            self.checkpoint(name, done)

    def wait(self, name: str | None = None, version: int = -1, level: Level = Level.LAST, timeout: float | None = None) -> None:
        """Waits until a version (None: the newest) of all ranks is at ``level``; ``timeout`` in seconds.

        Raises:
            kedge.TimeoutExpiredError: names the ranks that are missing.
        """
        self._handle.wait(name, version, int(level), -1.0 if timeout is None else timeout)

    def level(self, name: str, version: int) -> Level:
        """The level that a version has reached over all ranks now."""
        return Level(self._handle.test(name, version))

    @property
    def pending(self) -> bool:
        """True while a flush of this rank runs or waits."""
        return self._handle.pending()

    def raise_flush_error(self) -> None:
        """Raises the error of the first flush that failed since the last call, if any."""
        self._handle.raise_flush_error()

    def newest(self, name: str, at_most: int | None = None) -> int | None:
        """The newest version that every rank can restore; None: there never was one. Collective.

        Raises:
            kedge.LostError: there were versions, and no copy of any is left.
        """
        return self._handle.newest(name, -1 if at_most is None else at_most)

    def restart(self, name: str, at_most: int | None = None) -> int:
        """Restores every region of the current group in place, from the newest version that works. Collective.

        Returns:
            the version restored.

        Raises:
            kedge.NotFoundError: there never was one.
            kedge.LostError: there were versions, and no copy of any is left.
            kedge.MismatchError: sizes, types, shapes or ranks differ; nothing was overwritten.
        """
        return self._handle.restart(name, -1 if at_most is None else at_most)

    @contextmanager
    def restart_parts(self, name: str, version: int) -> Iterator[Restart]:
        """The same in parts, of exactly this version; begin and end are collective.

        The job goes on from the version, whatever parts of it were restored; :meth:`load` only reads.
        """
        self._handle.restart_begin(name, version)
        with self._restart():
            yield Restart(self._handle)

    @contextmanager
    def _restart(self) -> Iterator[None]:
        """Ends the restart that has begun."""
        try:
            yield
        except BaseException:
            try:
                self._handle.restart_end(False)
            except Error:
                pass  # the exception under way says more
            raise
        self._handle.restart_end(True)

    def load(self, name: str, version: int, rank: int | None = None) -> dict[int | str, NDArray[Any]]:
        """Reads a saved image into fresh arrays, by region name (by id where it has none).

        Nothing protected changes, and the job does not go on from this version: no newer one is abandoned.

        With ``rank`` another rank's image is read, and the call is this process's own; without, it is collective.
        """
        with self._loading(name, version, rank) as saved:
            return self._read(saved)

    @contextmanager
    def _loading(self, name: str, version: int, rank: int | None) -> Iterator[Restart]:
        handle = self._handle
        if rank is not None:
            handle.restart_as(rank)
        try:
            with self.group("kedge.load"):
                handle.load_begin(name, version)
                with self._restart():
                    yield Restart(handle)
        finally:
            if rank is not None:
                handle.restart_as(-1)

    def look(self, name: str, version: int, rank: int | None = None) -> dict[int, SavedRegion]:
        """What a version's image has, by id: sizes, shapes and global shapes. Reads no region; else as ``load``."""
        with self._loading(name, version, rank) as saved:
            return saved.regions

    def _read(self, saved: Restart) -> dict[int | str, NDArray[Any]]:
        arrays: dict[int | str, NDArray[Any]] = {}
        try:
            for region in saved.regions.values():
                array = region.empty()
                self._handle.protect(region.id, array, region.name, True)  # NumPy lacks some of the types
                arrays[region.name if region.name is not None else region.id] = array
            saved.part()
        finally:
            self._handle.clear()
        return arrays

    def cleanup(self, name: str | None = None) -> None:
        """Removes this rank's local copies (None: of every name); the store's versions stay."""
        self._handle.cleanup(name)

    def pin(self, name: str, version: int, pinned: bool = True) -> None:
        """Keeps a complete version for ever, outside retention; ``pinned=False`` lets it go."""
        self._handle.pin(name, version, pinned)

    @property
    def statistics(self) -> Statistics:
        """Counters since the context was made."""
        return Statistics(**self._handle.statistics())


def _setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
