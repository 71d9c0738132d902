! heat: a plate that is warm at one side, in Fortran, on FMI. Ranks may die.
!
!   gfortran heat.f90 -o heat $(pkg-config --cflags --libs kedge-fmi-fortran)
!   fmirun -n 4 --interval 10 ./heat CELLS STEPS
!
! The same as heat.c, to the last bit: CELLS x CELLS cells on a grid of ranks, each with a line of its neighbours' cells around its
! block. Only rows and columns have changed places, since here the first index counts fastest.
program heat
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use kedge_fmi
  implicit none

  type(FMI_Comm) :: comm
  type(FMI_Datatype) :: row
  integer :: rank, left, right, above, below, rows, columns, first_row, first_column
  real(real64), allocatable, target, asynchronous :: now(:, :)
  real(real64), allocatable :: next(:, :)
  real(real64), target :: change = 0 ! of the last step, of all ranks
  integer :: cells, steps, done, ierror

  call FMI_Init()
  cells = argument(1)
  steps = argument(2)
  if (cells < 16 .or. steps < 1) then
     write (error_unit, '(a)') 'usage: heat CELLS STEPS, with at least 16 cells'
     call FMI_Abort(FMI_COMM_WORLD, 2)
  end if
  call make_block()
  do
     do
        done = FMI_Loop([FMI_Array(now), FMI_Array(change)])
        if (done >= steps) exit
        call step() ! of one in which a rank has died nothing counts: FMI_Loop goes back
     end do
     call print_result(ierror)
     if (ierror == FMI_SUCCESS) exit
  end do
  call FMI_Finalize()

contains

  integer function argument(number)
    integer, intent(in) :: number
    character(len=32) :: text
    integer :: status
    call get_command_argument(number, text)
    read (text, *, iostat=status) argument
    if (status /= 0) argument = 0
  end function argument

  subroutine make_block()
    integer :: ranks, sizes(2), place(2)
    sizes = 0
    call FMI_Comm_size(FMI_COMM_WORLD, ranks)
    call FMI_Dims_create(ranks, 2, sizes)
    call FMI_Cart_create(FMI_COMM_WORLD, 2, sizes, [.false., .false.], .false., comm)
    call FMI_Comm_rank(comm, rank)
    call FMI_Cart_coords(comm, rank, 2, place)
    call FMI_Cart_shift(comm, 0, 1, above, below)
    call FMI_Cart_shift(comm, 1, 1, left, right)
    first_row = cells * place(1) / sizes(1)
    rows = cells * (place(1) + 1) / sizes(1) - first_row
    first_column = cells * place(2) / sizes(2)
    columns = cells * (place(2) + 1) / sizes(2) - first_column
    ! The cells (0, 1) to (0, columns) of a column-major array of rows + 2: one in each column.
    call FMI_Type_vector(columns, 1, rows + 2, FMI_DOUBLE_PRECISION, row)
    call FMI_Type_commit(row)
    allocate (now(0:rows + 1, 0:columns + 1), next(0:rows + 1, 0:columns + 1), source=0.0_real64)
    if (above == FMI_PROC_NULL) now(0, :) = 100
  end subroutine make_block

  ! The outermost cells to the neighbours; theirs here.
  subroutine exchange(ierror)
    integer, intent(out) :: ierror
    type(FMI_Request) :: requests(4)
    integer :: waited
    call FMI_Sendrecv(now(1, 1), 1, row, above, 0, now(rows + 1, 1), 1, row, below, 0, comm, FMI_STATUS_IGNORE, ierror)
    if (ierror == FMI_SUCCESS) &
         call FMI_Sendrecv(now(rows, 1), 1, row, below, 1, now(0, 1), 1, row, above, 1, comm, FMI_STATUS_IGNORE, ierror)
    call FMI_Irecv(now(1:rows, 0), rows, FMI_DOUBLE_PRECISION, left, 2, comm, requests(1))
    call FMI_Irecv(now(1:rows, columns + 1), rows, FMI_DOUBLE_PRECISION, right, 3, comm, requests(2))
    call FMI_Isend(now(1:rows, columns), rows, FMI_DOUBLE_PRECISION, right, 2, comm, requests(3))
    call FMI_Isend(now(1:rows, 1), rows, FMI_DOUBLE_PRECISION, left, 3, comm, requests(4))
    call FMI_Waitall(4, requests, FMI_STATUSES_IGNORE, waited)
    if (ierror == FMI_SUCCESS) ierror = waited
  end subroutine exchange

  subroutine step()
    real(real64) :: own
    integer :: i, j, ierror
    call exchange(ierror)
    if (ierror /= FMI_SUCCESS) return
    own = 0
    do j = 1, columns
       do i = 1, rows
          next(i, j) = 0.25_real64 * (now(i - 1, j) + now(i + 1, j) + now(i, j - 1) + now(i, j + 1))
          own = max(own, abs(next(i, j) - now(i, j)))
       end do
    end do
    now(1:rows, 1:columns) = next(1:rows, 1:columns)
    call FMI_Allreduce(own, change, 1, FMI_DOUBLE_PRECISION, FMI_MAX, comm)
  end subroutine step

  ! Of every bit of the cells.
  subroutine print_result(ierror)
    integer, intent(out) :: ierror
    integer(int64), parameter :: odd = -7046029254386353131_int64
    integer(int64) :: own, all, place
    integer :: i, j
    own = 0
    do j = 1, columns
       do i = 1, rows
          place = int(first_row + i, int64) * (cells + 2) + first_column + j
          own = own + ieor(transfer(now(i, j), own), place) * odd
       end do
    end do
    call FMI_Reduce(own, all, 1, FMI_INTEGER8, FMI_SUM, 0, comm, ierror)
    if (ierror == FMI_SUCCESS .and. rank == 0) &
         print '(a, i0, a, z16.16, a, z16.16)', 'steps ', done, ', change ', change, ', checksum ', all
    flush (6)
  end subroutine print_result
end program heat
