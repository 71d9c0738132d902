"""The Python package against a real library, agent and store."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kedge
from conftest import end_agent
from kedge import Context, Level
from threaded_communicator import ThreadedCommunicator, run_ranks
from waiting import until

KEDGE = Path(os.environ["BUILD_FOLDER"]) / "bin" / "kedge"
pytestmark = pytest.mark.usefixtures("run_folder")


HOLDER = """
import sys
from kedge import Context
context = Context("held")
print("begun", flush=True)
sys.stdin.readline()
"""


def test_a_launch_waits_a_moment_for_the_ranks_of_a_killed_one(capfd: pytest.CaptureFixture[str]) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout and holder.stdout.readline() == "begun\n"
    with pytest.raises(kedge.BusyError, match=rf"held by attempt 1 \(process {holder.pid} on"):
        Context("held")
    ending = threading.Timer(1.0, holder.kill)
    ending.start()
    with Context("held") as context:
        assert context.newest("s") is None
    ending.join()
    holder.communicate()
    assert capfd.readouterr().err.count(f"attempt 1 is alive (process {holder.pid}") == 2


def test_a_checkpoint_at_each_step_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    with Context("told") as context:
        assert context.checkpoint_due()
        assert "schedule.interval" not in capfd.readouterr().err
        assert all(context.checkpoint_due() for _ in range(3))
    assert capfd.readouterr().err.count("a checkpoint is due at each call, since schedule.interval is not set") == 1


@pytest.mark.parametrize(
    "dtype", ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_type_comes_back_in_place_and_by_load(dtype: str, order: str) -> None:
    random = np.random.default_rng(1)
    array = np.array(random.integers(0, 2, size=(3, 5, 2)), dtype=dtype, order=order)  # type: ignore[call-overload]
    saved = array.copy()
    with Context("types") as context:
        context.protect(7, array, "field")
        context.checkpoint("sim", 1)
        context.wait("sim", 1, Level.STORE)
        array[...] = 0
        assert context.restart("sim") == 1
        np.testing.assert_array_equal(array, saved)
        loaded = context.load("sim", 1)["field"]
        assert loaded.dtype == array.dtype and loaded.shape == array.shape
        assert loaded.flags.f_contiguous == (order == "F")
        np.testing.assert_array_equal(loaded, saved)


def test_a_zero_dimensional_and_an_empty_array() -> None:
    scalar, empty = np.array(3.5), np.zeros((0, 4))
    with Context("small") as context:
        context.protect(0, scalar)
        context.protect(1, empty)
        context.checkpoint("s", 0)
        scalar[...] = 0
        assert context.restart("s") == 0
        assert float(scalar) == 3.5
        loaded = context.load("s", 0)
        assert loaded[0].shape == () and loaded[1].shape == (0, 4)


def test_other_buffers_and_lifetime() -> None:
    data = bytearray(b"kedge" * 1000)
    array = np.arange(10.0)
    with Context("buffers") as context:
        context.protect(0, data)
        with pytest.raises(BufferError):
            data.extend(b"x")  # held: cannot move under the library
        context.protect(1, array)
        alive = weakref.ref(array)
        del array
        gc.collect()
        assert alive() is not None
        context.unprotect(1)
        gc.collect()
        assert alive() is None
        context.checkpoint("b", 1)
        data[:5] = b"xxxxx"
        context.restart("b")
        assert data[:5] == b"kedge"
        context.clear()
        data.extend(b"free again")


@pytest.mark.parametrize("make", [lambda: np.arange(10)[::2], lambda: b"read-only", lambda: _read_only()])
def test_what_gives_no_writable_contiguous_buffer_is_refused(make: Any) -> None:
    with Context("refused") as context, pytest.raises(BufferError, match="contiguous, writable"):
        context.protect(0, make())


def _read_only() -> np.ndarray[Any, Any]:
    array = np.zeros(4)
    array.flags.writeable = False
    return array


def test_a_size_that_differs_is_refused_and_nothing_is_overwritten() -> None:
    with Context("mismatch") as context:
        context.protect(0, np.arange(8.0))
        context.checkpoint("m", 1)
        larger = np.full(9, -1.0)
        context.protect(0, larger)
        with pytest.raises(kedge.MismatchError, match="region 0 was saved with 64 bytes, and 72 are protected: .*another job.name"):
            context.restart("m")
        assert (larger == -1.0).all()


class Names(ctypes.Structure):
    """A structure that leads to memory outside of it."""

    _fields_ = [("count", ctypes.c_int), ("first", ctypes.c_char_p)]


@pytest.mark.parametrize(
    ("array", "why"),
    [
        (np.array([{"a": 1}, None], dtype=object), "Python objects"),
        (np.zeros(3, dtype=[("Of", "f8"), ("o", object)]), "Python objects"),
        ((ctypes.c_char_p * 3)(b"a", b"b"), "pointers"),
        ((ctypes.c_wchar_p * 3)("a", "b"), "pointers"),
        ((Names * 2)(), "pointers"),
        ((ctypes.c_void_p * 3)(), "pointers"),
        (np.zeros(3, dtype=">f8"), "byte order"),
        (np.zeros(3, dtype=[("a", "i4"), ("b", ">i4")]), "byte order"),
    ],
    ids=[
        "objects", "objects in records", "strings", "wide strings", "strings in structures", "addresses", "swapped",
        "swapped in records",
    ],
)
def test_what_means_nothing_to_another_process_is_refused(array: Any, why: str) -> None:
    with Context("refused") as context, pytest.raises(BufferError, match=why):
        context.protect(0, array)


def test_plain_records_come_back() -> None:
    fields = [("Object", "i4"), ("P>", "f8"), ("z", "c8"), ("Z", "c16"), ("long", "G")]
    array = np.array([(1, 2.5, 1j, 2j, 3j), (3, 4.5, 4j, 5j, 6j)], dtype=fields)
    saved = array.copy()
    with Context("records") as context:
        context.protect(0, array, "records")
        context.checkpoint("r", 1)
        array["Object"] = 0
        context.restart("r")
        np.testing.assert_array_equal(array, saved)


class Measured(np.ma.MaskedArray):
    """A masked array of a program's own."""


