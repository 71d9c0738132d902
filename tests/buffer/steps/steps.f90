! The module kedge_bb on the burst buffer "fast", which the configuration says how to reach.
program steps
  use, intrinsic :: iso_c_binding, only: c_int64_t
  use kedge_bb
  implicit none
  type(kedge_bb_buffer) :: buffer
  type(kedge_bb_file) :: file
  real(8), target :: field(300, 1000), back(300, 1000)
  complex(4) :: one
  integer :: stat, i
  integer(c_int64_t) :: position, size
  type(kedge_bb_entry), allocatable :: entries(:)
  type(kedge_bb_room) :: room
  integer, parameter :: many = 20
  character(len=32) :: path

  call kedge_bb_connect(buffer, 'nowhere', stat)
  call expect(stat == 2, 'no such server')
  call kedge_bb_connect(buffer, 'fast', stat, secret='/nonexistent/secret')
  call expect(stat == 2, 'no such secret')
  call kedge_bb_connect(buffer, 'fast', stat)
  call expect(stat == 0, 'connect')

  field = reshape([(real(i, 8) / 7, i=1, 300000)], [300, 1000])
  one = (1.5, -2.5)
  call kedge_bb_open(buffer, 'fortran/field', kedge_bb_writing, file, stat)
  call expect(stat == 0, 'open for writing')
  call kedge_bb_write(file, field, stat)
  call expect(stat == 0, 'write an array')
  call kedge_bb_write(file, field(1:2, :), stat)
  call expect(stat == 1 .and. index(kedge_bb_error_message(), 'contiguous') > 0, 'refuse a section with gaps')
  call kedge_bb_write(file, one, stat)
  call expect(stat == 0, 'write a scalar')
  call kedge_bb_close(file, stat, sync=.true.)
  call expect(stat == 0, 'close')

  call kedge_bb_open(buffer, 'fortran/field', kedge_bb_reading, file, stat)
  call expect(stat == 0, 'open for reading')
  call kedge_bb_read(file, back, stat)
  call expect(stat == 0 .and. all(back == field), 'read an array')
  one = 0
  call kedge_bb_read(file, one, stat)
  call expect(stat == 0 .and. one == (1.5, -2.5), 'read a scalar')
  call kedge_bb_read(file, one, stat)
  call expect(stat == 14, 'the end')
  call kedge_bb_tell(file, position, size, stat)
  call expect(position == size .and. size == 8 * 300000 + 8, 'tell')
  call kedge_bb_seek(file, 8_c_int64_t * 200000, stat)
  call kedge_bb_read(file, back(:, 1), stat)
  call expect(stat == 0 .and. back(1, 1) == 200001 / 7.0d0, 'read elsewhere')
  call kedge_bb_close(file, stat)

  call kedge_bb_open(buffer, 'fortran/none', kedge_bb_writing, file, stat)
  call kedge_bb_discard(file)
  call kedge_bb_open(buffer, 'fortran/none', kedge_bb_reading, file, stat)
  call expect(stat == 2, 'what was discarded is not there')
  call kedge_bb_rename(buffer, 'fortran/field', 'fortran/renamed', stat)
  call expect(stat == 0, 'rename')
  call kedge_bb_remove(buffer, 'fortran/renamed', stat)
  call expect(stat == 0, 'remove')

  do i = 1, many
    write (path, '(a, i0)') 'fortran/many/', 100 + i
    call kedge_bb_open(buffer, path, kedge_bb_writing, file, stat)
    call kedge_bb_write(file, field(1:i, 1), stat)
    call kedge_bb_close(file, stat)
    call expect(stat == 0, 'write one of many')
  end do
  call kedge_bb_list(buffer, 'fortran/many/', entries, stat)
  call expect(stat == 0 .and. ubound(entries, 1) == many, 'list')
  do i = 1, many
    write (path, '(a, i0)') 'fortran/many/', 100 + i
    call expect(entries(i)%path == path .and. entries(i)%bytes == 8 * i .and. entries(i)%modified_ns > 0, 'what is listed')
  end do
  call kedge_bb_list(buffer, 'fortran/none', entries, stat)
  call expect(stat == 0 .and. ubound(entries, 1) == 0, 'list nothing')
  call kedge_bb_get_room(buffer, room, stat)
  call expect(stat == 0 .and. room%own > 0 .and. room%used >= room%own .and. room%disk_free > 0, 'room')
  do i = 1, many
    write (path, '(a, i0)') 'fortran/many/', 100 + i
    call kedge_bb_remove(buffer, path, stat)
  end do
  call kedge_bb_rename(buffer, 'fortran/none', 'fortran/other', stat)
  call expect(stat /= 0 .and. kedge_bb_error_errno() == 2, 'say the errno, ENOENT here')
  call kedge_bb_disconnect(buffer)
contains
  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (holds) return
    print '(a)', what // ': ' // kedge_bb_error_message()
    error stop 1
  end subroutine expect
end program steps
