"""Arrays in Kedge's memory: made by name, back in another process, alive as long as somebody refers to them."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import kedge
from kedge import Context, Level

KEDGE = Path(os.environ["BUILD_FOLDER"]) / "bin" / "kedge"
pytestmark = pytest.mark.usefixtures("run_folder")


@pytest.mark.parametrize("dtype", ["?", "i1", "i8", "u4", "f2", "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_of_each_type_comes_back_by_its_name(dtype: str, order: str) -> None:
    with Context("types") as context:
        array = context.empty("field", (3, 5, 2), dtype, order=order)  # type: ignore[arg-type]
        assert array.dtype == dtype and array.shape == (3, 5, 2) and not array.any()
        assert array.flags.f_contiguous == (order == "F")
        array[...] = np.arange(30).reshape(3, 5, 2) % 2
        saved = array.copy()
        context.checkpoint("s", 1)
        context.wait("s", 1, Level.STORE)
        array[...] = 0
        assert context.restart("s") == 1
        np.testing.assert_array_equal(array, saved)
        again = context.array("field")
        assert again.dtype == dtype and again.shape == (3, 5, 2) and np.shares_memory(again, array)
        loaded = context.load("s", 1)["field"]
        assert not np.shares_memory(loaded, array)
        np.testing.assert_array_equal(loaded, saved)


def test_scalars_empty_arrays_and_structures() -> None:
    pair = np.dtype([("a", "i4"), ("b", "f8")])
    with Context("odd") as context:
        scalar = context.empty("scalar", (), "i8")
        none = context.empty("none", (0, 4))
        pairs = context.empty("pairs", 3, pair)
        scalar[...], pairs["b"] = 7, 1.5
        context.checkpoint("s", 1)
        scalar[...], pairs["b"] = 0, 0
        context.restart("s")
        assert scalar[()] == 7 and none.shape == (0, 4) and (pairs["b"] == 1.5).all()
        assert context.array("scalar").shape == () and context.array("none").shape == (0, 4)
        assert (context.array("pairs").view(pair)["b"] == 1.5).all()


def test_another_process_has_it_at_the_same_address() -> None:
    program = textwrap.dedent(
        """
        import sys
        from kedge import Context
        with Context("twice") as context:
            if context.newest("s") is None:
                array = context.empty("field", 100000)
                array[:] = 1.5
                context.checkpoint("s", 1)
            else:
                context.restart("s")
                array = context.array("field")
                assert (array == 1.5).all()
            print(array.ctypes.data)
        """
    )
    addresses = [subprocess.check_output([sys.executable, "-c", program], text=True, timeout=120) for _ in range(2)]
    assert addresses[0] == addresses[1]


def test_arrays_outlive_what_frees_them() -> None:
    with Context("life") as context:
        freed, kept = context.empty("freed", 100000), context.empty("kept", 100000)
        freed[:], kept[:] = 1, 2
        context.free("freed")
        with pytest.raises(kedge.NotFoundError):
            context.array("freed")
        other = context.empty("freed", 100000)
        assert not np.shares_memory(other, freed)
        assert (freed == 1).all()
        view = kept[5:10]
        del kept
        context.checkpoint("s", 1)
    assert (freed == 1).all() and (view == 2).all() and not other.any()
    with Context("life") as context, pytest.raises(kedge.MismatchError, match="cannot come back where it was"):
        context.restart("s")
    del freed, view, other
    gc.collect()
    with Context("life") as context:
        assert context.restart("s") == 1
        assert (context.array("kept") == 2).all()


def test_what_nobody_refers_to_goes_at_once() -> None:
    with Context("gone") as context:
        for _ in range(50):
            context.empty("temporary", 10_000_000)[:] = 1
            context.free("temporary")
        context.empty("temporary", 10)


def test_what_is_wrong_is_refused() -> None:
    with Context("wrong", settings={"heap.size": "16MiB"}) as context:
        context.empty("x", 10)
        with pytest.raises(kedge.Error, match="block 'x' is there already"):
            context.empty("x", 10)
        with pytest.raises(kedge.SpaceError, match=r"heap\.size"):
            context.empty("y", 10_000_000)
        with pytest.raises(BufferError, match="Python objects"):
            context.empty("y", 10, object)
        with pytest.raises(ValueError, match="negative"):
            context.empty("y", (3, -1))
        with pytest.raises(kedge.NotFoundError):
            context.free("y")
    with pytest.raises(ValueError, match="closed"):
        context.empty("z", 1)


def test_inspect_names_it() -> None:
    with Context("twice") as context:
        context.empty("field", 1000)
        context.checkpoint("s", 1)
    shown = subprocess.check_output([KEDGE, "inspect", "s"], text=True, timeout=60)
    assert re.search(r"the heap of kedge_alloc, from 0x[0-9a-f]+ on: 1 block$", shown, re.MULTILINE), shown
    assert re.search(r"field +block ", shown), shown


def test_the_loop_takes_it() -> None:
    def run(last: int) -> float:
        with Context("loop") as context:
            field = context.empty("field", 1000)
            for step in context.loop("s", range(1, last + 1)):
                field += step
            return float(field[999])

    assert run(5) == 15
    assert run(9) == 45
