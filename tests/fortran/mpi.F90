! kedge_mpi_init with the communicators of a binding of MPI: the world split in two, each half with checkpoints of its own.
! It is compiled once for each: TEST_BINDING is mpi or mpi_f08, TEST_COMMUNICATOR the type of its communicators.
program test_mpi
  use TEST_BINDING
  use kedge
  use kedge_mpi
  use testing
  implicit none
  TEST_COMMUNICATOR :: comm
  type(kedge_context) :: context
  real(8), target :: field(100)
  integer :: stat, version, world_rank, half, half_rank, ierror
  character(len=1) :: digit

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, world_rank, ierror)
  half = mod(world_rank, 2)
  call MPI_Comm_split(MPI_COMM_WORLD, half, world_rank, comm, ierror)
  call MPI_Comm_rank(comm, half_rank, ierror)
  call kedge_mpi_init(context, 3.0d0, stat)
  call need(stat == kedge_error_invalid_argument .and. index(kedge_error_message(), 'MPI_Comm') > 0, 'not a communicator')
  write (digit, '(i1)') half
  call kedge_mpi_init(context, comm, stat, job='half ' // digit)
  call need(stat == kedge_ok, 'init over half of the ranks')
  field = world_rank + 0.5d0
  call kedge_protect(context, 0, field, stat)
  call kedge_checkpoint(context, 'half', 10 + half, stat)
  call need(stat == kedge_ok, 'checkpoint')
  call kedge_wait(context, stat)
  call need(stat == kedge_ok, 'wait')
  field = 0
  call kedge_restart(context, 'half', version, stat)
  call need(stat == kedge_ok .and. version == 10 + half, 'the version of this half')
  call need(all(field == world_rank + 0.5d0), 'the bytes of this rank')
  call kedge_finalize(context, stat)
  call need(stat == kedge_ok, 'finalize')
  call finish(TEST_NAME)
  call MPI_Finalize(ierror)
end program test_mpi
