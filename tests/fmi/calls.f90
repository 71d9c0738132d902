! The module kedge_fmi: every kind of argument that its calls have.
!
!   fmirun -n RANKS fmi_calls_fortran [section]      "section": gives an array that is not contiguous
program calls
  use, intrinsic :: iso_c_binding
  use kedge_fmi
  implicit none

  type, bind(C) :: particle
    integer(c_int) :: number
    real(c_double) :: place(3)
  end type particle

  integer :: rank, ranks, next, before, i, ierror
  character(len=16) :: word = ''

  call FMI_Init(ierror)
  call expect(ierror == FMI_SUCCESS, 'init')
  i = FMI_Loop([FMI_Array(ranks), FMI_Array(word)])
  call FMI_Comm_rank(FMI_COMM_WORLD, rank)
  call FMI_Comm_size(FMI_COMM_WORLD, ranks, ierror)
  call expect(i == 0 .and. ranks >= 2, 'ranks')
  next = modulo(rank + 1, ranks)
  before = modulo(rank - 1, ranks)
  if (command_argument_count() > 0) call get_command_argument(1, word)
  if (word == 'section') call a_section()
  call messages()
  call collectives()
  call communicators()
  call types()
  call operations()
  i = FMI_Inner_loop('solve', [FMI_Array(ranks), FMI_Array(word)])
  call expect(i == 0, 'inner loop')
  i = FMI_Inner_loop('solve', [FMI_Array(ranks), FMI_Array(word)])
  call expect(i == 1 .and. FMI_OUTER_LOOP == -1, 'inner loop')
  i = FMI_Loop([FMI_Array(ranks), FMI_Array(word)])
  call expect(i == 1, 'loop')
  call expect(FMI_Wtime() > 0, 'time')
  if (rank == 0) print '(a)', 'ok'
  call FMI_Finalize(ierror)

