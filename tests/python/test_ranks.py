"""Restarts on another number of ranks: arrays that are divided in blocks, in turns, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import kedge
from kedge import Context, Level
from numpy.typing import NDArray
from threaded_communicator import ThreadedCommunicator, run_ranks

pytestmark = pytest.mark.usefixtures("run_folder")
ROWS, COLUMNS, BLOCK = 37, 50_000, 3
WHOLE = np.arange(ROWS * COLUMNS, dtype=np.float64).reshape(ROWS, COLUMNS)


def rows_of(rank: int, ranks: int) -> slice:
    return slice(rank * ROWS // ranks, (rank + 1) * ROWS // ranks)


def with_ranks(ranks: int, body: Callable[[Context, int], None]) -> None:
    def run(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context("divided", communicator=communicator, settings={"chunk.size": "1MiB", "pool.size": "256MiB"}) as context:
            body(context, rank)

    run_ranks(ranks, run)


def protect_rows(context: Context, rank: int, ranks: int, order: str = "C") -> NDArray[np.float64]:
    """This rank's rows, with a row of neighbours on both sides that only it knows."""
    rows = rows_of(rank, ranks)
    field = np.full((rows.stop - rows.start + 2, COLUMNS), -1.0 - rank, order=order)  # type: ignore[call-overload]
    context.protect(1, field, "field", global_shape=WHOLE.shape, global_offset=(rows.start, 0), halo=(1, 0))
    return field  # type: ignore[no-any-return]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("level", [Level.LOCAL, Level.STORE])
def test_blocks_become_other_blocks(order: str, level: Level) -> None:
    def save(context: Context, rank: int) -> None:
        step = np.array([7])
        context.protect(0, step, "step", replicated=True)
        protect_rows(context, rank, 8, order)[1:-1] = WHOLE[rows_of(rank, 8)]
        context.checkpoint("a", 7)
        context.wait("a", 7, level)

    def restore(ranks: int) -> Callable[[Context, int], None]:
        def body(context: Context, rank: int) -> None:
            step = np.array([0])
            context.protect(0, step, "step", replicated=True)
            field = protect_rows(context, rank, ranks, order)
            assert context.restart("a") in (7, 8, 9)
            assert step == 7 and (field[1:-1] == WHOLE[rows_of(rank, ranks)]).all()
            assert (field[[0, -1]] == -1.0 - rank).all(), "the halo is left alone"
            # It goes on from there: what this number of ranks saves comes back as ever.
            version = 8 if ranks == 3 else 9
            context.checkpoint("a", version)
            field[:] = 0
            assert context.restart("a") == version
            assert (field[1:-1] == WHOLE[rows_of(rank, ranks)]).all() and (field[0] == -1.0 - rank).all()

        return body

    with_ranks(8, save)
    with_ranks(3, restore(3))
    with_ranks(5, restore(5))


def test_a_heap_comes_back_on_as_many_ranks_only() -> None:
    def save(context: Context, rank: int) -> None:
        context.empty("field", 10)
        context.checkpoint("a", 7)
        context.wait("a", 7, Level.STORE)

    def restore(context: Context, rank: int) -> None:
        with pytest.raises(kedge.MismatchError, match="version 7 was taken by 2 ranks, and this job has 3; rank [12]: memory of kedge_alloc"):
            context.restart("a")

    with_ranks(2, save)
    with_ranks(3, restore)


def test_blocks_in_turns_become_others() -> None:
    def protect(context: Context, rank: int, ranks: int) -> list[tuple[slice, NDArray[np.float64]]]:
        blocks = []
        for number, begin in enumerate(range(rank * BLOCK, ROWS, ranks * BLOCK)):
            rows = slice(begin, min(begin + BLOCK, ROWS))
            array = np.zeros((rows.stop - rows.start, COLUMNS))
            context.protect(number, array, f"field[{number}]", global_shape=WHOLE.shape, global_offset=(begin, 0))
            blocks.append((rows, array))
        return blocks

    def save(context: Context, rank: int) -> None:
        for rows, array in protect(context, rank, 4):
            array[:] = WHOLE[rows]
        context.checkpoint("turns", 1)
        context.wait("turns", 1)

    def restore(context: Context, rank: int) -> None:
        blocks = protect(context, rank, 3)
        context.restart("turns")
        assert all((array == WHOLE[rows]).all() for rows, array in blocks)

    with_ranks(4, save)
    with_ranks(3, restore)


