# kedge_missing(WHAT PACKAGE [OPTION]): ends the configuration: WHAT was not found. PACKAGE is Debian's name of what holds it,
# OPTION the option that leaves out the part that needs it.
function(kedge_missing what package)
  set(way_out "")
  if(ARGC GREATER 2)
    set(way_out ", or leave out what needs it with -D${ARGV2}=OFF")
  endif()
  message(FATAL_ERROR "Kedge: ${what} is missing. Install it (Debian: ${package}; scripts/setup installs all there is to install)${way_out}.")
endfunction()

# Enables Fortran in the calling scope; it must be there.
macro(kedge_enable_fortran)
  include(CheckLanguage)
  check_language(Fortran)
  if(NOT CMAKE_Fortran_COMPILER)
    kedge_missing("a Fortran compiler" gfortran KEDGE_WITH_FORTRAN)
  endif()
  enable_language(Fortran)
endmacro()
