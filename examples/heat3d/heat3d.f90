! heat3d: heat flows through a cube, on any number of MPI ranks, and the run survives being killed.
!
!   mpirun -np 4 heat3d-fortran CELLS STEPS INTERVAL
!
! The twin of heat3d.c: the same decomposition, stencil and checksum, which is equal to the last bit in both, and the same
! questions: whether a checkpoint is due (INTERVAL 0 or auto), whether to end early (kedge halt).
program heat3d
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, real64
  use mpi
  use kedge
  use kedge_mpi
  implicit none

  integer, parameter :: x = 1, y = 2, z = 3
  integer :: cells, steps, interval, step, status, rank, comm, ierror
  integer :: n(3), first(3), lower(3), upper(3), face(3)  ! this block's cells, its first one, its neighbours
  real(real64), allocatable, target :: u(:, :, :), next(:, :, :), previous(:, :, :)
  integer, target :: step_saved
  integer(int64) :: total
  type(kedge_context) :: context
  logical :: automatic, due, stop_now

  call MPI_Init(ierror)
  call read_arguments()
  call make_block()
  allocate (u(0:n(x) + 1, 0:n(y) + 1, 0:n(z) + 1), next(0:n(x) + 1, 0:n(y) + 1, 0:n(z) + 1))
  call set_initial(u)
  call set_initial(next)  ! for its boundary

  if (automatic) then
    call kedge_mpi_init(context, comm, status, overrides='schedule.adapt=true')
  else
    call kedge_mpi_init(context, comm, status)
  end if
  call check(status, 'starting Kedge')
  call kedge_protect(context, 0, step_saved, status, name='step', replicated=1)
  call check(status, 'protecting the step')
  call protect_field()
  call kedge_restart(context, 'heat3d', step, status)
  if (status == kedge_ok) then
    step = step_saved
    if (rank == 0) print '(a, i0)', 'heat3d: continuing from step ', step
  else
    if (status /= kedge_error_not_found) call check(status, 'restart')
    step = 0
    step_saved = 0
  end if

  stop_now = .false.
  do while (step < steps .and. .not. stop_now)
    call exchange_halo()
    call advance(u, next)
    call move_alloc(u, previous)
    call move_alloc(next, u)
    call move_alloc(previous, next)
    step = step + 1
    if (interval > 0) then
      due = mod(step, interval) == 0
    else
      call kedge_checkpoint_due(context, due, status)
      call check(status, 'asking Kedge')
    end if
    if (due) call take_checkpoint()
    call kedge_should_exit(context, stop_now, status)
    call check(status, 'asking Kedge')
  end do

  total = checksum()
  if (rank == 0 .and. interval == 0) call print_interval()
  if (rank == 0 .and. step < steps) &
       print '(a, i0, a, i0, a, i0)', 'heat3d: halted at step ', step, ' of ', steps, ', saved at step ', step_saved
  if (rank == 0 .and. step >= steps) &
       print '(a, i0, a, i0, a, z16.16)', 'heat3d: ', cells, ' cells a side, step ', step, ', checksum ', total
  call kedge_finalize(context, status)
  call check(status, 'finishing Kedge')
  call MPI_Finalize(ierror)

