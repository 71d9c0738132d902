! Every procedure of the module once in earnest, in a program of one process.
module tally
  ! An object that is not plain memory: a list whose length is known only at run time.
  use, intrinsic :: iso_c_binding
  use kedge, only: kedge_read, kedge_write
  implicit none
  integer(8), allocatable, target :: entries(:)
contains
  integer(c_int) function tally_size(user, bytes) bind(C)
    type(c_ptr), value :: user
    integer(c_size_t), intent(out) :: bytes
    tally_size = merge(0, 1, c_associated(user, c_loc(entries)))
    bytes = 8 * size(entries)
  end function tally_size

  integer(c_int) function tally_serialize(user, writer) bind(C)
    type(c_ptr), value :: user, writer
    integer :: stat
    call kedge_write(writer, entries, stat)
    tally_serialize = merge(stat, 1, c_associated(user))
  end function tally_serialize

  integer(c_int) function tally_deserialize(user, reader, bytes) bind(C)
    type(c_ptr), value :: user, reader
    integer(c_size_t), value :: bytes
    integer :: stat
    if (allocated(entries)) deallocate (entries)
    allocate (entries(bytes / 8))
    call kedge_read(reader, entries, stat)
    tally_deserialize = merge(stat, 1, c_associated(user))
  end function tally_deserialize
end module tally

program api
  use, intrinsic :: iso_c_binding, only: c_loc
  use, intrinsic :: iso_fortran_env, only: int64
  use kedge
  use tally
  use testing
  implicit none
  type(kedge_context) :: context
  type(kedge_statistics) :: statistics
  real(8) :: field(1000)  ! without TARGET, which the guide asks for: it must work with this compiler all the same
  real(8), target :: other(10)
  integer, target :: step
  integer :: stat, version, level
  logical :: due
  integer(int64) :: large, failed_version
  character(len=:), allocatable :: text

  call kedge_init(context, stat, job='fortran-api', overrides='keep.versions=5')
  call need(stat == kedge_ok, 'init')
  call need(index(kedge_version_string(), '0.') == 1, 'version string')
  call need(len(kedge_status_name(kedge_error_not_found)) > 0, 'status name')

  step = 1
  field = 1.5d0
  call kedge_protect(context, 0, step, stat, name='step')
  call kedge_protect(context, 1, field, stat, name='field ')
  call need(stat == kedge_ok, 'protect')
  call kedge_newest(context, 'api', version, stat)
  call need(stat == kedge_error_not_found .and. version == -1, 'no version yet')
  call kedge_checkpoint(context, 'api', step, stat)
  call need(stat == kedge_ok, 'checkpoint')
  step = 2
  field = 2.5d0
  call kedge_checkpoint(context, 'api', 2_int64, stat)
  call need(stat == kedge_ok, 'checkpoint with an 8-byte version')
  call kedge_checkpoint(context, 'api', 2, stat)
  call need(stat == kedge_error_already_exists .or. stat == kedge_error_invalid_argument &
       .or. stat == kedge_error_failed_precondition, 'a version twice is refused')
  call kedge_checkpoint(context, 'api', 2, stat, overwrite=.true.)
  call need(stat == kedge_ok, 'a version twice with overwrite')
  call kedge_wait(context, stat)
  call need(stat == kedge_ok, 'wait for the newest')
  call kedge_wait(context, 'api', 2, stat, level=kedge_level_buffer, timeout=60d0)
  call need(stat == kedge_ok, 'wait for level buffer, reached with the store where none lies before it')
  call kedge_wait(context, 'api', 2, stat, level=kedge_level_store, timeout=60d0)
  call need(stat == kedge_ok, 'wait for a version')
  call kedge_wait(context, 'api', 1_int64, stat)
  call need(stat == kedge_ok, 'wait for an 8-byte version')
  call kedge_test(context, 'api', 2, level, stat)
  call need(stat == kedge_ok .and. level == kedge_level_store, 'test')
  call kedge_test(context, 'api', 2_int64, level, stat)
  call need(stat == kedge_ok .and. level == kedge_level_store, 'test of an 8-byte version')
  call wait_until_nothing_is_pending()
  call kedge_last_flush_error(context, text, failed_version, stat)
  call need(stat == kedge_ok, 'no flush has failed')

  step = -1
  field = -1
  call kedge_restart(context, 'api', version, stat)
  call need(stat == kedge_ok .and. version == 2 .and. step == 2, 'restart')
  call need(all(field == 2.5d0), 'restart of an array that has no TARGET')
  call kedge_restart(context, 'api', large, stat, at_most=1_int64)
  call need(stat == kedge_ok .and. large == 1 .and. step == 1 .and. all(field == 1.5d0), 'restart of an older version')
  call kedge_newest(context, 'api', version, stat, at_most=1)
  call need(stat == kedge_ok .and. version == 1, 'newest at most 1')
  call kedge_newest(context, 'api', large, stat)
  call need(stat == kedge_ok .and. large == 1, 'newest in 8 bytes: it has gone back to 1')
  call kedge_pin(context, 'api', 1, stat)
  call need(stat == kedge_ok, 'pin')
  call kedge_pin(context, 'api', 1_int64, stat, pinned=.false.)
  call need(stat == kedge_ok, 'unpin')

  call parts()
  call groups_and_objects()
  call blocks()

  step = 7
  call kedge_checkpoint(context, 'large', huge(0) + 10_int64, stat)
  call need(stat == kedge_ok, 'a version above 4 bytes')
  call kedge_restart(context, 'large', version, stat)
  call need(stat == kedge_error_invalid_argument .and. index(kedge_error_message(), 'int64') > 0, 'it does not fit 4 bytes')

  call kedge_cleanup(context, stat)
  call need(stat == kedge_ok, 'cleanup')
  call kedge_checkpoint_due(context, due, stat)
  call need(stat == kedge_ok .and. due, 'always due without an interval')
  call kedge_should_exit(context, due, stat)
  call need(stat == kedge_ok .and. .not. due, 'nobody asked the job to end')
  call kedge_phase(context, kedge_phase_communication, stat)
  call need(stat == kedge_ok, 'it communicates')
  call kedge_phase(context, kedge_phase_computation, stat)
  call need(stat == kedge_ok, 'it computes')
  call kedge_phase(context, 7, stat)
  call need(stat == kedge_error_invalid_argument, 'no such phase')
  call kedge_get_statistics(context, statistics, stat)
  call need(statistics%checkpoints_not_due == 0, 'statistics: not due')
  call need(stat == kedge_ok .and. statistics%checkpoints >= 6, 'statistics: checkpoints')
  call need(statistics%bytes_captured >= 3 * 8004, 'statistics: bytes')
  call need(statistics%blocked_seconds > 0 .and. statistics%last_restart_seconds > 0, 'statistics: seconds')
  call kedge_unprotect(context, 1, stat)
  call need(stat == kedge_ok, 'unprotect')
  call kedge_unprotect(context, 1, stat)
  call need(stat == kedge_error_not_found, 'unprotect twice')
  call kedge_clear(context, stat)
  call need(stat == kedge_ok, 'clear')
  call kedge_finalize(context, stat)
  call need(stat == kedge_ok, 'finalize')
  call kedge_checkpoint(context, 'api', 9, stat)
  call need(stat == kedge_error_invalid_argument, 'a call after finalize')
  call finish('api')

