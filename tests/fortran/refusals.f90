! What kedge_protect must refuse, because the address would dangle or mean something else; and that the rest still works.
program refusals
  use, intrinsic :: iso_c_binding, only: c_loc, c_size_t
  use, intrinsic :: iso_fortran_env, only: int64
  use kedge
  use testing
  implicit none
  type :: particle
    integer :: number = 0
    real(8) :: mass = 0
  end type particle
  type(kedge_context) :: context
  real(8), target :: matrix(6, 5), cube(4, 4, 4)
  real(8), pointer :: row(:), column(:)
  real(8), allocatable, target :: nothing(:)
  complex(8), target :: z(5)
  character(len=8), target :: words(4)
  type(particle), target :: particles(3)
  integer :: stat, version
  integer(int64) :: bytes
  integer(int64), allocatable :: whole(:), offset(:)

  call kedge_init(context, stat)
  call need(stat == kedge_ok, 'init')

  call kedge_protect(context, 1, matrix(1:5, :), stat)
  call refused('a section with gaps', 'not contiguous')
  call kedge_protect(context, 1, matrix(6:1:-1, 1), stat)
  call refused('a section backwards', 'not contiguous')
  call kedge_protect(context, 1, cube(:, 2:3, :), stat)
  call refused('a section with gaps in rank 3', 'not contiguous')
  call kedge_protect(context, 1, z%re, stat)
  call refused('the real parts of a complex array', 'not contiguous')
  call kedge_protect(context, 1, particles%mass, stat)
  call refused('a component of an array of a type', 'not contiguous')
  call kedge_protect(context, 1, words(:)(2:3), stat)
  call refused('substrings', 'not contiguous')
  row => matrix(2, :)
  call kedge_protect(context, 1, row, stat)
  call refused('a pointer to a row', 'not contiguous')
  call kedge_protect(context, 1, particles, stat)
  call refused('a derived type', 'kedge_protect_address')
  call assumed_size(matrix, 6)
  call assumed_shape(matrix(::2, :))
  call kedge_protect(context, 7, matrix, stat, global_shape=[12_int64])
  call refused('a global shape of another rank', 'global_shape of region 7')
  call kedge_protect(context, 7, matrix, stat, name=repeat('x', 1024))
  call refused('a name that is too long', '1024 bytes')
  call kedge_protect(context, 7, matrix, stat, name='   ')
  call refused('an empty name', '0 bytes')

  call kedge_restart(context, 'refusals', version, stat)
  call need(stat == kedge_error_not_found, 'a library error after a refusal has its own code')
  call need(index(kedge_error_message(), '0 bytes') == 0, 'a library error after a refusal has its own message')

  column => matrix(:, 3)
  call kedge_protect(context, 1, column, stat)
  call need(stat == kedge_ok, 'a pointer to a column')
  call kedge_protect(context, 2, matrix(:, 4:5), stat, global_shape=[12_int64, 2_int64], global_offset=[6_int64, 0_int64])
  call need(stat == kedge_ok, 'whole columns')
  allocate (nothing(0))
  call kedge_protect(context, 3, nothing, stat)
  call need(stat == kedge_ok, 'an array of no elements')
  call kedge_protect_address(context, 4, c_loc(particles), 3_c_size_t, storage_size(particles, kind=c_size_t) / 8, stat, &
       name='particles')
  call need(stat == kedge_ok, 'a derived type by its address')
  call kedge_checkpoint(context, 'refusals', 1, stat)
  call need(stat == kedge_ok, 'checkpoint')
  call kedge_restart_begin(context, 'refusals', 1_int64, stat)
  call kedge_saved_region(context, 1, bytes, stat)
  call need(stat == kedge_ok .and. bytes == 48, 'the column is 48 bytes')
  call kedge_saved_region(context, 2, bytes, stat, global_shape=whole, global_offset=offset)
  call need(all(whole == [12_int64, 2_int64]) .and. all(offset == [6_int64, 0_int64]), 'the place in the global array')
  call need(stat == kedge_ok .and. bytes == 96, 'two columns are 96 bytes')
  call kedge_saved_region(context, 3, bytes, stat)
  call need(stat == kedge_ok .and. bytes == 0, 'no elements are no bytes')
  call kedge_saved_region(context, 4, bytes, stat)
  call need(stat == kedge_ok .and. bytes == 3 * storage_size(particles) / 8, 'three particles')
  call kedge_saved_region(context, 99, bytes, stat)
  call need(stat == kedge_error_not_found .and. bytes == 0, 'an unknown region')
  call kedge_restart_end(context, .true., stat)
  call need(stat == kedge_ok, 'restart_end')
  call kedge_finalize(context, stat)
  call need(stat == kedge_ok, 'finalize')
  call finish('refusals')

contains

  subroutine refused(what, reason)
    character(len=*), intent(in) :: what, reason
    call need(stat == kedge_error_invalid_argument, what)
    call need(index(kedge_error_message(), reason) > 0, what // ' (reason)')
  end subroutine refused

  subroutine assumed_size(a, n)
    integer, intent(in) :: n
    real(8), intent(inout), target :: a(n, *)
    call kedge_protect(context, 1, a, stat)
    call refused('an assumed-size array', 'assumed-size')
    call kedge_protect(context, 1, a(:, 1:5), stat)
    call need(stat == kedge_ok, 'an assumed-size array with its last bound')
  end subroutine assumed_size

  subroutine assumed_shape(a)
    real(8), intent(inout), target :: a(:, :)
    call kedge_protect(context, 1, a, stat)
    call refused('a dummy argument with gaps', 'not contiguous')
  end subroutine assumed_shape

end program refusals