contains

  subroutine check(code, what)
    integer, intent(in) :: code
    character(len=*), intent(in) :: what
    if (code == kedge_ok) return
    write (error_unit, '(4a)') 'heat3d: ', what, ': ', kedge_error_message()
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine check

  subroutine protect_field()
    call kedge_protect(context, 1, u, status, name='temperature', global_shape=spread(int(cells, int64), 1, 3), &
         global_offset=int(first, int64), halo=spread(1_int64, 1, 3))
    call check(status, 'protecting the field')
  end subroutine protect_field

  subroutine take_checkpoint()
    step_saved = step
    call protect_field()  ! it is at another address now
    call kedge_checkpoint(context, 'heat3d', step, status)
    if (status /= kedge_ok) &  ! the run goes on, with the older checkpoints
         write (error_unit, '(a, i0, a, i0, 2a)') 'heat3d: rank ', rank, ': checkpoint of step ', step, ': ', &
         kedge_error_message()
  end subroutine take_checkpoint

  subroutine print_interval()
    type(kedge_statistics) :: s
    call kedge_get_statistics(context, s, status)
    call check(status, 'statistics')
    print '(a, i0, a, f0.6, a, f0.3, a)', 'heat3d: checkpoints taken when due: ', s%checkpoints, ', ', &
         s%blocked_seconds / max(1_int64, s%checkpoints), ' s each; the interval is ', s%checkpoint_interval_seconds, ' s by now'
  end subroutine print_interval

  subroutine read_arguments()
    character(len=20) :: arguments(3)
    integer :: i, code
    code = 1
    if (command_argument_count() == 3) then
      do i = 1, 3
        call get_command_argument(i, arguments(i))
      end do
      automatic = arguments(3) == 'auto'
      if (automatic) arguments(3) = '0'
      read (arguments, *, iostat=code) cells, steps, interval
    end if
    if (code /= 0) then
      write (error_unit, '(a)') 'heat3d: usage: heat3d-fortran CELLS STEPS INTERVAL, where INTERVAL is steps, 0 or auto'
      call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
    end if
  end subroutine read_arguments

  subroutine make_block()
    integer :: ranks, dims(3), coordinates(3), d, faces(3), start(3)
    logical :: periodic(3)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
    dims = 0
    call MPI_Dims_create(ranks, 3, dims, ierror)
    call MPI_Cart_create(MPI_COMM_WORLD, 3, dims, [.false., .false., .false.], .false., comm, ierror)
    call MPI_Cart_get(comm, 3, dims, periodic, coordinates, ierror)
    call MPI_Comm_rank(comm, rank, ierror)
    first = int(int(cells, int64) * coordinates / dims)
    n = int(int(cells, int64) * (coordinates + 1) / dims) - first
    do d = 1, 3
      call MPI_Cart_shift(comm, d - 1, 1, lower(d), upper(d), ierror)
      faces = n
      faces(d) = 1
      start = 1
      start(d) = 0
      call MPI_Type_create_subarray(3, n + 2, faces, start, MPI_ORDER_FORTRAN, MPI_DOUBLE_PRECISION, face(d), ierror)
      call MPI_Type_commit(face(d), ierror)
    end do
  end subroutine make_block

  ! A warm middle, and the hot face at z = 0 in the halo of the blocks that touch it.
  subroutine set_initial(field)
    real(real64), intent(out) :: field(0:, 0:, 0:)
    real(real64) :: r, s, t
    integer :: i, j, k
    field = 0
    if (first(z) == 0) field(1:n(x), 1:n(y), 0) = 1
    do k = 1, n(z)
      do j = 1, n(y)
        do i = 1, n(x)
          r = (first(z) + k - 0.5_real64) / cells
          s = (first(y) + j - 0.5_real64) / cells
          t = (first(x) + i - 0.5_real64) / cells
          field(i, j, k) = ((r * (1 - r)) * (s * (1 - s))) * (t * (1 - t))
        end do
      end do
    end do
  end subroutine set_initial

  subroutine exchange_halo()
    integer :: d, send(3), receive(3)
    do d = 1, 3
      send = 0
      receive = 0
      send(d) = 1
      receive(d) = n(d) + 1
      call MPI_Sendrecv(u(send(x), send(y), send(z)), 1, face(d), lower(d), 0, &
           u(receive(x), receive(y), receive(z)), 1, face(d), upper(d), 0, comm, MPI_STATUS_IGNORE, ierror)
      send(d) = n(d)
      receive(d) = 0
      call MPI_Sendrecv(u(send(x), send(y), send(z)), 1, face(d), upper(d), 1, &
           u(receive(x), receive(y), receive(z)), 1, face(d), lower(d), 1, comm, MPI_STATUS_IGNORE, ierror)
    end do
  end subroutine exchange_halo

  subroutine advance(old, new)
    real(real64), intent(in) :: old(0:, 0:, 0:)
    real(real64), intent(inout) :: new(0:, 0:, 0:)
    integer :: i, j, k
    do k = 1, n(z)
      do j = 1, n(y)
        do i = 1, n(x)
          new(i, j, k) = old(i, j, k) + 0.125_real64 * ((((old(i - 1, j, k) + old(i + 1, j, k)) &
               + (old(i, j - 1, k) + old(i, j + 1, k))) + (old(i, j, k - 1) + old(i, j, k + 1))) - 6 * old(i, j, k))
        end do
      end do
    end do
  end subroutine advance

  ! Every cell's bits mixed with its global index, summed: the same for every decomposition. Compiled with -fwrapv.
  integer(int64) function checksum() result(all_ranks)
    integer(int64) :: mine, bits, side
    integer :: i, j, k
    mine = 0
    side = cells
    do k = 1, n(z)
      do j = 1, n(y)
        do i = 1, n(x)
          bits = ieor(transfer(u(i, j, k), bits), &
               ((first(x) + i) + side * ((first(y) + j) + side * (first(z) + k))) * int(z'5851f42d4c957f2d', int64))
          bits = ieor(bits, shiftr(bits, 32)) * int(z'2545f4914f6cdd1d', int64)
          mine = mine + ieor(bits, shiftr(bits, 29))
        end do
      end do
    end do
    call MPI_Allreduce(mine, all_ranks, 1, MPI_INTEGER8, MPI_SUM, comm, ierror)
  end function checksum

end program heat3d
