# Compiler settings that every target shares: language levels, warnings, sanitizers, output folders.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# Assertions stay on in production (STYLE): no build type defines NDEBUG.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1")
# What is installed leaves out the functions of a layer that nothing there calls: each program has its layers in itself.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -ffunction-sections -fdata-sections")
set(CMAKE_C_FLAGS_RELEASE "-O2 -ffunction-sections -fdata-sections")
set(CMAKE_EXE_LINKER_FLAGS_RELEASE "-Wl,--gc-sections")
set(CMAKE_SHARED_LINKER_FLAGS_RELEASE "-Wl,--gc-sections")
set(CMAKE_MODULE_LINKER_FLAGS_RELEASE "-Wl,--gc-sections")
set(CMAKE_CXX_FLAGS_MINSIZEREL "-Os")
set(CMAKE_C_FLAGS_MINSIZEREL "-Os")
# Soon built, for `make run` and `pip install .`; layers that move bytes take -O2 there (kedge_layer). -O0 takes as long: it
# writes three times as much code. Its warnings are those of other trees. GCC collects garbage less often, which saves a
# sixth, as far as the machine's memory allows: an eighth of it for each compiler, at most 2 GiB.
set(CMAKE_CXX_FLAGS_QUICK "-Og -w")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  cmake_host_system_information(RESULT machine_mib QUERY TOTAL_PHYSICAL_MEMORY)
  math(EXPR compiler_kib "${machine_mib} * 1024 / 8")
  if(compiler_kib GREATER 2097152)
    set(compiler_kib 2097152)
  endif()
  string(APPEND CMAKE_CXX_FLAGS_QUICK " --param ggc-min-heapsize=${compiler_kib}")
endif()
# As many compilers as processors: Ninja would start two more, which takes an eighth of the time again from the caches.
if(CMAKE_BUILD_TYPE STREQUAL "Quick")
  include(ProcessorCount)
  ProcessorCount(processors)
  if(processors GREATER 0)
    set_property(GLOBAL PROPERTY JOB_POOLS compilers=${processors})
    set(CMAKE_JOB_POOL_COMPILE compilers)
  endif()
endif()
set(CMAKE_C_FLAGS_QUICK "-O1")
set(CMAKE_Fortran_FLAGS_QUICK "-O1")

find_program(KEDGE_CCACHE ccache)
if(KEDGE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${KEDGE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${KEDGE_CCACHE})
endif()

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/archive)

add_library(kedge_compiler_flags INTERFACE)
target_compile_options(kedge_compiler_flags INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:-Wall -Wextra -Wshadow -Wpointer-arith -Wcast-qual>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Woverloaded-virtual>)
if(KEDGE_WARNINGS_AS_ERRORS)
  target_compile_options(kedge_compiler_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>)
endif()

# Where sources are compiled several at a time, GCC takes their anonymous namespaces for those of a header.
set(KEDGE_UNITY_OPTIONS $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
if(CMAKE_UNITY_BUILD)
  target_compile_options(kedge_compiler_flags INTERFACE ${KEDGE_UNITY_OPTIONS})
endif()

# GCC's flow analysis mistakes the code that sanitizers insert for uses of uninitialised memory (its manual says so).
if(KEDGE_SANITIZER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(kedge_compiler_flags INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:-Wno-maybe-uninitialized>)
endif()

if(KEDGE_SANITIZER STREQUAL "address")
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=address,undefined>
    $<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=undefined> -fno-omit-frame-pointer -O1)
  add_link_options(-fsanitize=address,undefined)
elseif(KEDGE_SANITIZER STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer -O1)
  add_link_options(-fsanitize=thread)
elseif(NOT KEDGE_SANITIZER STREQUAL "")
  message(FATAL_ERROR "KEDGE_SANITIZER is '${KEDGE_SANITIZER}'; allowed are address, thread or empty")
endif()

# What every shared library is linked with. With a sanitizer its runtime is in the program, where a library finds it when loaded.
set(KEDGE_NO_UNDEFINED -Wl,--no-undefined)
if(KEDGE_SANITIZER)
  set(KEDGE_NO_UNDEFINED "")
endif()

# The code under test is instrumented for coverage, or libFuzzer would search blindly.
if(KEDGE_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "KEDGE_BUILD_FUZZERS needs clang; the compiler is ${CMAKE_CXX_COMPILER_ID}. Use: cmake --preset asan")
  endif()
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=fuzzer-no-link>)
endif()
