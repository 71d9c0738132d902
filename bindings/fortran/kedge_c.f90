! The C functions of kedge.h as Fortran sees them, and the constants and types that both share. Applications use the
! module kedge, which is made of this one; nothing here is meant to be used alone.
!
! Values are those of include/kedge/kedge.h, whose comments are the contract; bindings/fortran/kedge_fortran.c asserts at
! compile time that they agree.
module kedge_c
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_funptr, c_int, c_int64_t, c_null_ptr, c_ptr, c_size_t
  implicit none
  public

  integer, parameter :: kedge_ok = 0, kedge_error_invalid_argument = 1, kedge_error_not_found = 2, &
       kedge_error_already_exists = 3, kedge_error_corrupt = 4, kedge_error_unsupported = 5, kedge_error_no_space = 6, &
       kedge_error_io = 7, kedge_error_permission = 8, kedge_error_unavailable = 9, kedge_error_timeout = 10, &
       kedge_error_mismatch = 11, kedge_error_busy = 12, kedge_error_failed_precondition = 13, &
       kedge_error_incomplete = 14, kedge_error_internal = 15, kedge_error_lost = 16

  integer, parameter :: kedge_type_bytes = 0, kedge_type_int8 = 1, kedge_type_int16 = 2, kedge_type_int32 = 3, &
       kedge_type_int64 = 4, kedge_type_float32 = 11, kedge_type_float64 = 12, kedge_type_complex64 = 13, &
       kedge_type_complex128 = 14, kedge_type_bool = 15

  integer, parameter :: kedge_level_none = 0, kedge_level_local = 1, kedge_level_node = 2, kedge_level_buffer = 3, &
       kedge_level_store = 4, kedge_level_last = 100
  integer, parameter :: kedge_all = 0, kedge_some = 1, kedge_rest = 2
  integer, parameter :: kedge_phase_computation = 0, kedge_phase_communication = 1
  integer, parameter :: kedge_max_dimensions = 15

  ! One rank's handle; make it with kedge_init or kedge_mpi_init, end it with kedge_finalize. Copies name the same one.
  type, bind(C) :: kedge_context
    type(c_ptr) :: handle = c_null_ptr
  end type kedge_context

  type, bind(C) :: kedge_options
    integer(c_size_t) :: struct_size
    type(c_ptr) :: job, config_file, overrides
  end type kedge_options

  type, bind(C) :: kedge_region_info
    integer(c_size_t) :: struct_size
    type(c_ptr) :: name = c_null_ptr
    integer(c_int) :: element_type = 0, memory = 0, column_major = 0, dimensions = 0
    integer(c_int64_t) :: shape(kedge_max_dimensions) = 0, global_shape(kedge_max_dimensions) = 0, &
         global_offset(kedge_max_dimensions) = 0
    integer(c_int) :: reinterpret = 0
    integer(c_int) :: device_written = 0
    integer(c_int) :: replicated = 0
    integer(c_int64_t) :: halo(kedge_max_dimensions) = 0
    type(c_ptr) :: locate = c_null_ptr, resize = c_null_ptr  ! addresses of functions; gfortran 12 takes no null c_funptr here
    type(c_ptr) :: user = c_null_ptr
  end type kedge_region_info

  type, bind(C) :: kedge_object_callbacks
    integer(c_size_t) :: struct_size
    type(c_ptr) :: user
    type(c_funptr) :: size, serialize, deserialize
  end type kedge_object_callbacks

  ! What this rank has done since kedge_init; the fields are those of kedge.h. struct_size is filled in by the module.
  type, bind(C) :: kedge_statistics
    integer(c_size_t) :: struct_size = 0
    integer(c_int64_t) :: checkpoints = 0, checkpoints_inline = 0, bytes_captured = 0
    real(c_double) :: blocked_seconds = 0, last_blocked_seconds = 0
    integer(c_int64_t) :: bytes_pool = 0, bytes_directory = 0, bytes_through = 0
    real(c_double) :: slot_wait_seconds = 0
    integer(c_int64_t) :: bytes_restored_pool = 0, bytes_restored_directory = 0, bytes_restored_store = 0
    real(c_double) :: last_restart_seconds = 0
    integer(c_int64_t) :: flush_failures = 0, corrupt_copies = 0
    real(c_double) :: checkpoint_interval_seconds = 0
    integer(c_int64_t) :: checkpoints_not_due = 0, bytes_unchanged = 0, writes_held = 0
  end type kedge_statistics

  interface
    integer(c_int) function c_init(options, bootstrap, out) bind(C, name='kedge_init')
      import :: c_int, c_ptr, kedge_options
      type(kedge_options), intent(in) :: options
      type(c_ptr), value :: bootstrap
      type(c_ptr), intent(out) :: out
    end function c_init

    integer(c_int) function c_finalize(context, drain) bind(C, name='kedge_finalize')
      import :: c_int, c_ptr
      type(c_ptr), value :: context
      integer(c_int), value :: drain
    end function c_finalize

    type(c_ptr) function c_status_name(status) bind(C, name='kedge_status_name')
      import :: c_int, c_ptr
      integer(c_int), value :: status
    end function c_status_name

    type(c_ptr) function c_version_string() bind(C, name='kedge_version_string')
      import :: c_ptr
    end function c_version_string

    integer(c_int) function c_protect(context, id, address, count, element_bytes, info) bind(C, name='kedge_protect')
      import :: c_int, c_ptr, c_size_t, kedge_region_info
      type(c_ptr), value :: context, address
      integer(c_int), value :: id
      integer(c_size_t), value :: count, element_bytes
      type(kedge_region_info), intent(in) :: info
    end function c_protect

    integer(c_int) function c_protect_object(context, id, name, object) bind(C, name='kedge_protect_object')
      import :: c_int, c_ptr, kedge_object_callbacks
      type(c_ptr), value :: context, name
      integer(c_int), value :: id
      type(kedge_object_callbacks), intent(in) :: object
    end function c_protect_object

    integer(c_int) function c_unprotect(context, id) bind(C, name='kedge_unprotect')
      import :: c_int, c_ptr
      type(c_ptr), value :: context
      integer(c_int), value :: id
    end function c_unprotect

    integer(c_int) function c_clear(context) bind(C, name='kedge_clear')
      import :: c_int, c_ptr
      type(c_ptr), value :: context
    end function c_clear

    integer(c_int) function c_group(context, group) bind(C, name='kedge_group')
      import :: c_int, c_ptr
      type(c_ptr), value :: context, group
    end function c_group

    integer(c_int) function c_checkpoint(context, name, version, flags) bind(C, name='kedge_checkpoint')
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: version
      integer(c_int), value :: flags
    end function c_checkpoint

    integer(c_int) function c_checkpoint_begin(context, name, version, flags) bind(C, name='kedge_checkpoint_begin')
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: version
      integer(c_int), value :: flags
    end function c_checkpoint_begin

    integer(c_int) function c_checkpoint_part(context, selection, ids, count) bind(C, name='kedge_checkpoint_part')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: context
      integer(c_int), value :: selection
      integer(c_int), intent(in) :: ids(*)
      integer(c_size_t), value :: count
    end function c_checkpoint_part

    integer(c_int) function c_checkpoint_end(context, success) bind(C, name='kedge_checkpoint_end')
      import :: c_int, c_ptr
      type(c_ptr), value :: context
      integer(c_int), value :: success
    end function c_checkpoint_end

    integer(c_int) function c_route_file(context, original, routed, routed_bytes) bind(C, name='kedge_route_file')
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: original(*)
      character(kind=c_char), intent(out) :: routed(*)
      integer(c_size_t), value :: routed_bytes
    end function c_route_file

    integer(c_int) function c_annotate(context, key, value, bytes) bind(C, name='kedge_annotate')
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: key(*), value(*)
      integer(c_size_t), value :: bytes
    end function c_annotate

    integer(c_int) function c_annotation(context, key, value, capacity, bytes) bind(C, name='kedge_annotation')
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: key(*)
      character(kind=c_char), intent(inout) :: value(*)
      integer(c_size_t), value :: capacity
      integer(c_size_t), intent(out) :: bytes
    end function c_annotation

    integer(c_int) function c_wait(context, name, version, level, timeout_seconds) bind(C, name='kedge_wait')
      import :: c_double, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context, name
      integer(c_int64_t), value :: version
      integer(c_int), value :: level
      real(c_double), value :: timeout_seconds
    end function c_wait

    integer(c_int) function c_test(context, name, version, level) bind(C, name='kedge_test')
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: version
      integer(c_int), intent(out) :: level
    end function c_test

    integer(c_int) function c_checkpoint_due(context, due) bind(C, name='kedge_checkpoint_due')
      import :: c_int, c_ptr
      type(c_ptr), value :: context
      integer(c_int), intent(out) :: due
    end function c_checkpoint_due

    integer(c_int) function c_should_exit(context, exit) bind(C, name='kedge_should_exit')
      import :: c_int, c_ptr
      type(c_ptr), value :: context
      integer(c_int), intent(out) :: exit
    end function c_should_exit

    integer(c_int) function c_phase(context, phase) bind(C, name='kedge_phase')
      import :: c_int, c_ptr
      type(c_ptr), value :: context
      integer(c_int), value :: phase
    end function c_phase

    integer(c_int) function c_pending(context) bind(C, name='kedge_pending')
      import :: c_int, c_ptr
      type(c_ptr), value :: context
    end function c_pending

    integer(c_int) function c_last_flush_error(context, name, name_bytes, version) bind(C, name='kedge_last_flush_error')
      import :: c_char, c_int, c_int64_t, c_ptr, c_size_t
      type(c_ptr), value :: context
      character(kind=c_char), intent(inout) :: name(*)
      integer(c_size_t), value :: name_bytes
      integer(c_int64_t), intent(inout) :: version
    end function c_last_flush_error

    integer(c_int) function c_newest(context, name, at_most, version) bind(C, name='kedge_newest')
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: at_most
      integer(c_int64_t), intent(inout) :: version
    end function c_newest

    integer(c_int) function c_restart(context, name, at_most, restored) bind(C, name='kedge_restart')
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: at_most
      integer(c_int64_t), intent(inout) :: restored
    end function c_restart

    integer(c_int) function c_restart_begin(context, name, version) bind(C, name='kedge_restart_begin')
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: version
    end function c_restart_begin

    integer(c_int) function c_load_begin(context, name, version) bind(C, name='kedge_load_begin')
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: version
    end function c_load_begin

    integer(c_int) function c_saved_region(context, id, bytes, info) bind(C, name='kedge_saved_region')
      import :: c_int, c_ptr, c_size_t, kedge_region_info
      type(c_ptr), value :: context
      integer(c_int), value :: id
      integer(c_size_t), intent(inout) :: bytes
      type(kedge_region_info), intent(inout) :: info
    end function c_saved_region

    integer(c_int) function c_restart_part(context, selection, ids, count) bind(C, name='kedge_restart_part')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: context
      integer(c_int), value :: selection
      integer(c_int), intent(in) :: ids(*)
      integer(c_size_t), value :: count
    end function c_restart_part

    integer(c_int) function c_restart_end(context, success) bind(C, name='kedge_restart_end')
      import :: c_int, c_ptr
      type(c_ptr), value :: context
      integer(c_int), value :: success
    end function c_restart_end

    integer(c_int) function c_restart_as(context, rank) bind(C, name='kedge_restart_as')
      import :: c_int, c_ptr
      type(c_ptr), value :: context
      integer(c_int), value :: rank
    end function c_restart_as

    integer(c_int) function c_cleanup(context, name) bind(C, name='kedge_cleanup')
      import :: c_int, c_ptr
      type(c_ptr), value :: context, name
    end function c_cleanup

    integer(c_int) function c_pin(context, name, version, pinned) bind(C, name='kedge_pin')
      import :: c_char, c_int, c_int64_t, c_ptr
      type(c_ptr), value :: context
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: version
      integer(c_int), value :: pinned
    end function c_pin

    integer(c_int) function c_get_statistics(context, out) bind(C, name='kedge_get_statistics')
      import :: c_int, c_ptr, kedge_statistics
      type(c_ptr), value :: context
      type(kedge_statistics), intent(inout) :: out
    end function c_get_statistics

    ! From kedge_fortran.c: the status of a call that reached the library, so that its message is the one to show.
    integer(c_int) function c_told(status) bind(C, name='kedge_fortran_told')
      import :: c_int
      integer(c_int), value :: status
    end function c_told

    ! From kedge_fortran.c: a call that this module refuses, with the message to show.
    integer(c_int) function c_refuse(status, message) bind(C, name='kedge_fortran_refuse')
      import :: c_char, c_int
      integer(c_int), value :: status
      character(kind=c_char), intent(in) :: message(*)
    end function c_refuse

    type(c_ptr) function c_error_message() bind(C, name='kedge_fortran_error_message')
      import :: c_ptr
    end function c_error_message
  end interface
end module kedge_c
