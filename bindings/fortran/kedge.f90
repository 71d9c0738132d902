! Kedge for Fortran: `use kedge`. Checkpoint and restart of arrays of every intrinsic type, kind and rank (0 to 15).
!
!   call kedge_init(context, stat)                       ! or kedge_mpi_init(context, comm, stat), from module kedge_mpi
!   call kedge_protect(context, 1, temperature, stat, name='temperature')
!   call kedge_restart(context, 'heat', version, stat)   ! stat is kedge_error_not_found on the first launch, and only then
!   call kedge_checkpoint(context, 'heat', version, stat)
!   call kedge_finalize(context, stat)
!
! Each procedure is the function of the same name in kedge.h, whose comments say what it promises. What differs:
! - `stat` is kedge_ok (0) or a kedge_error_... code; kedge_error_message() is the sentence that belongs to the last one.
! - Names are ordinary character values; trailing blanks do not count. Optional arguments come last, after `stat`.
! - Versions are integers of 4 or 8 bytes.
! - An array is kept by address: it must stay where it is until kedge_unprotect, kedge_clear or the next kedge_protect of
!   its id, and it must be contiguous; a section with gaps is refused. An array that a caller further up has passed
!   through an explicit-shape dummy argument may be a copy that the compiler made; protect it where it is declared. Give
!   it the TARGET attribute: it is read and written by calls that do not name it.
module kedge
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_double, c_f_pointer, c_funloc, c_int, c_int64_t, c_loc, &
       c_null_char, c_null_ptr, c_ptr, c_size_t, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use kedge_c, only: kedge_context, kedge_statistics, kedge_ok, kedge_error_invalid_argument, kedge_error_not_found, &
       kedge_error_already_exists, kedge_error_corrupt, kedge_error_unsupported, kedge_error_no_space, kedge_error_io, &
       kedge_error_permission, kedge_error_unavailable, kedge_error_timeout, kedge_error_mismatch, kedge_error_busy, &
       kedge_error_failed_precondition, kedge_error_incomplete, kedge_error_internal, kedge_error_lost, &
       kedge_type_bytes, kedge_type_int8, kedge_type_int16, kedge_type_int32, kedge_type_int64, &
       kedge_type_float32, kedge_type_float64, kedge_type_complex64, kedge_type_complex128, kedge_type_bool, &
       kedge_level_none, kedge_level_local, kedge_level_node, kedge_level_buffer, kedge_level_store, kedge_level_last, &
       kedge_all, kedge_some, kedge_rest, kedge_phase_computation, kedge_phase_communication, kedge_max_dimensions
  use kedge_c, only: kedge_options, kedge_region_info, kedge_object_callbacks, c_annotate, c_annotation, c_checkpoint, &
       c_checkpoint_begin, c_checkpoint_due, c_checkpoint_end, c_checkpoint_part, c_cleanup, c_clear, c_error_message, c_finalize, &
       c_get_statistics, c_group, c_init, c_last_flush_error, c_load_begin, c_newest, c_pending, c_phase, c_pin, c_protect, &
       c_protect_object, c_refuse, c_restart, c_restart_as, c_restart_begin, c_restart_end, c_restart_part, c_route_file, &
       c_saved_region, c_should_exit, c_status_name, c_test, c_told, c_unprotect, c_version_string, c_wait
  use kedge_heap, only: kedge_alloc, kedge_find, kedge_free
  implicit none
  private

  public :: kedge_context, kedge_statistics
  public :: kedge_ok, kedge_error_invalid_argument, kedge_error_not_found, kedge_error_already_exists, &
       kedge_error_corrupt, kedge_error_unsupported, kedge_error_no_space, kedge_error_io, kedge_error_permission, &
       kedge_error_unavailable, kedge_error_timeout, kedge_error_mismatch, kedge_error_busy, &
       kedge_error_failed_precondition, kedge_error_incomplete, kedge_error_internal, kedge_error_lost
  public :: kedge_type_bytes, kedge_type_int8, kedge_type_int16, kedge_type_int32, kedge_type_int64, &
       kedge_type_float32, kedge_type_float64, kedge_type_complex64, kedge_type_complex128, kedge_type_bool
  public :: kedge_level_none, kedge_level_local, kedge_level_node, kedge_level_buffer, kedge_level_store, kedge_level_last
  public :: kedge_all, kedge_some, kedge_rest, kedge_max_dimensions
  public :: kedge_phase_computation, kedge_phase_communication
  public :: kedge_init, kedge_finalize, kedge_error_message, kedge_status_name, kedge_version_string
  public :: kedge_protect, kedge_protect_address, kedge_protect_object, kedge_unprotect, kedge_clear, kedge_group
  public :: kedge_alloc, kedge_find, kedge_free
  public :: kedge_write, kedge_read, kedge_size_callback, kedge_serialize_callback, kedge_deserialize_callback
  public :: kedge_checkpoint, kedge_checkpoint_begin, kedge_checkpoint_part, kedge_checkpoint_end, &
       kedge_checkpoint_due, kedge_should_exit, kedge_phase
  public :: kedge_route_file, kedge_annotate, kedge_annotation
  public :: kedge_wait, kedge_test, kedge_pending, kedge_last_flush_error
  public :: kedge_newest, kedge_restart, kedge_restart_begin, kedge_restart_part, kedge_restart_end
  public :: kedge_load_begin, kedge_saved_region, kedge_restart_as, kedge_cleanup, kedge_pin, kedge_get_statistics
  public :: kedge_fill_options  ! for the module kedge_mpi

  ! Call-backs of kedge_protect_object; all return 0 on success.
  abstract interface
    integer(c_int) function kedge_size_callback(user, bytes) bind(C)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: user
      integer(c_size_t), intent(out) :: bytes
    end function kedge_size_callback

    integer(c_int) function kedge_serialize_callback(user, writer) bind(C)
      import :: c_int, c_ptr
      type(c_ptr), value :: user, writer
    end function kedge_serialize_callback

    integer(c_int) function kedge_deserialize_callback(user, reader, bytes) bind(C)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: user, reader
      integer(c_size_t), value :: bytes
    end function kedge_deserialize_callback
  end interface

  interface
    ! Declares `array` as region `id`, with its type and shape. Refused: a section with gaps, a derived type, an
    ! assumed-size or unallocated array. `global_shape` and `global_offset` (one entry per dimension, the offset from 0) place
    ! it in a global array, of which `halo` elements on both sides are no part; with `replicated` /= 0 all ranks have the
    ! same. C is called directly, so that the compiler makes
    ! no copy of what is passed. (gfortran 12 crashes when `name` is itself an optional dummy argument of the caller: call
    ! with or without it, under `if (present(name))`.)
    subroutine kedge_protect(context, id, array, stat, name, global_shape, global_offset, halo, replicated) &
         bind(C, name='kedge_fortran_protect')
      import :: c_char, c_int, c_int64_t, kedge_context
      type(kedge_context), intent(in) :: context
      integer(c_int), intent(in) :: id
      type(*), dimension(..), intent(inout), target :: array
      integer(c_int), intent(out) :: stat
      character(kind=c_char, len=*), intent(in), optional :: name
      integer(c_int64_t), intent(in), optional :: global_shape(:), global_offset(:), halo(:)
      integer(c_int), intent(in), optional :: replicated
    end subroutine kedge_protect

    ! In a serialize call-back: the bytes of `array` go into the checkpoint.
    subroutine kedge_write(writer, array, stat) bind(C, name='kedge_fortran_write')
      import :: c_int, c_ptr
      type(c_ptr), intent(in) :: writer
      type(*), dimension(..), intent(in) :: array
      integer(c_int), intent(out) :: stat
    end subroutine kedge_write

    ! In a deserialize call-back: the next bytes of the saved object fill `array`.
    subroutine kedge_read(reader, array, stat) bind(C, name='kedge_fortran_read')
      import :: c_int, c_ptr
      type(c_ptr), intent(in) :: reader
      type(*), dimension(..), intent(inout) :: array
      integer(c_int), intent(out) :: stat
    end subroutine kedge_read
  end interface

  interface kedge_checkpoint
    module procedure checkpoint_int32, checkpoint_int64
  end interface
  interface kedge_checkpoint_begin
    module procedure checkpoint_begin_int32, checkpoint_begin_int64
  end interface
  interface kedge_wait
    module procedure wait_newest, wait_int32, wait_int64
  end interface
  interface kedge_test
    module procedure test_int32, test_int64
  end interface
  interface kedge_newest
    module procedure newest_int32, newest_int64
  end interface
  interface kedge_restart
    module procedure restart_int32, restart_int64
  end interface
  interface kedge_restart_begin
    module procedure restart_begin_int32, restart_begin_int64
  end interface
  interface kedge_load_begin
    module procedure load_begin_int32, load_begin_int64
  end interface
  interface kedge_pin
    module procedure pin_int32, pin_int64
  end interface

