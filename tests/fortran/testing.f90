! Checks for the test programs: need() counts what is wrong and says so, finish() ends with an error when anything was.
module testing
  use kedge, only: kedge_error_message
  implicit none
  private
  public :: need, finish
  integer :: failures = 0
contains
  subroutine need(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (condition) return
    failures = failures + 1
    print '(4a)', 'wrong: ', what, ': ', kedge_error_message()
  end subroutine need

  subroutine finish(title)
    character(len=*), intent(in) :: title
    if (failures > 0) error stop 1
    print '(2a)', title, ': passed'
  end subroutine finish
end module testing