@pytest.mark.parametrize("kind", [np.ma.MaskedArray, Measured])
def test_a_masked_array_is_refused_and_comes_back_in_two_regions(kind: Any) -> None:
    array = np.ma.array([1.0, 2.0, 3.0], mask=[True, False, False]).view(kind)
    with Context("masked") as context:
        with pytest.raises(TypeError, match=r"region 0 is a \w+, whose buffer lacks the mask: protect its \.data and its \.mask"):
            context.protect(0, array)
        context.protect(0, array.data)
        context.protect(1, array.mask)
        context.checkpoint("m", 1)
        array[0], array[1] = 7.0, np.ma.masked
        context.restart("m")
        assert array.data.tolist() == [1.0, 2.0, 3.0] and array.mask.tolist() == [True, False, False]


def test_another_mesh_is_refused_with_both_shapes() -> None:
    with Context("mesh") as context:
        for extent in (8, 9):
            context.protect(10, np.zeros(extent), "field", global_shape=(extent,), global_offset=(0,))
            if extent == 8:
                context.checkpoint("m", 1)
        with pytest.raises(kedge.MismatchError) as caught:
            context.restart("m")
    told = "region 10 'field' was saved with 64 bytes of the global shape 8, and 72 of the global shape 9 are protected"
    assert told in str(caught.value) and "job.name" in str(caught.value)


def test_another_type_or_shape_is_refused_unless_asked_for() -> None:
    with Context("types") as context:
        saved = np.arange(6.0).reshape(2, 3)
        context.protect(0, saved, "x")
        context.checkpoint("t", 1)
        for other in (np.zeros((2, 3), dtype=int), np.zeros((3, 2)), np.zeros((2, 3), order="F")):
            context.protect(0, other, "x")
            with pytest.raises(kedge.MismatchError, match="float64 of shape 2 x 3, row-major"):
                context.restart("t")
            assert not other.any()
            context.protect(0, other, "x", reinterpret=True)
            context.restart("t")
            assert other.tobytes("A") == saved.tobytes()