contains

  ! ---- Texts ----

  ! `text` without trailing blanks, with the NUL that C wants.
  pure function c_text(text) result(c)
    character(len=*), intent(in) :: text
    character(kind=c_char) :: c(len_trim(text) + 1)
    integer :: i
    do i = 1, len_trim(text)
      c(i) = text(i:i)
    end do
    c(len_trim(text) + 1) = c_null_char
  end function c_text

  ! Keeps an optional text in `storage` as C wants it, and points at it; NULL when it is absent.
  function text_pointer(storage, text) result(pointer_to_text)
    character(kind=c_char), allocatable, target, intent(out) :: storage(:)
    character(len=*), intent(in), optional :: text
    type(c_ptr) :: pointer_to_text
    pointer_to_text = c_null_ptr
    if (.not. present(text)) return
    storage = c_text(text)
    pointer_to_text = c_loc(storage)
  end function text_pointer

  ! The characters up to the first NUL.
  pure function up_to_null(c) result(text)
    character(kind=c_char), intent(in) :: c(:)
    character(len=:), allocatable :: text
    integer :: i, length
    length = 0
    do while (length < size(c))
      if (c(length + 1) == c_null_char) exit
      length = length + 1
    end do
    allocate (character(len=length) :: text)
    do i = 1, length
      text(i:i) = c(i)
    end do
  end function up_to_null

  ! A copy of what C owns; '' for NULL.
  function copy_text(pointer_to_text) result(text)
    type(c_ptr), intent(in) :: pointer_to_text
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: c(:)
    interface
      integer(c_size_t) function c_strlen(s) bind(C, name='strlen')
        import :: c_ptr, c_size_t
        type(c_ptr), value :: s
      end function c_strlen
    end interface
    text = ''
    if (.not. c_associated(pointer_to_text)) return
    call c_f_pointer(pointer_to_text, c, [c_strlen(pointer_to_text)])
    text = up_to_null(c)
  end function copy_text

  ! The sentence that belongs to this thread's last stat other than kedge_ok.
  function kedge_error_message() result(message)
    character(len=:), allocatable :: message
    message = copy_text(c_error_message())
  end function kedge_error_message

  function kedge_status_name(status) result(name)
    integer, intent(in) :: status
    character(len=:), allocatable :: name
    name = copy_text(c_status_name(status))
  end function kedge_status_name

  function kedge_version_string() result(version)
    character(len=:), allocatable :: version
    version = copy_text(c_version_string())
  end function kedge_version_string

  ! ---- Context ----

  ! Makes a context for a program of one process. For MPI programs: kedge_mpi_init in the module kedge_mpi.
  subroutine kedge_init(context, stat, job, config_file, overrides)
    type(kedge_context), intent(out) :: context
    integer, intent(out) :: stat
    character(len=*), intent(in), optional :: job, config_file, overrides
    character(kind=c_char), allocatable, target :: job_text(:), file_text(:), overrides_text(:)
    type(kedge_options) :: options
    call kedge_fill_options(options, job_text, file_text, overrides_text, job, config_file, overrides)
    stat = c_told(c_init(options, c_null_ptr, context%handle))
  end subroutine kedge_init

  ! kedge_options from optional texts, which are kept by the caller as long as the options are used.
  subroutine kedge_fill_options(options, job_text, file_text, overrides_text, job, config_file, overrides)
    type(kedge_options), intent(out) :: options
    character(kind=c_char), allocatable, target, intent(out) :: job_text(:), file_text(:), overrides_text(:)
    character(len=*), intent(in), optional :: job, config_file, overrides
    options%struct_size = c_sizeof(options)
    options%job = text_pointer(job_text, job)
    options%config_file = text_pointer(file_text, config_file)
    options%overrides = text_pointer(overrides_text, overrides)
  end subroutine kedge_fill_options

  ! Ends the session. `drain` (default .true.) waits until everything is at its last level and tells of a failed flush.
  subroutine kedge_finalize(context, stat, drain)
    type(kedge_context), intent(inout) :: context
    integer, intent(out) :: stat
    logical, intent(in), optional :: drain
    stat = c_told(c_finalize(context%handle, flag(drain, .true.)))
    context%handle = c_null_ptr
  end subroutine kedge_finalize

  pure integer(c_int) function flag(value, default)
    logical, intent(in), optional :: value
    logical, intent(in) :: default
    logical :: chosen
    chosen = default
    if (present(value)) chosen = value
    flag = merge(1_c_int, 0_c_int, chosen)
  end function flag

  ! ---- What a checkpoint holds ----

  ! Memory of any kind by its address: `count` elements of `element_bytes` each. Nothing is known of its type and shape, so that
  ! it takes, at a restart, as many bytes of whatever kind.
  subroutine kedge_protect_address(context, id, address, count, element_bytes, stat, name)
    type(kedge_context), intent(in) :: context
    integer, intent(in) :: id
    type(c_ptr), intent(in) :: address
    integer(c_size_t), intent(in) :: count, element_bytes
    integer, intent(out) :: stat
    character(len=*), intent(in), optional :: name
    character(kind=c_char), allocatable, target :: name_text(:)
    type(kedge_region_info) :: info
    info%struct_size = c_sizeof(info)
    info%name = text_pointer(name_text, name)
    stat = c_told(c_protect(context%handle, id, address, count, element_bytes, info))
  end subroutine kedge_protect_address

  ! An object that is not plain memory, written and read by call-backs, each given `user`.
  subroutine kedge_protect_object(context, id, size_of, serialize, deserialize, stat, user, name)
    type(kedge_context), intent(in) :: context
    integer, intent(in) :: id
    procedure(kedge_size_callback) :: size_of
    procedure(kedge_serialize_callback) :: serialize
    procedure(kedge_deserialize_callback) :: deserialize
    integer, intent(out) :: stat
    type(c_ptr), intent(in), optional :: user
    character(len=*), intent(in), optional :: name
    character(kind=c_char), allocatable, target :: name_text(:)
    type(kedge_object_callbacks) :: object
    object%struct_size = c_sizeof(object)
    object%user = c_null_ptr
    if (present(user)) object%user = user
    object%size = c_funloc(size_of)
    object%serialize = c_funloc(serialize)
    object%deserialize = c_funloc(deserialize)
    stat = c_told(c_protect_object(context%handle, id, text_pointer(name_text, name), object))
  end subroutine kedge_protect_object

  subroutine kedge_unprotect(context, id, stat)
    type(kedge_context), intent(in) :: context
    integer, intent(in) :: id
    integer, intent(out) :: stat
    stat = c_told(c_unprotect(context%handle, id))
  end subroutine kedge_unprotect

  subroutine kedge_clear(context, stat)
    type(kedge_context), intent(in) :: context
    integer, intent(out) :: stat
    stat = c_told(c_clear(context%handle))
  end subroutine kedge_clear

  ! Selects a group of regions for the calls that follow; without `group`, the default one.
  subroutine kedge_group(context, stat, group)
    type(kedge_context), intent(in) :: context
    integer, intent(out) :: stat
    character(len=*), intent(in), optional :: group
    character(kind=c_char), allocatable, target :: group_text(:)
    stat = c_told(c_group(context%handle, text_pointer(group_text, group)))
  end subroutine kedge_group

  ! ---- Checkpoint ----

  ! `overwrite`: a version that is not greater than the newest is accepted.
  subroutine checkpoint_int64(context, name, version, stat, overwrite)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: version
    integer, intent(out) :: stat
    logical, intent(in), optional :: overwrite
    stat = c_told(c_checkpoint(context%handle, c_text(name), version, flag(overwrite, .false.)))
  end subroutine checkpoint_int64

  subroutine checkpoint_int32(context, name, version, stat, overwrite)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int32), intent(in) :: version
    integer, intent(out) :: stat
    logical, intent(in), optional :: overwrite
    call checkpoint_int64(context, name, int(version, int64), stat, overwrite)
  end subroutine checkpoint_int32

  subroutine checkpoint_begin_int64(context, name, version, stat, overwrite)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: version
    integer, intent(out) :: stat
    logical, intent(in), optional :: overwrite
    stat = c_told(c_checkpoint_begin(context%handle, c_text(name), version, flag(overwrite, .false.)))
  end subroutine checkpoint_begin_int64

  subroutine checkpoint_begin_int32(context, name, version, stat, overwrite)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int32), intent(in) :: version
    integer, intent(out) :: stat
    logical, intent(in), optional :: overwrite
    call checkpoint_begin_int64(context, name, int(version, int64), stat, overwrite)
  end subroutine checkpoint_begin_int32

  ! `selection` is kedge_all, kedge_some (the regions in `ids`) or kedge_rest.
  subroutine kedge_checkpoint_part(context, selection, stat, ids)
    type(kedge_context), intent(in) :: context
    integer, intent(in) :: selection
    integer, intent(out) :: stat
    integer, intent(in), optional :: ids(:)
    if (present(ids)) then
      stat = c_told(c_checkpoint_part(context%handle, selection, ids, size(ids, kind=c_size_t)))
    else
      stat = c_told(c_checkpoint_part(context%handle, selection, [integer(c_int) ::], 0_c_size_t))
    end if
  end subroutine kedge_checkpoint_part

  subroutine kedge_checkpoint_end(context, success, stat)
    type(kedge_context), intent(in) :: context
    logical, intent(in) :: success
    integer, intent(out) :: stat
    stat = c_told(c_checkpoint_end(context%handle, flag(success, .true.)))
  end subroutine kedge_checkpoint_end

  ! Where to write (or, in a restart, read) the file that the application calls `original`.
  subroutine kedge_route_file(context, original, routed, stat)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: original
    character(len=:), allocatable, intent(out) :: routed
    integer, intent(out) :: stat
    character(kind=c_char) :: buffer(4096)
    buffer = c_null_char
    stat = c_told(c_route_file(context%handle, c_text(original), buffer, size(buffer, kind=c_size_t)))
    routed = up_to_null(buffer)
  end subroutine kedge_route_file

  ! A key and a value stored with the version, between begin and end; all of `value` counts, blanks too.
  subroutine kedge_annotate(context, key, value, stat)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: key, value
    integer, intent(out) :: stat
    stat = c_told(c_annotate(context%handle, c_text(key), value, len(value, kind=c_size_t)))
  end subroutine kedge_annotate

  subroutine kedge_annotation(context, key, value, stat)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: key
    character(len=:), allocatable, intent(out) :: value
    integer, intent(out) :: stat
    integer(c_size_t) :: bytes, capacity
    value = ''
    bytes = 0
    stat = c_told(c_annotation(context%handle, c_text(key), value, 0_c_size_t, bytes))
    if (bytes == 0) return
    deallocate (value)
    capacity = bytes
    allocate (character(len=capacity) :: value)
    stat = c_told(c_annotation(context%handle, c_text(key), value, capacity, bytes))
  end subroutine kedge_annotation

  ! Waits until all ranks' images of the newest checkpoint of this context are at `level` (default: the last one
  ! scheduled), at most `timeout` seconds (default: wait.timeout of the configuration).
  subroutine wait_newest(context, stat, level, timeout)
    type(kedge_context), intent(in) :: context
    integer, intent(out) :: stat
    integer, intent(in), optional :: level
    real(c_double), intent(in), optional :: timeout
    call wait_for(context, c_null_ptr, 0_int64, stat, level, timeout)
  end subroutine wait_newest

  ! The same for one version of `name`.
  subroutine wait_int64(context, name, version, stat, level, timeout)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: version
    integer, intent(out) :: stat
    integer, intent(in), optional :: level
    real(c_double), intent(in), optional :: timeout
    character(kind=c_char), allocatable, target :: name_text(:)
    call wait_for(context, text_pointer(name_text, name), version, stat, level, timeout)
  end subroutine wait_int64

  subroutine wait_int32(context, name, version, stat, level, timeout)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int32), intent(in) :: version
    integer, intent(out) :: stat
    integer, intent(in), optional :: level
    real(c_double), intent(in), optional :: timeout
    call wait_int64(context, name, int(version, int64), stat, level, timeout)
  end subroutine wait_int32

  subroutine wait_for(context, name, version, stat, level, timeout)
    type(kedge_context), intent(in) :: context
    type(c_ptr), intent(in) :: name
    integer(int64), intent(in) :: version
    integer, intent(out) :: stat
    integer, intent(in), optional :: level
    real(c_double), intent(in), optional :: timeout
    integer(c_int) :: level_chosen
    real(c_double) :: timeout_seconds
    level_chosen = kedge_level_last
    if (present(level)) level_chosen = level
    timeout_seconds = -1
    if (present(timeout)) timeout_seconds = timeout
    stat = c_told(c_wait(context%handle, name, version, level_chosen, timeout_seconds))
  end subroutine wait_for

  subroutine test_int64(context, name, version, level, stat)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: version
    integer, intent(out) :: level, stat
    stat = c_told(c_test(context%handle, c_text(name), version, level))
  end subroutine test_int64

  subroutine test_int32(context, name, version, level, stat)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int32), intent(in) :: version
    integer, intent(out) :: level, stat
    call test_int64(context, name, int(version, int64), level, stat)
  end subroutine test_int32

  ! Whether schedule.interval has passed since the last checkpoint ended; always, without one. Collective, and alike on
  ! all ranks.
  subroutine kedge_checkpoint_due(context, due, stat)
    type(kedge_context), intent(in) :: context
    logical, intent(out) :: due
    integer, intent(out) :: stat
    integer(c_int) :: answer
    answer = 0
    stat = c_told(c_checkpoint_due(context%handle, answer))
    due = answer /= 0
  end subroutine kedge_checkpoint_due

  ! Whether the job has been asked to end (kedge halt). Collective, and alike on all ranks.
  subroutine kedge_should_exit(context, should_exit, stat)
    type(kedge_context), intent(in) :: context
    logical, intent(out) :: should_exit
    integer, intent(out) :: stat
    integer(c_int) :: answer
    answer = 0
    stat = c_told(c_should_exit(context%handle, answer))
    should_exit = answer /= 0
  end subroutine kedge_should_exit

  ! A hint: what this rank does from now on, kedge_phase_communication or kedge_phase_computation. While it communicates, agents
  ! do not read its images over the network for what nobody waits for.
  subroutine kedge_phase(context, phase, stat)
    type(kedge_context), intent(in) :: context
    integer, intent(in) :: phase
    integer, intent(out) :: stat
    stat = c_told(c_phase(context%handle, int(phase, c_int)))
  end subroutine kedge_phase

  ! kedge_ok when nothing of this rank is pending, kedge_error_busy while a flush runs or waits.
  subroutine kedge_pending(context, stat)
    type(kedge_context), intent(in) :: context
    integer, intent(out) :: stat
    stat = c_told(c_pending(context%handle))
  end subroutine kedge_pending

  ! The first flush that failed since the last call: its error in `stat`, and whose it was.
  subroutine kedge_last_flush_error(context, name, version, stat)
    type(kedge_context), intent(in) :: context
    character(len=:), allocatable, intent(out) :: name
    integer(int64), intent(out) :: version
    integer, intent(out) :: stat
    character(kind=c_char) :: buffer(1024)
    buffer = c_null_char
    version = -1
    stat = c_told(c_last_flush_error(context%handle, buffer, size(buffer, kind=c_size_t), version))
    name = up_to_null(buffer)
  end subroutine kedge_last_flush_error

  ! ---- Restart ----

  ! The newest version of `name`, at or below `at_most` where given, that every rank can restore; -1 when there is none: `stat` says
  ! whether there never was one (kedge_error_not_found), or they are lost (kedge_error_lost).
  subroutine newest_int64(context, name, version, stat, at_most)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int64), intent(out) :: version
    integer, intent(out) :: stat
    integer(int64), intent(in), optional :: at_most
    integer(int64) :: limit
    limit = -1
    if (present(at_most)) limit = at_most
    version = -1
    stat = c_told(c_newest(context%handle, c_text(name), limit, version))
  end subroutine newest_int64

  subroutine newest_int32(context, name, version, stat, at_most)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int32), intent(out) :: version
    integer, intent(out) :: stat
    integer(int32), intent(in), optional :: at_most
    integer(int64) :: found, limit
    limit = -1
    if (present(at_most)) limit = at_most
    call newest_int64(context, name, found, stat, limit)
    call narrow(found, version, stat)
  end subroutine newest_int32

  ! Restores every region from the newest restorable version, at or below `at_most` where given; `version` says which.
  subroutine restart_int64(context, name, version, stat, at_most)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int64), intent(out) :: version
    integer, intent(out) :: stat
    integer(int64), intent(in), optional :: at_most
    integer(int64) :: limit
    limit = -1
    if (present(at_most)) limit = at_most
    version = -1
    stat = c_told(c_restart(context%handle, c_text(name), limit, version))
  end subroutine restart_int64

  subroutine restart_int32(context, name, version, stat, at_most)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int32), intent(out) :: version
    integer, intent(out) :: stat
    integer(int32), intent(in), optional :: at_most
    integer(int64) :: restored, limit
    limit = -1
    if (present(at_most)) limit = at_most
    call restart_int64(context, name, restored, stat, limit)
    call narrow(restored, version, stat)
  end subroutine restart_int32

  ! A version in 4 bytes, or an error when it does not fit.
  subroutine narrow(version, narrow_version, stat)
    integer(int64), intent(in) :: version
    integer(int32), intent(out) :: narrow_version
    integer, intent(inout) :: stat
    narrow_version = -1
    if (version <= huge(narrow_version)) then
      narrow_version = int(version, int32)
    else if (stat == kedge_ok) then
      stat = c_refuse(kedge_error_invalid_argument, &
           c_text('the version found does not fit into 4 bytes: pass an integer(int64) as version'))
    end if
  end subroutine narrow

  subroutine restart_begin_int64(context, name, version, stat)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: version
    integer, intent(out) :: stat
    stat = c_told(c_restart_begin(context%handle, c_text(name), version))
  end subroutine restart_begin_int64

  subroutine restart_begin_int32(context, name, version, stat)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int32), intent(in) :: version
    integer, intent(out) :: stat
    call restart_begin_int64(context, name, int(version, int64), stat)
  end subroutine restart_begin_int32

  ! In place of kedge_restart_begin where a version is only read: the job does not go on from it.
  subroutine load_begin_int64(context, name, version, stat)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: version
    integer, intent(out) :: stat
    stat = c_told(c_load_begin(context%handle, c_text(name), version))
  end subroutine load_begin_int64

  subroutine load_begin_int32(context, name, version, stat)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int32), intent(in) :: version
    integer, intent(out) :: stat
    call load_begin_int64(context, name, int(version, int64), stat)
  end subroutine load_begin_int32

  ! Size, and where asked for shape, type and name, of a saved region, before memory is allocated for it. Of the global array that
  ! it was a part of, the shape, and where it began in it, from 0; all 0: of none.
  subroutine kedge_saved_region(context, id, bytes, stat, shape, element_type, name, global_shape, global_offset)
    type(kedge_context), intent(in) :: context
    integer, intent(in) :: id
    integer(int64), intent(out) :: bytes
    integer, intent(out) :: stat
    integer(int64), allocatable, intent(out), optional :: shape(:)
    integer, intent(out), optional :: element_type
    character(len=:), allocatable, intent(out), optional :: name
    integer(int64), allocatable, intent(out), optional :: global_shape(:), global_offset(:)
    type(kedge_region_info) :: info
    integer(c_size_t) :: size_bytes
    info%struct_size = c_sizeof(info)
    size_bytes = 0
    stat = c_told(c_saved_region(context%handle, id, size_bytes, info))
    bytes = size_bytes
    if (present(shape)) shape = info%shape(1:info%dimensions)
    if (present(element_type)) element_type = info%element_type
    if (present(name)) name = copy_text(info%name)
    if (present(global_shape)) global_shape = info%global_shape(1:info%dimensions)
    if (present(global_offset)) global_offset = info%global_offset(1:info%dimensions)
  end subroutine kedge_saved_region

  subroutine kedge_restart_part(context, selection, stat, ids)
    type(kedge_context), intent(in) :: context
    integer, intent(in) :: selection
    integer, intent(out) :: stat
    integer, intent(in), optional :: ids(:)
    if (present(ids)) then
      stat = c_told(c_restart_part(context%handle, selection, ids, size(ids, kind=c_size_t)))
    else
      stat = c_told(c_restart_part(context%handle, selection, [integer(c_int) ::], 0_c_size_t))
    end if
  end subroutine kedge_restart_part

  subroutine kedge_restart_end(context, success, stat)
    type(kedge_context), intent(in) :: context
    logical, intent(in) :: success
    integer, intent(out) :: stat
    stat = c_told(c_restart_end(context%handle, flag(success, .true.)))
  end subroutine kedge_restart_end

  ! The restart calls that follow read the image of `rank`, by this process alone; -1 returns to the own one.
  subroutine kedge_restart_as(context, rank, stat)
    type(kedge_context), intent(in) :: context
    integer, intent(in) :: rank
    integer, intent(out) :: stat
    stat = c_told(c_restart_as(context%handle, rank))
  end subroutine kedge_restart_as

  ! ---- Housekeeping ----

  subroutine kedge_cleanup(context, stat, name)
    type(kedge_context), intent(in) :: context
    integer, intent(out) :: stat
    character(len=*), intent(in), optional :: name
    character(kind=c_char), allocatable, target :: name_text(:)
    stat = c_told(c_cleanup(context%handle, text_pointer(name_text, name)))
  end subroutine kedge_cleanup

  ! Keeps a complete version for ever; `pinned` .false. lets it go.
  subroutine pin_int64(context, name, version, stat, pinned)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: version
    integer, intent(out) :: stat
    logical, intent(in), optional :: pinned
    stat = c_told(c_pin(context%handle, c_text(name), version, flag(pinned, .true.)))
  end subroutine pin_int64

  subroutine pin_int32(context, name, version, stat, pinned)
    type(kedge_context), intent(in) :: context
    character(len=*), intent(in) :: name
    integer(int32), intent(in) :: version
    integer, intent(out) :: stat
    logical, intent(in), optional :: pinned
    call pin_int64(context, name, int(version, int64), stat, pinned)
  end subroutine pin_int32

  subroutine kedge_get_statistics(context, statistics, stat)
    type(kedge_context), intent(in) :: context
    type(kedge_statistics), intent(out) :: statistics
    integer, intent(out) :: stat
    statistics%struct_size = c_sizeof(statistics)
    stat = c_told(c_get_statistics(context%handle, statistics))
  end subroutine kedge_get_statistics

end module kedge
