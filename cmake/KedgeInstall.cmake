# What `cmake --install` puts where, and how other projects find it: find_package(kedge [COMPONENTS component...]) with the
# target kedge::kedge and one for each component (mpi, mpi-mpich, fortran, mpi-fortran, mpi-mpich-fortran), and pkg-config's
# kedge and kedge-COMPONENT. Fortran's module files lie beside the headers' folder; they belong to the compiler of the build.
#
# Everything is relocatable: programs and libraries find each other by $ORIGIN, and the package files by their own place.
# The component "python" is what a wheel holds (pyproject.toml); it puts the programs into the package kedge itself.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/kedge)
set(libraries kedge kedge-mpi kedge-mpi-mpich kedge-fortran kedge-mpi-fortran kedge-mpi-mpich-fortran)
set(programs kedge-agent kedge-tool kedge-bench)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kedge DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
set(pc_requires_kedge "")
set(pc_requires_kedge-mpi kedge)
set(pc_requires_kedge-mpi-mpich kedge)
set(pc_requires_kedge-fortran kedge)
set(pc_requires_kedge-mpi-fortran "kedge-fortran, kedge-mpi")
set(pc_requires_kedge-mpi-mpich-fortran "kedge-fortran, kedge-mpi-mpich")
foreach(library IN LISTS libraries)
  if(NOT TARGET ${library})
    continue()
  endif()
  string(REGEX REPLACE "^kedge-" "" export_name ${library})
  set_target_properties(${library} PROPERTIES
    EXPORT_NAME ${export_name} VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} INSTALL_RPATH "$ORIGIN")
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS ${library} EXPORT ${library}-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT ${library}-targets NAMESPACE kedge:: DESTINATION ${package_folder})
  set(pc_name ${library})
  set(pc_requires ${pc_requires_${library}})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/library.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

if(TARGET kedge-fortran)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
    FILES_MATCHING PATTERN "*.mod" PATTERN mpich EXCLUDE)
endif()

foreach(program IN LISTS programs)
  if(NOT TARGET ${program})
    continue()
  endif()
  set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(SKBUILD AND NOT program STREQUAL "kedge-bench")
    install(TARGETS ${program} RUNTIME DESTINATION kedge/bin COMPONENT python)
  endif()
endforeach()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/kedge-config.cmake.in ${PROJECT_BINARY_DIR}/kedge-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kedge-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kedge-config.cmake ${PROJECT_BINARY_DIR}/kedge-config-version.cmake
  DESTINATION ${package_folder})
