# What `cmake --install` puts where, and how other projects find it: find_package(kedge [COMPONENTS mpi fortran ...]) with the
# target kedge::NAME for each library kedge-NAME, and pkg-config's kedge and kedge-NAME.
#
# Everything is relocatable: programs and libraries find each other by $ORIGIN, and the package files by their own place.
# The component "python" is what a wheel holds (pyproject.toml); it puts the programs into the package kedge itself.
include(CMakePackageConfigHelpers)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/kedge)
# Each library, the folder of the header or module files that come with it, and what pkg-config says it requires.
set(libraries kedge kedge-bb kedge-fmi kedge-mpi kedge-mpi-mpich kedge-fortran kedge-bb-fortran kedge-fmi-fortran
              kedge-mpi-fortran kedge-mpi-mpich-fortran)
set(programs kedge-agent kedge-tool kedge-bench kedge-buffer fmirun)
set(requires_kedge "")
set(requires_kedge-bb "")
set(requires_kedge-bb-fortran kedge-bb)
set(requires_kedge-fmi kedge)
set(requires_kedge-fmi-fortran kedge-fmi)
set(requires_kedge-mpi kedge)
set(requires_kedge-mpi-mpich kedge)
set(requires_kedge-fortran kedge)
set(requires_kedge-mpi-fortran kedge-fortran kedge-mpi)
set(requires_kedge-mpi-mpich-fortran kedge-fortran kedge-mpi-mpich)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/kedge DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# The loader searches the system's own prefix, and no other for sure.
set(pc_run_path " -Wl,-rpath,\${libdir}")
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(pc_run_path "")
endif()
file(RELATIVE_PATH pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
foreach(library IN LISTS libraries)
  if(NOT TARGET ${library})
    continue()
  endif()
  set(include_folder ${CMAKE_INSTALL_INCLUDEDIR})
  get_target_property(module_folder ${library} Fortran_MODULE_DIRECTORY)
  if(module_folder)
    # Of all modules only those that a program uses; the folder of another MPI's stands apart, as in the build tree.
    file(RELATIVE_PATH module_subfolder ${PROJECT_BINARY_DIR}/include ${module_folder})
    string(APPEND include_folder /kedge/fortran/${module_subfolder})
    set(apart PATTERN mpich EXCLUDE)
    if(module_subfolder)
      set(apart "")
    endif()
    install(DIRECTORY ${module_folder}/ DESTINATION ${include_folder} FILES_MATCHING PATTERN "*.mod" ${apart})
    # To read: what each procedure takes and does.
    file(GLOB module_sources ${PROJECT_SOURCE_DIR}/bindings/fortran/*.f90)
    install(FILES ${module_sources} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kedge/fortran)
  endif()
  string(REGEX REPLACE "^kedge-" "" export_name ${library})
  set_target_properties(${library} PROPERTIES
    EXPORT_NAME ${export_name} VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR} INSTALL_RPATH "$ORIGIN")
  if(SKBUILD)
    # A wheel has no links, and would carry the library twice.
    set_target_properties(${library} PROPERTIES VERSION ${PROJECT_VERSION_MAJOR})
  endif()
  target_include_directories(${library} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${include_folder}>)
  install(TARGETS ${library} EXPORT kedge-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

  set(pc_name ${library})
  set(pc_include_folder ${include_folder})
  list(JOIN requires_${library} ", " pc_requires)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/library.pc.in ${PROJECT_BINARY_DIR}/${library}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${library}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
if(TARGET kedge)
  install(EXPORT kedge-targets NAMESPACE kedge:: DESTINATION ${package_folder})
endif()

if(SKBUILD)
  # What the component "python" installs.
  add_custom_target(python-package)
  add_dependencies(python-package _kedge _bb kedge kedge-bb)
endif()
foreach(program IN LISTS programs)
  if(NOT TARGET ${program})
    continue()
  endif()
  set_target_properties(${program} PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  if(SKBUILD AND NOT program MATCHES "^(kedge-bench|fmirun)$")
    install(TARGETS ${program} RUNTIME DESTINATION kedge/bin COMPONENT python)
    add_dependencies(python-package ${program})
  endif()
endforeach()

# Libraries that programs are run with, and the command that does. They belong to no package of a language.
if(NOT SKBUILD)
  set(KEDGE_PRELOAD ../lib/kedge/libkedge-bb-preload.so)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/kedge-with-buffers.in ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/kedge-with-buffers @ONLY
    FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  file(RELATIVE_PATH KEDGE_PRELOAD /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR}/kedge/libkedge-bb-preload.so)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/kedge-with-buffers.in ${PROJECT_BINARY_DIR}/kedge-with-buffers @ONLY)
  install(PROGRAMS ${PROJECT_BINARY_DIR}/kedge-with-buffers DESTINATION ${CMAKE_INSTALL_BINDIR})
  set_target_properties(kedge-bb-preload PROPERTIES INSTALL_RPATH "$ORIGIN/..")
  install(TARGETS kedge-bb-preload kedge-malloc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/kedge)
endif()

# For ranks of fmirun, which alone look there.
if(NOT SKBUILD)
  set_target_properties(kedge-mpi-abi PROPERTIES INSTALL_RPATH "$ORIGIN/../..")
  install(TARGETS kedge-mpi-abi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/kedge/mpi_abi NAMELINK_SKIP)
endif()

# `kedge plan`, `kedge report` and `kedge run` are programs kedge-NAME beside kedge: in the build tree with the sources and the
# project's Python; installed with a copy in share/kedge and the python3 of the machine. A wheel has its own.
if(NOT SKBUILD)
  file(RELATIVE_PATH python_folder /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_DATADIR}/kedge/python)
  foreach(KEDGE_PROGRAM plan report run)
    set(program kedge-${KEDGE_PROGRAM})
    set(template ${PROJECT_SOURCE_DIR}/cmake/kedge-program.in)
    if(KEDGE_PROGRAM STREQUAL "plan")
      set(template ${PROJECT_SOURCE_DIR}/cmake/kedge-plan.in)
    endif()
    set(KEDGE_PLAN_FOLDER ${PROJECT_SOURCE_DIR}/python)
    set(KEDGE_PLAN_PYTHON ${KEDGE_PYTHON})
    configure_file(${template} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${program} @ONLY
      FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
    set(KEDGE_PLAN_FOLDER "$(dirname \"$(readlink -f \"$0\")\")/${python_folder}")
    set(KEDGE_PLAN_PYTHON python3)
    configure_file(${template} ${PROJECT_BINARY_DIR}/${program} @ONLY)
    install(PROGRAMS ${PROJECT_BINARY_DIR}/${program} DESTINATION ${CMAKE_INSTALL_BINDIR})
  endforeach()
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/kedge DESTINATION ${CMAKE_INSTALL_DATADIR}/kedge/python
    FILES_MATCHING PATTERN "*.py" PATTERN "*.toml" PATTERN "__pycache__" EXCLUDE)
endif()

set(KEDGE_UNIT_FOLDER lib/systemd/system CACHE STRING "Where units of systemd are installed")
set(KEDGE_PYTHON_FOLDER "" CACHE STRING "Where the Python package is installed, below the prefix; empty: in share/kedge/python")
if(TARGET _kedge AND NOT SKBUILD AND NOT KEDGE_PYTHON_FOLDER)
  file(RELATIVE_PATH library_folder /prefix/${CMAKE_INSTALL_DATADIR}/kedge/python/kedge /prefix/${CMAKE_INSTALL_LIBDIR})
  set_target_properties(_kedge _bb PROPERTIES INSTALL_RPATH "$ORIGIN/${library_folder}")
  install(TARGETS _kedge _bb LIBRARY DESTINATION ${CMAKE_INSTALL_DATADIR}/kedge/python/kedge)
elseif(KEDGE_PYTHON_FOLDER AND TARGET _kedge)
  install(TARGETS _kedge _bb LIBRARY DESTINATION ${KEDGE_PYTHON_FOLDER}/kedge)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/python/kedge DESTINATION ${KEDGE_PYTHON_FOLDER}
    FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "*.toml" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)
endif()

install(FILES ${PROJECT_SOURCE_DIR}/packaging/completion/kedge.bash
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME kedge)

# The documents, with links to each other that lead somewhere, and the examples, which build from there.
if(NOT SKBUILD)
  install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/CITATION.cff
    ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN man EXCLUDE)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
    PATTERN CMakeLists.txt EXCLUDE PATTERN run EXCLUDE PATTERN support EXCLUDE PATTERN __pycache__ EXCLUDE)
  install(FILES ${PROJECT_SOURCE_DIR}/bindings/fortran/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/bindings/fortran)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/examples/CMakeLists.txt DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)
  install(CODE "set(PAGES_FOLDER ${CMAKE_INSTALL_DOCDIR})\nset(INCLUDE_FOLDER ${CMAKE_INSTALL_INCLUDEDIR})")
  install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/InstalledPages.cmake)
endif()

# For an operator's burst buffers.
if(NOT SKBUILD)
  configure_file(${PROJECT_SOURCE_DIR}/packaging/systemd/kedge-buffer@.service.in ${PROJECT_BINARY_DIR}/kedge-buffer@.service @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/kedge-buffer@.service DESTINATION ${KEDGE_UNIT_FOLDER})
endif()

configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/kedge-config.cmake.in ${PROJECT_BINARY_DIR}/kedge-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/kedge-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/kedge-config.cmake ${PROJECT_BINARY_DIR}/kedge-config-version.cmake
  DESTINATION ${package_folder})