def test_lists_of_another_length_on_each_rank_are_divided_anew() -> None:
    """As docs/how-to.md has it: their whole length is asked for before anything is protected."""

    def save(context: Context, rank: int) -> None:
        items = np.arange(rank * 10, rank * 10 + rank, dtype=np.int64)
        context.protect(0, items, "items", global_shape=(6,), global_offset=(rank * (rank - 1) // 2,))
        context.checkpoint("list", 1)
        context.wait("list", 1)

    def restore(context: Context, rank: int) -> None:
        whole = context.look("list", 1, rank=3)[0]
        assert whole.global_shape == (6,) and whole.global_offset == (3,) and whole.shape == (3,)
        share = slice(rank * 6 // 5, (rank + 1) * 6 // 5)
        items = np.zeros(share.stop - share.start, dtype=np.int64)
        context.protect(0, items, "items", global_shape=whole.global_shape, global_offset=(share.start,))
        assert context.restart("list") == 1
        assert (items == np.array([10, 20, 21, 30, 31, 32])[share]).all()

    with_ranks(4, save)
    with_ranks(5, restore)


def test_a_list_that_is_empty_on_all_ranks_comes_back_on_others() -> None:
    def protect(context: Context) -> NDArray[np.int64]:
        items = np.zeros(0, dtype=np.int64)
        context.protect(0, items, "items", global_shape=(0,), global_offset=(0,))
        return items

    def save(context: Context, rank: int) -> None:
        items = protect(context)
        context.checkpoint("list", 1)
        context.wait("list", 1)
        assert items.size == 0

    def restore(context: Context, rank: int) -> None:
        protect(context)
        assert context.restart("list") == 1

    with_ranks(2, save)
    with_ranks(3, restore)


def test_what_cannot_be_divided_is_named_before_anything_is_overwritten() -> None:
    def save(context: Context, rank: int) -> None:
        context.protect(0, np.array([rank]), "own")
        protect_rows(context, rank, 4)[1:-1] = WHOLE[rows_of(rank, 4)]
        context.checkpoint("a", 1)
        context.wait("a", 1)

    def refuse(context: Context, rank: int) -> None:
        own = np.array([-5])
        context.protect(0, own, "own")
        field = protect_rows(context, rank, 2)
        with pytest.raises(kedge.MismatchError, match=r"region 0 \(array 'own'\): it has no global shape.*another job.name"):
            context.restart("a")
        context.protect(0, own, "own", replicated=True)
        with pytest.raises(kedge.MismatchError, match="region 0 .* it was saved without a global shape"):
            context.restart("a")
        context.unprotect(0)
        wide = np.zeros((ROWS, COLUMNS + 1))
        context.protect(2, wide, "other", global_shape=wide.shape, global_offset=(0, 0))
        with pytest.raises(kedge.MismatchError, match=r"region 2 \(array 'other'\): it is not in the checkpoint"):
            context.restart("a")
        context.unprotect(2)
        assert own == -5 and (field == -1.0 - rank).all()
        assert context.restart("a") == 1
        with pytest.raises(ValueError, match="global_shape needs an entry for each of 2 dimensions"):
            context.protect(3, wide, global_shape=(3,))
        with pytest.raises(kedge.InvalidArgumentError, match="outside its global array"):
            context.protect(3, wide, global_shape=wide.shape, global_offset=(1, 0))

    with_ranks(4, save)
    with_ranks(2, refuse)
