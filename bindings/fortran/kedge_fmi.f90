! FMI for Fortran: messages that survive the death of ranks, in the style of MPI's module mpi_f08. `use kedge_fmi`, link
! -lkedge-fmi-fortran, and start with `fmirun -n RANKS PROGRAM`.
!
!   real(8), target :: field(1000)
!   integer, target :: done
!   call FMI_Init()
!   do
!     step = FMI_Loop([FMI_Array(field), FMI_Array(residual)])
!     if (step >= steps) exit
!     call FMI_Allreduce(own, residual, 1, FMI_DOUBLE_PRECISION, FMI_MAX, FMI_COMM_WORLD, ierror)
!     if (ierror /= FMI_SUCCESS) cycle          ! a rank has died: FMI_Loop goes back
!     ...
!   end do
!   call FMI_Finalize()
!
! Each subroutine is the function of that name in fmi.h, whose comments say what it promises; its code comes back in `ierror`,
! which may be left out. Arrays are of any type, kind and rank, and contiguous; those that a call only begins with (FMI_Irecv) are
! `asynchronous`, so that the compiler keeps nothing of them in registers. Requests are counted from 1 (FMI_Waitany), ranks,
! coordinates and dimensions (FMI_Cart_shift) from 0, as in MPI. Not here: FMI_On_failure and FMI_Op_create_x.
module kedge_fmi
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_null_char, c_ptr, c_size_t
  use kedge_fmi_calls
  implicit none
  private :: c_char, c_double, c_int, c_null_char, c_ptr, c_size_t

  type(FMI_Datatype), parameter :: FMI_INTEGER = FMI_INT, FMI_LOGICAL = FMI_INT, FMI_INTEGER8 = FMI_LONG, FMI_REAL = FMI_FLOAT, &
       FMI_DOUBLE_PRECISION = FMI_DOUBLE, FMI_COMPLEX = FMI_C_FLOAT_COMPLEX, FMI_DOUBLE_COMPLEX = FMI_C_DOUBLE_COMPLEX, &
       FMI_CHARACTER = FMI_CHAR

  ! Their addresses count, and not what is in them.
  integer(c_int), bind(C, name='kedge_fmi_in_place') :: FMI_IN_PLACE = 0
  type(FMI_Status), bind(C, name='kedge_fmi_status_ignore') :: FMI_STATUS_IGNORE = FMI_Status(0, 0, 0)
  type(FMI_Status), bind(C, name='kedge_fmi_statuses_ignore') :: FMI_STATUSES_IGNORE(1) = FMI_Status(0, 0, 0)

  ! Where an array lies.
  type, bind(C) :: FMI_Region
    type(c_ptr) :: begin
    integer(c_size_t) :: bytes
  end type FMI_Region

  interface
    ! The array is a target, and stays where it is.
    type(FMI_Region) function FMI_Array(array) bind(C, name='kedge_fmi_region')
      import :: FMI_Region
      type(*), dimension(..), target, intent(in) :: array
    end function FMI_Array

    integer(c_int) function FMI_Loop_c(regions, count) bind(C, name='kedge_fmi_loop')
      import :: c_int, FMI_Region
      type(FMI_Region), intent(in) :: regions(*)
      integer(c_int), value :: count
    end function FMI_Loop_c

    integer(c_int) function FMI_Inner_loop_c(loop, regions, count) bind(C, name='kedge_fmi_inner_loop')
      import :: c_char, c_int, FMI_Region
      character(kind=c_char), intent(in) :: loop(*)
      type(FMI_Region), intent(in) :: regions(*)
      integer(c_int), value :: count
    end function FMI_Inner_loop_c

    real(c_double) function FMI_Wtime() bind(C, name='FMI_Wtime')
      import :: c_double
    end function FMI_Wtime

    subroutine FMI_Init(ierror) bind(C, name='kedge_FMI_Init')
      import :: c_int
      integer(c_int), optional, intent(out) :: ierror
    end subroutine FMI_Init

    subroutine FMI_Buffer_detach(buffer, bytes, ierror) bind(C, name='kedge_FMI_Buffer_detach')
      import :: c_int, c_ptr
      type(c_ptr), intent(out) :: buffer
      integer(c_int), intent(out) :: bytes
      integer(c_int), optional, intent(out) :: ierror
    end subroutine FMI_Buffer_detach

    ! For FMI_Type_create_struct: offsets are differences of addresses.
    subroutine FMI_Get_address(location, address, ierror) bind(C, name='kedge_FMI_Get_address')
      import :: c_int, FMI_ADDRESS_KIND
      type(*), dimension(..), intent(in) :: location
      integer(FMI_ADDRESS_KIND), intent(out) :: address
      integer(c_int), optional, intent(out) :: ierror
    end subroutine FMI_Get_address
  end interface

contains

  ! The step's number: 0 at first.
  integer function FMI_Loop(regions)
    type(FMI_Region), intent(in) :: regions(:)
    FMI_Loop = FMI_Loop_c(regions, size(regions))
  end function FMI_Loop

  ! The call's number, or FMI_OUTER_LOOP: leave the loop.
  integer function FMI_Inner_loop(loop, regions)
    character(*), intent(in) :: loop
    type(FMI_Region), intent(in) :: regions(:)
    FMI_Inner_loop = FMI_Inner_loop_c(trim(loop) // c_null_char, regions, size(regions))
  end function FMI_Inner_loop
end module kedge_fmi