contains

  ! The first take of version 2 is not waited for above; it ends by itself, within a minute at the very most.
  subroutine wait_until_nothing_is_pending()
    integer :: began, now, ticks_per_second
    call system_clock(began, ticks_per_second)
    do
      call kedge_pending(context, stat)
      call system_clock(now)
      if (stat /= kedge_error_busy .or. now - began > 60 * ticks_per_second) exit
    end do
    call need(stat == kedge_ok, 'nothing is pending')
  end subroutine wait_until_nothing_is_pending

  subroutine parts()
    character(len=:), allocatable :: value
    integer :: unit
    character(len=20) :: line
    call kedge_checkpoint_begin(context, 'parts', 1, stat)
    call need(stat == kedge_ok, 'begin')
    call kedge_annotate(context, 'note', ' blanks count ', stat)
    call need(stat == kedge_ok, 'annotate')
    call kedge_route_file(context, 'table.txt', text, stat)
    call need(stat == kedge_ok .and. len(text) > 0, 'route a file')
    if (stat == kedge_ok) then
      open (newunit=unit, file=text, action='write')
      write (unit, '(a)') 'routed'
      close (unit)
    end if
    call kedge_checkpoint_part(context, kedge_some, stat, [1])
    call need(stat == kedge_ok, 'part')
    call kedge_checkpoint_part(context, kedge_rest, stat)
    call need(stat == kedge_ok, 'rest')
    call kedge_checkpoint_end(context, .true., stat)
    call need(stat == kedge_ok, 'end')

    step = 0
    field = 0
    call kedge_restart_begin(context, 'parts', 1, stat)
    call need(stat == kedge_ok, 'restart begin')
    call kedge_annotation(context, 'note', value, stat)
    call need(stat == kedge_ok .and. value == ' blanks count ' .and. len(value) == 14, 'annotation')
    call kedge_annotation(context, 'absent', value, stat)
    call need(stat /= kedge_ok .and. value == '', 'an annotation that is not there')
    call kedge_route_file(context, 'table.txt', text, stat)
    call need(stat == kedge_ok, 'route a file back')
    if (stat == kedge_ok) then
      open (newunit=unit, file=text, action='read')
      read (unit, '(a)') line
      close (unit)
      call need(line == 'routed', 'the routed file')
    end if
    call kedge_restart_part(context, kedge_some, stat, [1])
    call need(stat == kedge_ok .and. field(1) == 1.5d0 .and. step == 0, 'one region')
    call kedge_restart_part(context, kedge_rest, stat)
    call need(stat == kedge_ok .and. step == 1, 'the rest')
    call kedge_restart_end(context, .true., stat)
    call need(stat == kedge_ok, 'restart end')

    step = 0
    call kedge_load_begin(context, 'parts', 1, stat)
    call need(stat == kedge_ok, 'load begin')
    call kedge_restart_part(context, kedge_rest, stat)
    call need(stat == kedge_ok .and. step == 1, 'what is read')
    call kedge_restart_end(context, .true., stat)
    call need(stat == kedge_ok, 'the end of reading')

    call kedge_restart_as(context, 0, stat)
    call need(stat == kedge_ok, 'restart as rank 0')
    call kedge_restart_as(context, -1, stat)
    call need(stat == kedge_ok, 'restart as oneself')
    call kedge_checkpoint_begin(context, 'parts', 2, stat)
    call kedge_checkpoint_end(context, .false., stat)
    call kedge_newest(context, 'parts', version, stat)
    call need(version == 1, 'an abandoned version is none')
  end subroutine parts

  subroutine groups_and_objects()
    call kedge_group(context, stat, 'second group')
    call need(stat == kedge_ok, 'group')
    other = 3
    allocate (entries(3))
    entries = [11_8, 12_8, 13_8]
    call kedge_protect(context, 1, other, stat)
    call kedge_protect_object(context, 2, tally_size, tally_serialize, tally_deserialize, stat, user=c_loc(entries), &
         name='tally')
    call need(stat == kedge_ok, 'protect an object')
    call kedge_checkpoint(context, 'second', 1, stat)
    call need(stat == kedge_ok, 'checkpoint of a group')
    other = 0
    entries = 0
    call kedge_restart(context, 'second', version, stat)
    call need(stat == kedge_ok .and. all(other == 3), 'restart of a group')
    call need(size(entries) == 3 .and. all(entries == [11_8, 12_8, 13_8]), 'the object came back')
    call kedge_group(context, stat)
    call need(stat == kedge_ok, 'default group')
  end subroutine groups_and_objects

  subroutine blocks()
    real(8), pointer :: grid(:, :), again(:, :), line(:)
    complex, pointer :: z(:)
    integer, pointer :: count
    grid => null()
    again => null()
    line => null()
    z => null()
    count => null()
    call kedge_alloc(context, 'grid', grid, [30, 20], stat)
    call need(stat == kedge_ok, 'an array of Kedge')
    call need(all(shape(grid) == [30, 20]) .and. all(lbound(grid) == 1) .and. all(grid == 0), 'its shape, and zeros')
    call kedge_alloc(context, 'z', z, [100_int64], stat)
    call need(stat == kedge_ok .and. size(z) == 100, 'one of complex numbers, with a shape of 8 bytes')
    call kedge_alloc(context, 'count ', count, [integer ::], stat)
    call need(stat == kedge_ok, 'a scalar')
    count = 5
    grid = 1.5d0
    grid(30, 20) = 2.5d0
    z(100) = (1.0, 2.0)
    call kedge_checkpoint(context, 'blocks', 1, stat)
    call need(stat == kedge_ok, 'checkpoint of blocks')
    count = 6
    grid = 0
    z = 0
    call kedge_restart(context, 'blocks', version, stat)
    call need(stat == kedge_ok .and. count == 5 .and. all(grid(1:29, :) == 1.5d0) .and. grid(30, 20) == 2.5d0, 'they came back')
    call need(z(100) == (1.0, 2.0), 'complex numbers, too')
    call kedge_find(context, 'grid', again, stat)
    call need(stat == kedge_ok .and. associated(again, grid), 'found by its name')
    call kedge_find(context, 'grid', line, stat)
    call need(stat == kedge_error_mismatch .and. index(kedge_error_message(), '2 dimensions') > 0, 'of another rank')
    call kedge_find(context, 'z', line, stat)
    call need(stat == kedge_error_mismatch, 'of another type')
    call kedge_find(context, 'nothing', line, stat)
    call need(stat == kedge_error_not_found, 'a name that no block has')
    call kedge_alloc(context, 'grid', line, [5], stat)
    call need(stat == kedge_error_already_exists, 'a name that one has')
    call kedge_alloc(context, 'more', grid, [5], stat)
    call need(stat == kedge_error_invalid_argument .and. index(kedge_error_message(), 'expected 2 integers') > 0, &
         'a shape of another rank')
    call kedge_free(context, again, stat)
    call need(stat == kedge_ok, 'free')
    call kedge_find(context, 'grid', again, stat)
    call need(stat == kedge_error_not_found, 'what was freed')
    call kedge_free(context, z, stat)
    call kedge_free(context, count, stat)
    call need(stat == kedge_ok, 'free a scalar')
  end subroutine blocks

end program api