def test_two_regions_of_one_name_are_refused() -> None:
    array = np.zeros(3)
    with Context("names") as context:
        context.protect(0, array, "x")
        with pytest.raises(kedge.InvalidArgumentError, match="region 0 is called 'x' already"):
            context.protect(1, array, "x")


def test_an_array_that_the_program_has_left_behind_is_warned_of_once(tmp_path: Path) -> None:
    left, kept, base = np.ones(4), np.ones(4), np.ones(8)
    with Context("rebound") as context:
        context.protect(0, left, "left")
        context.protect(1, kept, "kept")
        context.protect(2, base[:4], "a view of what is in use")
        context.protect(3, np.memmap(tmp_path / "shared", "f8", "w+", shape=4), "a file, which others may have, too")
        context.checkpoint("r", 1)
        left = left * 2
        kept *= 2
        with pytest.warns(RuntimeWarning, match=r"region 0: only Kedge still refers") as warned:
            context.checkpoint("r", 2)
            context.checkpoint("r", 3)
        assert len(warned) == 1 and warned[0].filename == __file__
        context.protect(0, left, "left")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            context.checkpoint("r", 4)


def test_a_view_that_alone_keeps_its_array_is_warned_of_too() -> None:
    grid = np.arange(12.0).reshape(3, 4)[1:]
    with Context("rebound") as context:
        context.protect(0, grid, "grid")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            context.checkpoint("r", 1)
        grid = grid + 1
        with pytest.warns(RuntimeWarning, match=r"region 0: only Kedge still refers"):
            context.checkpoint("r", 2)


class Field(np.ndarray[Any, Any]):
    """An array of a program's own."""


@pytest.mark.parametrize("make", [lambda: np.ones(4).view(Field), lambda: np.rec.array([(1, 2.5)], dtype="i4,f8")])
def test_an_array_of_a_derived_class_is_warned_of_too(make: Any) -> None:
    array = make()
    with Context("rebound") as context:
        context.protect(0, array)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            context.checkpoint("r", 1)
        array = array.copy()
        with pytest.warns(RuntimeWarning, match=r"region 0: only Kedge still refers"):
            context.checkpoint("r", 2)


@pytest.mark.filterwarnings("error")
def test_where_warnings_are_errors_they_come_after_the_checkpoint() -> None:
    with Context("rebound") as context:
        context.protect(0, np.ones(4))
        with pytest.raises(RuntimeWarning, match="region 0"):
            context.checkpoint("r", 1)
        assert context.newest("r") == 1
        context.protect(1, np.ones(4))
        with pytest.raises(RuntimeWarning, match="region 1"), context.checkpoint_parts("r", 2):
            pytest.fail("it has not begun")
        assert context.newest("r") == 1
        context.checkpoint("r", 3)
        assert context.newest("r") == 3


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("in_parts", [False, True])
def test_a_warning_that_is_an_error_on_one_rank_alone_does_not_part_the_ranks(in_parts: bool) -> None:
    def take(context: Context, version: int) -> None:
        if in_parts:
            with context.checkpoint_parts("r", version) as checkpoint:
                checkpoint.part()
        else:
            context.checkpoint("r", version)

    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        array = np.full(4, float(rank))
        with Context("apart", communicator=communicator, settings={"schedule.store": 2}) as context:
            context.protect(0, array)
            take(context, 1)
            if rank == 0:
                context.protect(1, np.ones(4))
                with pytest.raises(RuntimeWarning, match="region 1"):
                    take(context, 2)
            else:
                take(context, 2)
            take(context, 3)
            context.wait("r", 3, Level.STORE, timeout=20)

    run_ranks(2, run)


