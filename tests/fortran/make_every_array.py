"""Writes a Fortran program that checkpoints and restores an array of every type and kind in every rank, 0 to 15.

One region each: 12 types times 16 ranks. The program takes a checkpoint, overwrites all arrays, restarts, and compares
bytes, and beside them the shape and the element type that Kedge has recorded.
"""

from __future__ import annotations

import sys
from pathlib import Path

# The Fortran type, how element i of a pattern is made, another value to overwrite with, and the type that Kedge records.
TYPES = [
    ("logical(1)", "logical(mod(i, 3) == 0, 1)", ".false._1", "kedge_type_bool"),
    ("logical(4)", "mod(i, 3) == 0", ".false.", "kedge_type_int32"),
    ("integer(1)", "int(mod(i, 100) + 1, 1)", "0_1", "kedge_type_int8"),
    ("integer(2)", "int(i + 1000, 2)", "0_2", "kedge_type_int16"),
    ("integer(4)", "i + 100000", "0", "kedge_type_int32"),
    ("integer(8)", "i + 10000000000_8", "0_8", "kedge_type_int64"),
    ("real(4)", "i + 0.25_4", "0.0_4", "kedge_type_float32"),
    ("real(8)", "i + 0.125_8", "0.0_8", "kedge_type_float64"),
    ("complex(4)", "cmplx(i + 0.5_4, -i, 4)", "(0.0_4, 0.0_4)", "kedge_type_complex64"),
    ("complex(8)", "cmplx(i + 0.5_8, -i, 8)", "(0.0_8, 0.0_8)", "kedge_type_complex128"),
    ("character(1)", "achar(65 + mod(i, 26))", "' '", "kedge_type_bytes"),
    ("character(7)", "repeat(achar(65 + mod(i, 26)), 7)", "' '", "kedge_type_bytes"),
]


def extents(rank: int) -> list[int]:
    """2, 3, 2, 1, ... so that an order turned round would show."""
    return [(2, 3, 2)[dimension] if dimension < 3 else 1 + dimension % 2 for dimension in range(rank)][:5] + [1] * max(0, rank - 5)


def procedure(index: int, rank: int) -> str:
    """The subroutine that plays one stage ('protect', 'spoil', 'shape' or 'compare') for one array."""
    kind, pattern, other, recorded = TYPES[index]
    shape = extents(rank)
    dimensions = f", dimension({', '.join(map(str, shape))})" if shape else ""
    count = 1
    for extent in shape:
        count *= extent
    fill = f"a = reshape([({pattern}, i = 1, {count})], shape(a))" if shape else f"i = 1\n      a = {pattern}"
    logical = kind.startswith("logical")
    same = f"all(a {'.eqv.' if logical else '=='} b)" if shape else f"(a {'.eqv.' if logical else '=='} b)"
    same = f"logical({same})" if logical else same
    expected = "[integer(8) ::" + (" " + ", ".join(f"{extent}_8" for extent in shape) if shape else "") + "]"
    if kind.startswith("character"):
        fill = fill.replace("[(", f"[{kind} :: (")
    return f"""
  subroutine array_{index}_{rank}(stage)
    character(len=*), intent(in) :: stage
    {kind}{dimensions}, save, target :: a
    {kind}{dimensions} :: b
    integer :: i, stat, element_type
    integer(int64) :: bytes
    integer(int64), allocatable :: saved_shape(:)
    character(len=:), allocatable :: name
    select case (stage)
    case ('protect')
      {fill}
      call kedge_protect(context, {100 * index + rank}, a, stat, name='array {index} {rank}')
      call need(stat == kedge_ok, '{kind} of rank {rank}: protect')
    case ('spoil')
      a = {other}
    case ('shape')
      call kedge_saved_region(context, {100 * index + rank}, bytes, stat, saved_shape, element_type, name)
      call need(stat == kedge_ok, '{kind} of rank {rank}: saved region')
      call need(bytes == storage_size(a) / 8 * {count}, '{kind} of rank {rank}: size')
      call need(size(saved_shape) == {rank}, '{kind} of rank {rank}: rank')
      call need(all(saved_shape == {expected}), '{kind} of rank {rank}: shape')
      call need(element_type == {recorded}, '{kind} of rank {rank}: type')
      call need(name == 'array {index} {rank}', '{kind} of rank {rank}: name')
    case ('compare')
      b = a
      {fill}
      call need({same}, '{kind} of rank {rank}: value')
    end select
  end subroutine array_{index}_{rank}
"""


def program() -> str:
    cases = [(index, rank) for index in range(len(TYPES)) for rank in range(16)]
    calls = "\n".join(f"    call array_{index}_{rank}(stage)" for index, rank in cases)
    return f"""! Made by make_every_array.py.
program every_array
  use, intrinsic :: iso_fortran_env, only: int64
  use kedge
  implicit none
  type(kedge_context) :: context
  integer :: stat, version, failures
  failures = 0
  call kedge_init(context, stat)
  call need(stat == kedge_ok, 'init')
  call all_arrays('protect')
  call kedge_checkpoint(context, 'arrays', 1, stat)
  call need(stat == kedge_ok, 'checkpoint')
  call all_arrays('spoil')
  call kedge_restart(context, 'arrays', version, stat)
  call need(stat == kedge_ok .and. version == 1, 'restart')
  call all_arrays('compare')
  call kedge_restart_begin(context, 'arrays', 1, stat)
  call need(stat == kedge_ok, 'restart_begin')
  call all_arrays('shape')
  call kedge_restart_end(context, .true., stat)
  call need(stat == kedge_ok, 'restart_end')
  call kedge_finalize(context, stat)
  call need(stat == kedge_ok, 'finalize')
  if (failures > 0) error stop 'some arrays differ'
  print '(a, i0)', 'arrays: ', {len(cases)}
contains
  subroutine need(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (condition) return
    failures = failures + 1
    print '(4a)', 'wrong: ', what, ': ', kedge_error_message()
  end subroutine need

  subroutine all_arrays(stage)
    character(len=*), intent(in) :: stage
{calls}
  end subroutine all_arrays
{''.join(procedure(index, rank) for index, rank in cases)}
end program every_array
"""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(program())
