! shallow: waves in a closed basin, in the shape of a real application.
!
!   mpirun -np 4 shallow-fortran SIDE STEPS FOLDER
!
! The twin of shallow.c: the same basin, bands of rows, checkpoints, files, log and checksum, which is equal to the last bit.
program shallow
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int64_t, c_null_char
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real64
  use mpi
  use kedge
  use kedge_mpi
  implicit none

  real(real64), parameter :: time_step = 0.5_real64
  integer, parameter :: of_step = 0, of_time = 1, of_height = 2, of_along = 3, of_across = 4, of_log = 5
  integer, parameter :: steps_of_log = 10  ! from line to line
  integer :: side, steps, rows, first, below, above, rank, status, version, ierror
  character(len=:), allocatable :: folder
  real(real64), allocatable, target :: height(:, :), along(:, :), across(:, :)
  integer(int32), target :: step = 0
  real(real64), target :: time = 0
  integer(int64), target :: log_bytes = 0
  integer :: log_unit  ! rank 0 has it
  type(kedge_context) :: context
  logical :: due, stop_now
  integer(int64) :: total

  interface
    integer(c_int) function truncate(path, bytes) bind(c)
      import :: c_char, c_int, c_int64_t
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int64_t), value :: bytes
    end function truncate
  end interface

  call MPI_Init(ierror)
  call read_arguments()
  call make_basin()
  call kedge_mpi_init(context, MPI_COMM_WORLD, status)
  call must(status, 'starting Kedge')
  call protect()
  call kedge_restart(context, 'water', version, status)
  if (status /= kedge_error_not_found) call must(status, 'restart')
  if (status == kedge_ok .and. rank == 0) print '(a, i0, a, g0)', 'shallow: continuing from step ', step, ', time ', time

  call open_log()
  stop_now = .false.
  do while (step < steps .and. .not. stop_now)
    call advance()
    if (mod(step, steps_of_log) == 0) call write_log()
    call kedge_checkpoint_due(context, due, status)
    call must(status, 'asking whether a checkpoint is due')
    if (due) call checkpoint()
    call kedge_should_exit(context, stop_now, status)
    call must(status, 'asking whether to end')
  end do

  total = checksum()
  if (rank == 0 .and. step < steps) print '(a, i0, a, i0)', 'shallow: halted at step ', step, ' of ', steps
  if (rank == 0 .and. step >= steps) print '(a, i0, a, z16.16)', 'shallow: step ', step, ', checksum ', total
  call kedge_finalize(context, status)
  call must(status, 'finishing Kedge')
  if (rank == 0) close (log_unit)
  call MPI_Finalize(ierror)