def test_level_buffer_is_reached_with_the_store_where_no_burst_buffer_lies_before_it() -> None:
    array = np.zeros(4)
    with Context("levels") as context:
        context.protect(0, array)
        context.checkpoint("x", 1)
        context.wait("x", 1, Level.BUFFER, timeout=60)
        assert context.level("x", 1) is Level.STORE
    assert [level.name for level in sorted(Level)] == ["NONE", "LOCAL", "NODE", "BUFFER", "STORE", "LAST"]


def test_a_loss_is_no_first_launch(run_folder: Path, tmp_path: Path) -> None:
    array = np.zeros(4)
    settings = {"schedule.store": 0}
    with Context("lost", settings=settings) as context:
        context.protect(0, array)
        assert context.newest("x") is None
        context.checkpoint("x", 1)
        context.wait("x", 1, Level.LOCAL)
    until(lambda: list((tmp_path / "store").glob("jobs/*/names/*/reached")))
    end_agent(run_folder)
    shutil.rmtree(run_folder)
    with Context("lost", settings=settings) as context:
        context.protect(0, array)
        with pytest.raises(kedge.LostError, match="'x' is lost: version 1 of attempt 1"):
            context.newest("x")
        with pytest.raises(kedge.LostError):
            context.restart("x")
    with Context("lost", settings=settings | {"restart.if_lost": "begin"}) as context:
        assert context.newest("x") is None


def test_parts_annotations_and_groups() -> None:
    first, second, third = np.arange(3), np.arange(4), np.arange(5)
    with Context("parts") as context:
        context.protect(0, first)
        context.protect(1, second)
        with context.checkpoint_parts("p", 3) as checkpoint:
            checkpoint.part(1)
            checkpoint.annotate("step", "300")
            checkpoint.part()
        with context.group("other"):
            context.protect(0, third)
            context.checkpoint("q", 9)
        saved = [array.copy() for array in (first, second, third)]
        for array in (first, second, third):
            array[:] = 0
        with context.restart_parts("p", 3) as restart:
            assert restart.annotation("step") == b"300"
            assert set(restart.regions) == {0, 1}
            restart.part(0)
            restart.part()
        with context.group("other"):
            assert context.restart("q") == 9
        for array, expected in zip((first, second, third), saved, strict=True):
            np.testing.assert_array_equal(array, expected)


def test_reading_is_not_going_back() -> None:
    """A program that compares with an older version, and dies before its next one is complete, has lost nothing."""
    array, settings = np.zeros(4), {"keep.versions": 9}
    with Context("compare", settings=settings) as context:
        context.protect(0, array)
        for version in (30, 40, 50):
            array[:] = version
            context.checkpoint("heat", version)
    context = Context("compare", settings=settings)
    context.protect(0, array)
    assert context.restart("heat") == 50
    assert (context.load("heat", 30)[0] == 30).all() and (array == 50).all()
    context.wait("heat", 50, Level.STORE)
    with pytest.raises(kedge.Error, match="not greater than the newest, 50"):
        context.checkpoint("heat", 45)
    context.close(drain=False)
    with Context("compare", settings=settings) as context:
        context.protect(0, array)
        assert context.newest("heat") == 50
        for rank in (None, 0):
            assert (context.load("heat", 40, rank=rank)[0] == 40).all()
        assert context.restart("heat") == 50 and (array == 50).all()


def test_a_group_stays_selected_when_a_version_is_read() -> None:
    outer, inner = np.zeros(4), np.ones(5)
    with Context("selected") as context:
        context.protect(0, outer)
        with context.group("other"):
            context.protect(0, inner)
            context.checkpoint("q", 1)
            assert context.load("q", 1)[0].shape == (5,)
            context.checkpoint("q", 2)
        assert context.load("q", 2, rank=0)[0].shape == (5,)
        context.checkpoint("p", 1)
        assert context.load("p", 1)[0].shape == (4,)


def test_an_exception_inside_the_block_abandons_the_version() -> None:
    array = np.arange(3)
    with Context("abandon") as context:
        context.protect(0, array)
        context.checkpoint("a", 1)
        with pytest.raises(RuntimeError, match="mine"), context.checkpoint_parts("a", 2) as checkpoint:
            checkpoint.part()
            raise RuntimeError("mine")
        assert context.newest("a") == 1