contains

  subroutine expect(holds, what)
    logical, intent(in) :: holds
    character(len=*), intent(in) :: what
    if (holds) return
    print '(a, i0, 2a)', 'rank ', rank, ': ', what
    call FMI_Abort(FMI_COMM_WORLD, 3)
  end subroutine expect

  subroutine a_section()
    integer :: numbers(10) = 0
    call FMI_Bcast(numbers(1:10:2), 5, FMI_INTEGER, 0, FMI_COMM_WORLD)
  end subroutine a_section

  subroutine messages()
    integer :: numbers(2, 3), count, index, finished, indices(2)
    integer, asynchronous :: got(2, 3), one
    real(c_float), asynchronous :: scalar
    logical :: flag
    type(FMI_Status) :: status
    type(FMI_Request) :: requests(2), request
    numbers = reshape([1, 2, 3, 4, 5, 6], [2, 3]) + 10 * rank
    got = 0
    call FMI_Sendrecv(numbers, 6, FMI_INTEGER, next, 7, got, 6, FMI_INTEGER, before, 7, FMI_COMM_WORLD, status, ierror)
    call expect(ierror == FMI_SUCCESS .and. all(got == numbers - 10 * rank + 10 * before), 'sendrecv')
    call expect(status%FMI_SOURCE == before .and. status%FMI_TAG == 7, 'status')
    call FMI_Get_count(status, FMI_INTEGER, count)
    call expect(count == 6, 'count')

    got = 0
    call FMI_Irecv(got(:, 2), 2, FMI_INTEGER, before, 8, FMI_COMM_WORLD, requests(1))
    call FMI_Irecv(scalar, 1, FMI_REAL, before, 9, FMI_COMM_WORLD, requests(2))
    call FMI_Send(real(rank, c_float), 1, FMI_REAL, next, 9, FMI_COMM_WORLD)
    call FMI_Waitany(2, requests, index, status)
    call expect(index == 2 .and. nint(scalar) == before, 'waitany counts from 1')
    call expect(requests(2) == FMI_REQUEST_NULL .and. requests(1) /= FMI_REQUEST_NULL, 'requests')
    call FMI_Barrier(FMI_COMM_WORLD)
    call FMI_Testany(2, requests, index, flag, FMI_STATUS_IGNORE)
    call expect(.not. flag, 'nothing is there')
    call FMI_Barrier(FMI_COMM_WORLD)
    call FMI_Isend(numbers(:, 2), 2, FMI_INTEGER, next, 8, FMI_COMM_WORLD, request)
    call FMI_Waitsome(2, requests, finished, indices, FMI_STATUSES_IGNORE)
    call expect(finished == 1 .and. indices(1) == 1, 'waitsome counts from 1')
    call expect(all(got(:, 2) == [3, 4] + 10 * before), 'columns')
    do
      call FMI_Test(request, flag, FMI_STATUS_IGNORE)
      if (flag) exit
    end do
    call FMI_Waitany(2, requests, index, FMI_STATUS_IGNORE)
    call expect(index == FMI_UNDEFINED, 'no request is left')

    call FMI_Recv_init(one, 1, FMI_INTEGER, before, 1, FMI_COMM_WORLD, request)
    do i = 1, 3
      call FMI_Start(request)
      call FMI_Send(rank * 10 + i, 1, FMI_INTEGER, next, 1, FMI_COMM_WORLD)
      call FMI_Wait(request, status)
      call expect(one == before * 10 + i, 'a persistent request')
    end do
    call FMI_Request_free(request)
    call FMI_Iprobe(FMI_ANY_SOURCE, FMI_ANY_TAG, FMI_COMM_WORLD, flag, FMI_STATUS_IGNORE)
    call expect(.not. flag, 'nobody sends')
    call FMI_Sendrecv_replace(one, 1, FMI_INTEGER, FMI_PROC_NULL, 0, FMI_PROC_NULL, 0, FMI_COMM_WORLD, FMI_STATUS_IGNORE)
  end subroutine messages

  subroutine collectives()
    integer :: sum, own(2), counts(ranks), places(ranks)
    integer, allocatable :: gathered(:), there(:), here(:)
    complex(c_double_complex) :: z
    logical :: all_true
    sum = rank + 1
    call FMI_Allreduce(FMI_IN_PLACE, sum, 1, FMI_INTEGER, FMI_SUM, FMI_COMM_WORLD, ierror)
    call expect(sum == ranks * (ranks + 1) / 2, 'in place')
    z = (1, 2)
    call FMI_Allreduce(FMI_IN_PLACE, z, 1, FMI_DOUBLE_COMPLEX, FMI_SUM, FMI_COMM_WORLD)
    call expect(nint(aimag(z)) == 2 * ranks, 'complex')
    call FMI_Allreduce(rank < ranks, all_true, 1, FMI_LOGICAL, FMI_LAND, FMI_COMM_WORLD)
    call expect(all_true, 'logicals')
    counts = [(i, i = 1, ranks)]
    places = [(i * (i - 1) / 2, i = 1, ranks)]
    allocate (gathered(ranks * (ranks + 1) / 2), there(2 * ranks), here(2 * ranks))
    gathered = 0
    call FMI_Allgatherv([(rank, i = 0, rank)], rank + 1, FMI_INTEGER, gathered, counts, places, FMI_INTEGER, FMI_COMM_WORLD)
    call expect(all([(all(gathered(places(i) + 1:places(i) + i) == i - 1), i = 1, ranks)]), 'allgatherv')
    there = [(rank * 100 + i, i = 0, 2 * ranks - 1)]
    call FMI_Alltoall(there, 2, FMI_INTEGER, here, 2, FMI_INTEGER, FMI_COMM_WORLD)
    call expect(all(here == [(i / 2 * 100 + 2 * rank + modulo(i, 2), i = 0, 2 * ranks - 1)]), 'alltoall')
    call FMI_Scatter(there, 2, FMI_INTEGER, own, 2, FMI_INTEGER, 0, FMI_COMM_WORLD)
    call expect(all(own == [2 * rank, 2 * rank + 1]), 'scatter')
    if (rank == 0) word = 'from the root'
    call FMI_Bcast(word, len(word), FMI_CHARACTER, 0, FMI_COMM_WORLD)
    call expect(word == 'from the root', 'characters')
  end subroutine collectives

  subroutine communicators()
    type(FMI_Comm) :: half, grid, line
    type(FMI_Group) :: group
    integer :: number, sizes(2), at(2), result, source, destination
    logical :: periods(2)
    call FMI_Comm_split(FMI_COMM_WORLD, modulo(rank, 2), -rank, half)
    call FMI_Comm_size(half, number)
    call expect(number == (ranks + 1 - modulo(rank, 2)) / 2, 'split')
    call FMI_Comm_compare(half, FMI_COMM_WORLD, result)
    call expect(result == FMI_UNEQUAL .and. half /= FMI_COMM_WORLD .and. half /= FMI_COMM_NULL, 'compare')
    call FMI_Comm_group(half, group)
    call FMI_Group_size(group, result)
    call expect(result == number, 'group')
    call FMI_Group_free(group)
    call expect(group == FMI_GROUP_NULL, 'freed')
    sizes = [ranks, 1]
    call FMI_Cart_create(FMI_COMM_WORLD, 2, sizes, [.true., .false.], .false., grid)
    call FMI_Cart_get(grid, 2, sizes, periods, at)
    call expect(all(periods .eqv. [.true., .false.]) .and. all(at == [rank, 0]) .and. all(sizes == [ranks, 1]), 'grid')
    call FMI_Cart_shift(grid, 0, 1, source, destination)
    call expect(source == before .and. destination == next, 'shift')
    call FMI_Cart_sub(grid, [.false., .true.], line)
    call FMI_Comm_size(line, number)
    call expect(number == 1, 'sub')
    call FMI_Comm_free(half)
    call expect(half == FMI_COMM_NULL, 'freed')
  end subroutine communicators

  subroutine types()
    type(particle) :: mine(3), theirs(3)
    integer(FMI_ADDRESS_KIND) :: begin, place, lower, extent
    integer :: field(4, 5), block(4, 5), position, bytes
    integer(c_signed_char) :: packed(64)
    type(FMI_Datatype) :: particles, corner
    call FMI_Get_address(mine(1)%number, begin)
    call FMI_Get_address(mine(1)%place, place)
    call FMI_Type_create_struct(2, [1, 3], [0_FMI_ADDRESS_KIND, place - begin], [FMI_INTEGER, FMI_DOUBLE_PRECISION], particles)
    call FMI_Type_commit(particles)
    call FMI_Type_get_extent(particles, lower, extent)
    call expect(lower == 0 .and. extent == c_sizeof(mine) / 3, 'extent')
    mine = [(particle(10 * rank + i, [1.0d0, 2.0d0, 3.0d0] * i), i = 1, 3)]
    call FMI_Sendrecv(mine, 3, particles, next, 0, theirs, 3, particles, before, 0, FMI_COMM_WORLD, FMI_STATUS_IGNORE)
    call expect(all(theirs%number == [1, 2, 3] + 10 * before) .and. theirs(3)%place(3) == 9, 'a struct')
    ! Rows 2 and 3 of columns 4 and 5, counted from 1.
    call FMI_Type_create_subarray(2, [4, 5], [2, 2], [1, 3], FMI_ORDER_FORTRAN, FMI_INTEGER, corner)
    call FMI_Type_commit(corner)
    field = reshape([(i, i = 1, 20)], [4, 5])
    block = 0
    call FMI_Sendrecv(field, 1, corner, next, 0, block, 1, corner, before, 0, FMI_COMM_WORLD, FMI_STATUS_IGNORE)
    call expect(all(block(2:3, 4:5) == field(2:3, 4:5)) .and. sum(block) == sum(field(2:3, 4:5)), 'a subarray')
    position = 0
    call FMI_Pack(field, 1, corner, packed, 64, position, FMI_COMM_WORLD)
    call FMI_Pack_size(1, corner, FMI_COMM_WORLD, bytes)
    call expect(position == 16 .and. bytes >= 16, 'packed')
    call FMI_Type_free(corner)
    call expect(corner == FMI_DATATYPE_NULL, 'freed')
  end subroutine types

  ! Of whole numbers the one that is further from zero.
  subroutine further(in, inout, count, type) bind(C)
    type(c_ptr), value :: in, inout
    integer(c_int), intent(in) :: count
    type(FMI_Datatype), intent(in) :: type
    integer(c_int), pointer :: a(:), b(:)
    if (type /= FMI_INTEGER) return
    call c_f_pointer(in, a, [count])
    call c_f_pointer(inout, b, [count])
    where (abs(a) > abs(b)) b = a
  end subroutine further

  subroutine operations()
    type(FMI_Op) :: op
    integer :: most
    logical :: commutes
    call FMI_Op_create(further, .true., op)
    call FMI_Op_commutative(op, commutes)
    call expect(commutes, 'commutative')
    call FMI_Allreduce(-rank, most, 1, FMI_INTEGER, op, FMI_COMM_WORLD)
    call expect(most == 1 - ranks, 'an operation of the program')
    call FMI_Op_free(op)
    call expect(op == FMI_OP_NULL, 'freed')
  end subroutine operations
end program calls
