! Files on burst buffers for Fortran: `use kedge_bb`, and `use kedge` for the codes.
!
!   call kedge_bb_connect(buffer, 'fast', stat)
!   call kedge_bb_open(buffer, 'run7/result', kedge_bb_writing, file, stat)
!   call kedge_bb_write(file, field, stat)
!   call kedge_bb_close(file, stat, sync=.true.)     ! only now the file is there
!   call kedge_bb_disconnect(buffer)
!
! Each procedure is the function of the same name in bb.h, whose comments say what it promises. `stat` is kedge_ok (0) or a
! kedge_error_... code; kedge_bb_error_message() is the sentence that belongs to the last one,
! kedge_bb_error_errno() its errno.
module kedge_bb
  use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_funloc, c_funptr, c_int, c_int64_t, c_loc, &
       c_null_char, c_null_ptr, c_ptr, c_size_t, c_sizeof
  implicit none
  private
  public :: kedge_bb_buffer, kedge_bb_file, kedge_bb_entry, kedge_bb_room, kedge_bb_reading, kedge_bb_writing
  public :: kedge_bb_connect, kedge_bb_disconnect, kedge_bb_open, kedge_bb_write, kedge_bb_read, kedge_bb_seek, kedge_bb_tell, &
       kedge_bb_close, kedge_bb_discard, kedge_bb_remove, kedge_bb_rename, kedge_bb_list, kedge_bb_get_room, &
       kedge_bb_error_message, kedge_bb_error_errno

  integer, parameter :: kedge_bb_reading = 1, kedge_bb_writing = 2

  ! A connection, and an open file. Copies name the same one.
  type, bind(C) :: kedge_bb_buffer
    type(c_ptr) :: handle = c_null_ptr
  end type kedge_bb_buffer
  type, bind(C) :: kedge_bb_file
    type(c_ptr) :: handle = c_null_ptr
  end type kedge_bb_file

  ! A file, as kedge_bb_list finds it.
  type :: kedge_bb_entry
    character(len=:), allocatable :: path
    integer(c_int64_t) :: bytes = 0
    integer(c_int64_t) :: modified_ns = 0  ! when it was closed, since 1970, by the server's clock
  end type kedge_bb_entry
  ! In bytes.
  type, bind(C) :: kedge_bb_room
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: own = 0        ! that the owner's files take
    integer(c_int64_t) :: quota = 0      ! that they may take; 0: no bound
    integer(c_int64_t) :: used = 0       ! that all files take
    integer(c_int64_t) :: capacity = 0   ! that they may take; 0: what the disk has
    integer(c_int64_t) :: disk_free = 0
  end type kedge_bb_room

  type, bind(C) :: bb_entry
    type(c_ptr) :: path
    integer(c_int64_t) :: bytes, modified_ns
  end type bb_entry
  type :: listing
    type(kedge_bb_entry), allocatable :: entries(:)
    integer :: count = 0
  end type listing

  type, bind(C) :: bb_options
    integer(c_size_t) :: struct_size
    type(c_ptr) :: folder, owner, secret, config_file
  end type bb_options

  interface
    ! The elements of an array of any type, kind and rank. It is contiguous.
    subroutine kedge_bb_write(file, array, stat) bind(C, name='kedge_bb_fortran_write')
      import :: c_int, kedge_bb_file
      type(kedge_bb_file), intent(in) :: file
      type(*), dimension(..), intent(in) :: array
      integer(c_int), intent(out) :: stat
    end subroutine kedge_bb_write

    ! Fills the array; kedge_error_incomplete: the file ends before that.
    subroutine kedge_bb_read(file, array, stat) bind(C, name='kedge_bb_fortran_read')
      import :: c_int, kedge_bb_file
      type(kedge_bb_file), intent(in) :: file
      type(*), dimension(..), intent(inout) :: array
      integer(c_int), intent(out) :: stat
    end subroutine kedge_bb_read

    integer(c_int) function c_connect(server, options, out) bind(C, name='kedge_bb_connect')
      import :: bb_options, c_char, c_int, c_ptr
      character(kind=c_char), intent(in) :: server(*)
      type(bb_options), intent(in) :: options
      type(c_ptr), intent(out) :: out
    end function c_connect
    subroutine c_disconnect(buffer) bind(C, name='kedge_bb_disconnect')
      import :: c_ptr
      type(c_ptr), value :: buffer
    end subroutine c_disconnect
    integer(c_int) function c_open(buffer, path, mode, out) bind(C, name='kedge_bb_open')
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: buffer
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: mode
      type(c_ptr), intent(out) :: out
    end function c_open
    integer(c_int) function c_seek(file, position) bind(C, name='kedge_bb_seek')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: position
    end function c_seek
    integer(c_int) function c_tell(file, position, size) bind(C, name='kedge_bb_tell')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), intent(out) :: position, size
    end function c_tell
    integer(c_int) function c_close(file, sync) bind(C, name='kedge_bb_close')
      import :: c_int, c_ptr
      type(c_ptr), value :: file
      integer(c_int), value :: sync
    end function c_close
    subroutine c_discard(file) bind(C, name='kedge_bb_discard')
      import :: c_ptr
      type(c_ptr), value :: file
    end subroutine c_discard
    integer(c_int) function c_remove(buffer, path) bind(C, name='kedge_bb_remove')
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: buffer
      character(kind=c_char), intent(in) :: path(*)
    end function c_remove
    integer(c_int) function c_rename(buffer, from, to) bind(C, name='kedge_bb_rename')
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: buffer
      character(kind=c_char), intent(in) :: from(*), to(*)
    end function c_rename
    integer(c_int) function c_list(buffer, prefix, entry, user) bind(C, name='kedge_bb_list')
      import :: c_char, c_funptr, c_int, c_ptr
      type(c_ptr), value :: buffer
      character(kind=c_char), intent(in) :: prefix(*)
      type(c_funptr), value :: entry
      type(c_ptr), value :: user
    end function c_list
    integer(c_int) function c_get_room(buffer, room) bind(C, name='kedge_bb_get_room')
      import :: c_int, c_ptr, kedge_bb_room
      type(c_ptr), value :: buffer
      type(kedge_bb_room), intent(inout) :: room
    end function c_get_room
    type(c_ptr) function c_message() bind(C, name='kedge_bb_error_message')
      import :: c_ptr
    end function c_message
    integer(c_int) function c_errno() bind(C, name='kedge_bb_error_errno')
      import :: c_int
    end function c_errno
    integer(c_size_t) function c_strlen(text) bind(C, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function c_strlen
  end interface

contains

  ! What is not given comes from the configuration: buffer.folder, buffer.owner, buffer.secret.
  subroutine kedge_bb_connect(buffer, server, stat, folder, owner, secret, config_file)
    type(kedge_bb_buffer), intent(out) :: buffer
    character(len=*), intent(in) :: server
    integer, intent(out) :: stat
    character(len=*), intent(in), optional :: folder, owner, secret, config_file
    character(len=:), allocatable, target :: texts(:)
    type(bb_options) :: options
    integer, parameter :: longest = 4096
    allocate (character(len=longest) :: texts(4))
    options%struct_size = c_sizeof(options)
    options%folder = given(texts(1), folder)
    options%owner = given(texts(2), owner)
    options%secret = given(texts(3), secret)
    options%config_file = given(texts(4), config_file)
    stat = c_connect(trim(server) // c_null_char, options, buffer%handle)
  end subroutine kedge_bb_connect

  subroutine kedge_bb_disconnect(buffer)
    type(kedge_bb_buffer), intent(inout) :: buffer
    call c_disconnect(buffer%handle)
    buffer%handle = c_null_ptr
  end subroutine kedge_bb_disconnect

  ! `mode` is kedge_bb_reading or kedge_bb_writing.
  subroutine kedge_bb_open(buffer, path, mode, file, stat)
    type(kedge_bb_buffer), intent(in) :: buffer
    character(len=*), intent(in) :: path
    integer, intent(in) :: mode
    type(kedge_bb_file), intent(out) :: file
    integer, intent(out) :: stat
    stat = c_open(buffer%handle, trim(path) // c_null_char, mode, file%handle)
  end subroutine kedge_bb_open

  ! From 0.
  subroutine kedge_bb_seek(file, position, stat)
    type(kedge_bb_file), intent(in) :: file
    integer(c_int64_t), intent(in) :: position
    integer, intent(out) :: stat
    stat = c_seek(file%handle, position)
  end subroutine kedge_bb_seek

  subroutine kedge_bb_tell(file, position, size, stat)
    type(kedge_bb_file), intent(in) :: file
    integer(c_int64_t), intent(out) :: position, size
    integer, intent(out) :: stat
    stat = c_tell(file%handle, position, size)
  end subroutine kedge_bb_tell

  subroutine kedge_bb_close(file, stat, sync)
    type(kedge_bb_file), intent(inout) :: file
    integer, intent(out) :: stat
    logical, intent(in), optional :: sync
    logical :: is_synced
    is_synced = .false.
    if (present(sync)) is_synced = sync
    stat = c_close(file%handle, merge(1_c_int, 0_c_int, is_synced))
    file%handle = c_null_ptr
  end subroutine kedge_bb_close

  subroutine kedge_bb_discard(file)
    type(kedge_bb_file), intent(inout) :: file
    call c_discard(file%handle)
    file%handle = c_null_ptr
  end subroutine kedge_bb_discard

  subroutine kedge_bb_remove(buffer, path, stat)
    type(kedge_bb_buffer), intent(in) :: buffer
    character(len=*), intent(in) :: path
    integer, intent(out) :: stat
    stat = c_remove(buffer%handle, trim(path) // c_null_char)
  end subroutine kedge_bb_remove

  subroutine kedge_bb_rename(buffer, from, to, stat)
    type(kedge_bb_buffer), intent(in) :: buffer
    character(len=*), intent(in) :: from, to
    integer, intent(out) :: stat
    stat = c_rename(buffer%handle, trim(from) // c_null_char, trim(to) // c_null_char)
  end subroutine kedge_bb_rename

  ! The owner's files whose path begins with `prefix`, in the order of their bytes; none at all after an error.
  subroutine kedge_bb_list(buffer, prefix, entries, stat)
    type(kedge_bb_buffer), intent(in) :: buffer
    character(len=*), intent(in) :: prefix
    type(kedge_bb_entry), allocatable, intent(out) :: entries(:)
    integer, intent(out) :: stat
    type(listing), target :: found
    allocate (found%entries(16))
    stat = c_list(buffer%handle, trim(prefix) // c_null_char, c_funloc(add_entry), c_loc(found))
    if (stat /= 0) found%count = 0
    entries = found%entries(1:found%count)
  end subroutine kedge_bb_list

  ! Appends an entry to the listing `user`.
  integer(c_int) function add_entry(user, entry) bind(C)
    type(c_ptr), value :: user
    type(bb_entry), intent(in) :: entry
    type(listing), pointer :: found
    type(kedge_bb_entry), allocatable :: larger(:)
    call c_f_pointer(user, found)
    if (found%count == size(found%entries)) then
      allocate (larger(2 * found%count))
      larger(1:found%count) = found%entries
      call move_alloc(larger, found%entries)
    end if
    found%count = found%count + 1
    associate (added => found%entries(found%count))
      added%path = text_at(entry%path)
      added%bytes = entry%bytes
      added%modified_ns = entry%modified_ns
    end associate
    add_entry = 0
  end function add_entry

  subroutine kedge_bb_get_room(buffer, room, stat)
    type(kedge_bb_buffer), intent(in) :: buffer
    type(kedge_bb_room), intent(out) :: room
    integer, intent(out) :: stat
    room%struct_size = c_sizeof(room)
    stat = c_get_room(buffer%handle, room)
  end subroutine kedge_bb_get_room

  function kedge_bb_error_message() result(message)
    character(len=:), allocatable :: message
    message = text_at(c_message())
  end function kedge_bb_error_message

  function kedge_bb_error_errno() result(number)
    integer :: number
    number = c_errno()
  end function kedge_bb_error_errno

  ! A C string.
  function text_at(address) result(text)
    type(c_ptr), intent(in) :: address
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(address, letters, [c_strlen(address)])
    allocate (character(len=size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function text_at

  ! The address of `text`, which becomes what is given; null where nothing is.
  type(c_ptr) function given(text, value)
    character(len=*), intent(out), target :: text
    character(len=*), intent(in), optional :: value
    given = c_null_ptr
    if (.not. present(value)) return
    text = trim(value) // c_null_char
    given = c_loc(text)
  end function given
end module kedge_bb