def test_a_phase_of_communication_ends_with_its_block() -> None:
    array = np.arange(8.0)
    with Context("phases") as context:
        context.protect(0, array)
        with pytest.raises(ZeroDivisionError), context.communicating():
            context.checkpoint("sim", 1)
            raise ZeroDivisionError
        with context.communicating():
            context.checkpoint("sim", 2)
        context.wait("sim", 2, Level.STORE)
    with pytest.raises(ValueError, match="closed"), context.communicating():
        pass


def test_random_numbers_go_on_as_the_how_to_says() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to.md").read_text()
    (shown,) = re.findall(r"^```python\n(random = .*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"np": np, "json": json}
    with Context("random") as names["context"]:
        exec(shown, names)
        names["context"].checkpoint("r", 1)
        drawn = names["random"].random(5).tolist()
        names["context"].restart("r")
        assert names["random"].random(5).tolist() == drawn


def test_objects_and_exceptions_in_their_call_backs() -> None:
    state = {"step": 4, "history": list(range(100))}
    with Context("objects") as context:
        context.protect_pickled(0, state)
        context.checkpoint("o", 1)
        state["step"] = 0
        context.restart("o")
        assert state["step"] == 4

        def explode() -> bytes:
            raise ZeroDivisionError("in serialize")

        context.protect_object(1, explode, lambda data: None)
        with pytest.raises(ZeroDivisionError, match="in serialize"):
            context.checkpoint("o", 2)
        context.unprotect(1)
        assert context.newest("o") == 1
        context.checkpoint("o", 3)
        assert context.restart("o") == 3


def test_versions_must_increase_unless_overwritten() -> None:
    array = np.zeros(2)
    with Context("versions") as context:
        context.protect(0, array)
        context.checkpoint("v", 5)
        with pytest.raises(kedge.Error):
            context.checkpoint("v", 5)
        array[:] = 1
        context.checkpoint("v", 5, overwrite=True)
        array[:] = 2
        assert context.restart("v") == 5
        assert (array == 1).all()
        assert context.newest("v", 4) is None
        with pytest.raises(kedge.NotFoundError):
            context.restart("nothing")


def take_and_restart(context: Context, array: np.ndarray[Any, Any], rank: int) -> None:
    """The one region `array`, full of `rank`, as version 1 of "r"."""
    context.protect(0, array)
    context.checkpoint("r", 1)
    context.wait("r", 1, Level.STORE)
    array[:] = -1
    assert context.restart("r") == 1
    assert (array == rank).all()


def test_several_ranks_through_a_python_communicator() -> None:
    ranks = 3

    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        array = np.full(1000 + rank, float(rank))
        with Context("ranks", communicator=communicator) as context:
            take_and_restart(context, array, rank)
            assert (context.load("r", 1)[0] == rank).all()
            other = context.load("r", 1, rank=(rank + 1) % ranks)[0]
            assert other.shape == (1000 + (rank + 1) % ranks,)

    run_ranks(ranks, run)


def test_several_ranks_through_a_folder(tmp_path: Path) -> None:
    def run(rank: int) -> None:
        array = np.full(10, float(rank))
        with Context("folder", communicator=kedge.Rendezvous(str(tmp_path / "launch"), rank, 2, 60)) as context:
            take_and_restart(context, array, rank)

    with ThreadPoolExecutor(2) as ranks:
        list(ranks.map(run, range(2)))
    with pytest.raises(kedge.TimeoutExpiredError, match="rank 1 of 2"):
        Context("folder", communicator=kedge.Rendezvous(str(tmp_path / "alone"), 0, 2, 0.2))


def test_kill_and_restart() -> None:
    program = textwrap.dedent(
        """
        import os, signal, sys
        import numpy as np
        from kedge import Context
        array, step = np.zeros(100_000), np.zeros(1, dtype=np.int64)
        context = Context("killed")
        context.protect(0, array)
        context.protect(1, step)
        if context.newest("k") is not None:
            context.restart("k")
        while step[0] < 20:
            array += 1.5
            step += 1
            context.checkpoint("k", int(step[0]))
            if step[0] == 11 and len(sys.argv) > 1:
                os.kill(os.getpid(), signal.SIGKILL)
        context.close()
        print(int(step[0]), float(array.sum()))
        """
    )
    run = [sys.executable, "-c", program]
    killed = subprocess.run([*run, "kill"], env=os.environ, capture_output=True, text=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = subprocess.run(run, env=os.environ, capture_output=True, text=True, timeout=120)
    assert resumed.returncode == 0, resumed.stderr
    assert resumed.stdout.split() == ["20", str(20 * 1.5 * 100_000)]


def test_a_closed_context_and_errors_say_what_they_are() -> None:
    context = Context("closed")
    context.close()
    context.close()
    with pytest.raises(ValueError, match="closed"):
        context.checkpoint("c", 1)
    with pytest.raises(kedge.Error) as caught, Context("x", settings={"no.such_key": 1}):
        pass
    assert "no.such_key" in str(caught.value)
    assert issubclass(kedge.MismatchError, kedge.Error)
    pickle.dumps(kedge.Error("sentence", 3))


def test_routed_files(tmp_path: Path) -> None:
    original = tmp_path / "output.bin"
    content = os.urandom(300_000)
    with Context("files") as context:
        with context.checkpoint_parts("f", 1) as checkpoint:
            Path(checkpoint.route(str(original))).write_bytes(content)
        context.wait("f", 1, Level.STORE)
        assert original.read_bytes() == content
        with context.restart_parts("f", 1) as restart:
            assert Path(restart.route(str(original))).read_bytes() == content


def test_a_successor_publishes_the_routed_files_of_all_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent dies when only the first rank's image knows that their version is complete in the store."""
    monkeypatch.setenv("KEDGE_TEST_KILL_POINT", "publish-saving:1")
    originals = [tmp_path / f"output.{rank}" for rank in range(3)]

    def life(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("files", communicator=communicator) as context:
            if rank == 0:
                monkeypatch.delenv("KEDGE_TEST_KILL_POINT")  # its agent runs; the successor has none
            communicator.barrier()
            with context.checkpoint_parts("f", 1) as checkpoint:
                Path(checkpoint.route(str(originals[rank]))).write_text(f"of rank {rank}")
            context.wait("f", 1, Level.STORE, timeout=30)
            until(originals[rank].exists)

    run_ranks(3, life)
    assert [original.read_text() for original in originals] == ["of rank 0", "of rank 1", "of rank 2"]


def test_a_loop_goes_on_where_the_job_was() -> None:
    """It is left in the middle of step 7; step 6 is the last of which all is known."""
    total, done = np.zeros(()), []
    for launch in (1, 2, 3):
        total[...] = 0
        with Context("loop") as context:
            context.protect(0, total, "total")
            for step in context.loop("sum", range(1, 11)):
                if launch == 1 and step == 7:
                    break
                total += step
                done.append(step)
    assert done == [*range(1, 7), *range(7, 11)] and float(total) == 55


def test_a_loop_takes_its_last_step_though_none_is_due() -> None:
    state = np.zeros((), dtype=int)
    with Context("rare", settings={"schedule.interval": "1h"}) as context:
        context.protect(0, state, "state")
        for step in context.loop("steps", range(20)):
            state[...] = step
        assert context.newest("steps") == 19
        assert list(context.loop("steps", range(20))) == []
    assert int(state) == 19


def test_a_loop_ends_when_the_job_is_asked_to() -> None:
    state, done = np.zeros((), dtype=int), 0
    with Context("halted", settings={"schedule.interval": "1h"}) as context:
        context.protect(0, state, "state")
        for step in context.loop("steps", range(1, 10**9)):
            state[...] = done = step
            if step == 10:
                subprocess.run([KEDGE, "halt", "halted", "--now"], check=True, capture_output=True, timeout=60)
            time.sleep(0.001)
        assert 10 <= done < 10**6 and context.newest("steps") == done
