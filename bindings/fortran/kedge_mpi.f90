! Kedge for MPI programs in Fortran: `use kedge_mpi` beside `use kedge` adds kedge_mpi_init.
!
! It takes the communicator of either binding, an integer of `use mpi` or a type(MPI_Comm) of `use mpi_f08` (whose only
! component is that integer), so that this module depends on neither and one compiled module serves both.
module kedge_mpi
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_ptr
  use kedge, only: kedge_context, kedge_fill_options
  use kedge_c, only: kedge_options
  implicit none
  private
  public :: kedge_mpi_init

  interface
    integer(c_int) function c_mpi_init(communicator, options, out) bind(C, name='kedge_fortran_mpi_init')
      import :: c_int, c_ptr, kedge_options
      type(*), dimension(..), intent(in) :: communicator
      type(kedge_options), intent(in) :: options
      type(c_ptr), intent(out) :: out
    end function c_mpi_init
  end interface

contains

  ! Makes a context over all ranks of `communicator`, which stays the caller's. Collective over it.
  subroutine kedge_mpi_init(context, communicator, stat, job, config_file, overrides)
    type(kedge_context), intent(out) :: context
    type(*), dimension(..), intent(in) :: communicator
    integer, intent(out) :: stat
    character(len=*), intent(in), optional :: job, config_file, overrides
    character(kind=c_char), allocatable, target :: job_text(:), file_text(:), overrides_text(:)
    type(kedge_options) :: options
    call kedge_fill_options(options, job_text, file_text, overrides_text, job, config_file, overrides)
    stat = c_mpi_init(communicator, options, context%handle)
  end subroutine kedge_mpi_init

end module kedge_mpi
