! Arrays in Kedge's memory, which a restart brings back where they were: part of the module kedge, which says what it is for.
!
! C is called directly: it makes the pointer's descriptor (kedge_fortran_heap.c).
module kedge_heap
  use, intrinsic :: iso_c_binding, only: c_char, c_int
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use kedge_c, only: kedge_context
  implicit none
  private
  public :: kedge_alloc, kedge_find, kedge_free

  ! Associates `array` with a new block of this name and shape (integers of 4 or 8 bytes, as many as the pointer has dimensions),
  ! all of it zero.
  interface kedge_alloc
    subroutine kedge_alloc_int32(context, name, array, shape, stat) bind(C, name='kedge_fortran_alloc_int32')
      import :: c_char, c_int, kedge_context, int32
      type(kedge_context), intent(in) :: context
      character(kind=c_char, len=*), intent(in) :: name
      integer(int32), pointer, intent(inout) :: array(..)
      type(*), intent(in) :: shape(:)
      integer(c_int), intent(out) :: stat
    end subroutine kedge_alloc_int32
    subroutine kedge_alloc_int64(context, name, array, shape, stat) bind(C, name='kedge_fortran_alloc_int64')
      import :: c_char, c_int, kedge_context, int64
      type(kedge_context), intent(in) :: context
      character(kind=c_char, len=*), intent(in) :: name
      integer(int64), pointer, intent(inout) :: array(..)
      type(*), intent(in) :: shape(:)
      integer(c_int), intent(out) :: stat
    end subroutine kedge_alloc_int64
    subroutine kedge_alloc_real32(context, name, array, shape, stat) bind(C, name='kedge_fortran_alloc_real32')
      import :: c_char, c_int, kedge_context, real32
      type(kedge_context), intent(in) :: context
      character(kind=c_char, len=*), intent(in) :: name
      real(real32), pointer, intent(inout) :: array(..)
      type(*), intent(in) :: shape(:)
      integer(c_int), intent(out) :: stat
    end subroutine kedge_alloc_real32
    subroutine kedge_alloc_real64(context, name, array, shape, stat) bind(C, name='kedge_fortran_alloc_real64')
      import :: c_char, c_int, kedge_context, real64
      type(kedge_context), intent(in) :: context
      character(kind=c_char, len=*), intent(in) :: name
      real(real64), pointer, intent(inout) :: array(..)
      type(*), intent(in) :: shape(:)
      integer(c_int), intent(out) :: stat
    end subroutine kedge_alloc_real64
    subroutine kedge_alloc_complex32(context, name, array, shape, stat) bind(C, name='kedge_fortran_alloc_complex32')
      import :: c_char, c_int, kedge_context, real32
      type(kedge_context), intent(in) :: context
      character(kind=c_char, len=*), intent(in) :: name
      complex(real32), pointer, intent(inout) :: array(..)
      type(*), intent(in) :: shape(:)
      integer(c_int), intent(out) :: stat
    end subroutine kedge_alloc_complex32
    subroutine kedge_alloc_complex64(context, name, array, shape, stat) bind(C, name='kedge_fortran_alloc_complex64')
      import :: c_char, c_int, kedge_context, real64
      type(kedge_context), intent(in) :: context
      character(kind=c_char, len=*), intent(in) :: name
      complex(real64), pointer, intent(inout) :: array(..)
      type(*), intent(in) :: shape(:)
      integer(c_int), intent(out) :: stat
    end subroutine kedge_alloc_complex64
  end interface kedge_alloc

  ! Associates `array` with the block of this name, made here or in the process that was restored. kedge_error_mismatch: it has
  ! another type or rank.
  interface kedge_find
    subroutine kedge_find_int32(context, name, array, stat) bind(C, name='kedge_fortran_find_int32')
      import :: c_char, c_int, kedge_context, int32
      type(kedge_context), intent(in) :: context
      character(kind=c_char, len=*), intent(in) :: name
      integer(int32), pointer, intent(inout) :: array(..)
      integer(c_int), intent(out) :: stat
    end subroutine kedge_find_int32
    subroutine kedge_find_int64(context, name, array, stat) bind(C, name='kedge_fortran_find_int64')
      import :: c_char, c_int, kedge_context, int64
      type(kedge_context), intent(in) :: context
      character(kind=c_char, len=*), intent(in) :: name
      integer(int64), pointer, intent(inout) :: array(..)
      integer(c_int), intent(out) :: stat
    end subroutine kedge_find_int64
    subroutine kedge_find_real32(context, name, array, stat) bind(C, name='kedge_fortran_find_real32')
      import :: c_char, c_int, kedge_context, real32
      type(kedge_context), intent(in) :: context
      character(kind=c_char, len=*), intent(in) :: name
      real(real32), pointer, intent(inout) :: array(..)
      integer(c_int), intent(out) :: stat
    end subroutine kedge_find_real32
    subroutine kedge_find_real64(context, name, array, stat) bind(C, name='kedge_fortran_find_real64')
      import :: c_char, c_int, kedge_context, real64
      type(kedge_context), intent(in) :: context
      character(kind=c_char, len=*), intent(in) :: name
      real(real64), pointer, intent(inout) :: array(..)
      integer(c_int), intent(out) :: stat
    end subroutine kedge_find_real64
    subroutine kedge_find_complex32(context, name, array, stat) bind(C, name='kedge_fortran_find_complex32')
      import :: c_char, c_int, kedge_context, real32
      type(kedge_context), intent(in) :: context
      character(kind=c_char, len=*), intent(in) :: name
      complex(real32), pointer, intent(inout) :: array(..)
      integer(c_int), intent(out) :: stat
    end subroutine kedge_find_complex32
    subroutine kedge_find_complex64(context, name, array, stat) bind(C, name='kedge_fortran_find_complex64')
      import :: c_char, c_int, kedge_context, real64
      type(kedge_context), intent(in) :: context
      character(kind=c_char, len=*), intent(in) :: name
      complex(real64), pointer, intent(inout) :: array(..)
      integer(c_int), intent(out) :: stat
    end subroutine kedge_find_complex64
  end interface kedge_find

  interface
    ! Frees what `array` is associated with: nullify it then.
    subroutine kedge_free(context, array, stat) bind(C, name='kedge_fortran_free')
      import :: c_int, kedge_context
      type(kedge_context), intent(in) :: context
      type(*), dimension(..), intent(in) :: array
      integer(c_int), intent(out) :: stat
    end subroutine kedge_free
  end interface
end module kedge_heap
