program quickstart
  use mpi
  use kedge
  use kedge_mpi
  implicit none
  real(8), target :: field(1000) = 0
  integer, target :: step = 0
  integer :: stat, version, ierror
  type(kedge_context) :: context

  call MPI_Init(ierror)
  call kedge_mpi_init(context, MPI_COMM_WORLD, stat)
  if (stat /= kedge_ok) error stop kedge_error_message()
  call kedge_protect(context, 0, step, stat, name='step')
  call kedge_protect(context, 1, field, stat, name='field')
  call kedge_restart(context, 'quickstart', version, stat)
  if (stat == kedge_ok) print '(a, i0)', 'continuing from step ', step
  if (stat /= kedge_ok .and. stat /= kedge_error_not_found) error stop kedge_error_message()
  do step = step + 1, 100
    field = field + step * 0.5d0
    if (mod(step, 10) /= 0) cycle
    call kedge_checkpoint(context, 'quickstart', step, stat)
    if (stat /= kedge_ok) print *, kedge_error_message()
  end do
  print '(a, g0)', 'field(1) = ', field(1)
  call kedge_finalize(context, stat)
  call MPI_Finalize(ierror)
end program quickstart