contains

  subroutine must(code, what)
    integer, intent(in) :: code
    character(len=*), intent(in) :: what
    if (code /= kedge_ok) call fail(what, kedge_error_message())
  end subroutine must

  subroutine fail(what, why)
    character(len=*), intent(in) :: what, why
    write (error_unit, '(4a)') 'shallow: ', what, ': ', why
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine fail

  subroutine read_arguments()
    character(len=4096) :: arguments(3)
    integer :: i, code
    code = 1
    if (command_argument_count() == 3) then
      do i = 1, 3
        call get_command_argument(i, arguments(i))
      end do
      folder = trim(arguments(3))
      read (arguments(1:2), *, iostat=code) side, steps
    end if
    if (code /= 0) call fail('usage', 'shallow-fortran SIDE STEPS FOLDER')
  end subroutine read_arguments

  ! Columns of the arrays are the rows of the basin: rows 1 to `rows` are this rank's, with one more on both sides.
  subroutine make_basin()
    integer :: ranks, x, y
    real(real64) :: dx, dy, r
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    if (side < ranks) call fail('usage', 'SIDE is at least the number of ranks')
    first = int(int(side, int64) * rank / ranks)
    rows = int(int(side, int64) * (rank + 1) / ranks) - first
    below = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    above = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
    allocate (height(side, 0:rows + 1), along(side, 0:rows + 1), across(side, 0:rows + 1), source=0.0_real64)
    ! A hill of water off the middle.
    do y = 1, rows
      do x = 1, side
        dy = (first + y - 0.5_real64) / side - 0.4_real64
        dx = (x - 0.5_real64) / side - 0.3_real64
        r = 1 - 25 * (dx * dx + dy * dy)
        if (r > 0) height(x, y) = r * r
      end do
    end do
  end subroutine make_basin

  ! Linear shallow water on a staggered grid, forward in the flow and backward in the height.
  subroutine advance()
    integer :: x, y
    real(real64) :: right
    call MPI_Sendrecv(height(1, rows), side, MPI_DOUBLE_PRECISION, above, 0, height(1, 0), side, MPI_DOUBLE_PRECISION, below, 0, &
         MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    do y = 1, rows
      do x = 1, side
        if (x > 1) along(x, y) = along(x, y) - time_step * (height(x, y) - height(x - 1, y))
        if (first + y > 1) across(x, y) = across(x, y) - time_step * (height(x, y) - height(x, y - 1))
      end do
    end do
    call MPI_Sendrecv(across(1, 1), side, MPI_DOUBLE_PRECISION, below, 1, across(1, rows + 1), side, MPI_DOUBLE_PRECISION, &
         above, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    do y = 1, rows
      do x = 1, side
        right = 0
        if (x < side) right = along(x + 1, y)
        height(x, y) = height(x, y) - time_step * ((right - along(x, y)) + (across(x, y + 1) - across(x, y)))
      end do
    end do
    step = step + 1
    time = time + time_step
  end subroutine advance

  ! Every cell's bits times an odd number of its own, summed: the same for every number of ranks. Compiled with -fwrapv.
  integer(int64) function checksum() result(all_ranks)
    integer(int64) :: mine, bits
    integer :: x, y
    mine = 0
    do y = 1, rows
      do x = 1, side
        mine = mine + transfer(height(x, y), bits) * (2 * (int(first + y, int64) * side + (x - 1)) + 1)
      end do
    end do
    call MPI_Allreduce(mine, all_ranks, 1, MPI_INTEGER8, MPI_SUM, MPI_COMM_WORLD, ierror)
  end function checksum

  subroutine protect()
    call kedge_protect(context, of_step, step, status, name='step', replicated=1)
    call must(status, 'step')
    call kedge_protect(context, of_time, time, status, name='time', replicated=1)
    call must(status, 'time')
    call kedge_protect(context, of_log, log_bytes, status, name='log bytes', replicated=1)
    call must(status, 'length of the log')
    call protect_rows(of_height, 'height', height)
    call protect_rows(of_along, 'along', along)
    call protect_rows(of_across, 'across', across)
  end subroutine protect

  subroutine protect_rows(id, name, field)
    integer, intent(in) :: id
    character(len=*), intent(in) :: name
    real(real64), target, intent(inout) :: field(:, :)
    call kedge_protect(context, id, field, status, name=name, global_shape=int([side, side], int64), &
         global_offset=int([0, first], int64), halo=[0_int64, 1_int64])
    call must(status, name)
  end subroutine protect_rows

  ! What was written behind the checkpoint that the run goes on from is written again.
  subroutine open_log()
    character(len=:), allocatable :: path
    integer :: code
    if (rank /= 0) return
    path = folder // '/shallow.log'
    open (newunit=log_unit, file=path, access='stream', form='formatted', status='unknown', action='readwrite', iostat=code)
    if (code == 0) close (log_unit)
    if (code == 0) code = truncate(path // c_null_char, log_bytes)
    if (code == 0) &
         open (newunit=log_unit, file=path, access='stream', form='formatted', position='append', action='write', iostat=code)
    if (code /= 0) call fail('the log', path)
  end subroutine open_log

  ! All ranks count, so that the length is the same on each.
  subroutine write_log()
    character(len=32) :: line
    write (line, '(a, i9, a, f12.1)') 'step ', step, ' time ', time
    if (rank == 0) write (log_unit, '(a)') line
    log_bytes = log_bytes + len(line) + 1
  end subroutine write_log

  ! On an error the run goes on with the older checkpoints.
  subroutine checkpoint()
    logical :: good
    if (rank == 0) flush (log_unit)  ! before its length is saved
    call kedge_checkpoint_begin(context, 'water', step, status)
    if (status == kedge_ok) then
      call kedge_checkpoint_part(context, kedge_all, status)
      good = status == kedge_ok
      if (good) good = has_written_water()
      call kedge_checkpoint_end(context, good, status)
    end if
    if (status /= kedge_ok) &
         write (error_unit, '(a, i0, a, i0, 2a)') 'shallow: rank ', rank, ': step ', step, ': ', kedge_error_message()
  end subroutine checkpoint

  ! The heights of this rank's rows, for whoever looks at the run.
  logical function has_written_water() result(written)
    character(len=32) :: name
    character(len=:), allocatable :: path
    integer :: unit, code, closed
    write (name, '(a, i6.6, a, i0)') 'water-', step, '.', rank
    call kedge_route_file(context, folder // '/' // trim(name), path, status)
    written = .false.
    if (status /= kedge_ok) return
    open (newunit=unit, file=path, access='stream', form='unformatted', status='replace', action='write', iostat=code)
    if (code /= 0) return
    write (unit, iostat=code) height(:, 1:rows)
    close (unit, iostat=closed)
    written = code == 0 .and. closed == 0
  end function has_written_water

end program shallow
