# kedge_layer(NAME [MOVES_BYTES] SOURCES file... LINK target...)
#   One folder of src/ as a static library kedge_NAME. Layers link only layers above them (docs/architecture.md).
#   MOVES_BYTES: its own code copies, sums or packs what is checkpointed, and is optimised in full by Quick, too.
function(kedge_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 layer "MOVES_BYTES" "" "SOURCES;LINK")
  add_library(kedge_${name} STATIC ${layer_SOURCES})
  target_include_directories(kedge_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(kedge_${name} PUBLIC ${layer_LINK} PRIVATE kedge_compiler_flags)
  kedge_unity(kedge_${name})
  if(layer_MOVES_BYTES)
    target_compile_options(kedge_${name} PRIVATE $<$<CONFIG:Quick>:-O2>)
  endif()
endfunction()

# kedge_unity(TARGET)
#   Its sources are compiled up to eight at a time, as one: most of their compile time goes into headers that they share.
#   Names in their anonymous namespaces must therefore differ. `make run`, packages and wheels do so with up to 40 or 100
#   (CMakePresets.json, packaging/debian/rules, pyproject.toml), so that all names of a layer should differ. `make lint` and
#   `make test-long` compile file by file (KEDGE_UNITY=OFF): each proves there to include what it uses.
function(kedge_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${KEDGE_UNITY})
  target_compile_options(${target} PRIVATE ${KEDGE_UNITY_OPTIONS})
endfunction()

# The GoogleTest programs by kind, so that scripts/sanitizer-tests builds what it runs and nothing else: those beside the
# code under src/, those under tests/, and those that load an MPI library.
add_custom_target(unit_tests)
add_custom_target(scenario_tests)
add_custom_target(mpi_tests)
add_custom_target(fuzzers)

# kedge_test(NAME SOURCES file... LINK target... [DEFINITIONS definition...] [LABELS label...] [TIMEOUT seconds] [PARTS count])
#   A GoogleTest program; each of its tests becomes one ctest test, named NAME.Suite.Case. Those under src/ carry the
#   label "unit", others "scenario". Further labels with a meaning: "long" (only in `make test-long`), "mpi" (it or a
#   program that it starts loads an MPI library). The time limit is four times as long under a sanitizer. PARTS: so many
#   ctest tests, NAME.1 and so on, each a part of its tests in one process, where what they start costs more than most of them.
function(kedge_test name)
  if(NOT KEDGE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 test "" "PARTS;TIMEOUT" "SOURCES;LINK;DEFINITIONS;LABELS")
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 120)
  endif()
  if(KEDGE_SANITIZER)
    math(EXPR test_TIMEOUT "4 * ${test_TIMEOUT}")
  endif()
  cmake_path(IS_PREFIX KEDGE_SOURCE_LAYERS "${CMAKE_CURRENT_SOURCE_DIR}" is_unit_test)
  if(is_unit_test)
    set(kind unit)
  else()
    set(kind scenario)
  endif()
  list(APPEND test_LABELS ${kind})
  add_executable(${name} ${test_SOURCES})
  target_compile_definitions(${name} PRIVATE ${test_DEFINITIONS})
  if(mpi IN_LIST test_LABELS)
    add_dependencies(mpi_tests ${name})
  else()
    add_dependencies(${kind}_tests ${name})
  endif()
  # Optimising tests took a third of the time to build everything, and their own code is not what takes time in them.
  target_compile_options(${name} PRIVATE -O0)
  kedge_unity(${name})
  target_link_libraries(${name} PRIVATE ${test_LINK} GTest::gmock GTest::gtest_main kedge_compiler_flags)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/test)
  if(NOT test_PARTS)
    gtest_discover_tests(${name} TEST_PREFIX ${name}. DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
      PROPERTIES TIMEOUT ${test_TIMEOUT} LABELS "${test_LABELS}")
    return()
  endif()
  foreach(part RANGE 1 ${test_PARTS})
    math(EXPR index "${part} - 1")
    add_test(NAME ${name}.${part} COMMAND ${name})
    set_tests_properties(${name}.${part} PROPERTIES TIMEOUT ${test_TIMEOUT} LABELS "${test_LABELS}" COST ${test_TIMEOUT}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${test_PARTS};GTEST_SHARD_INDEX=${index}")
  endforeach()
endfunction()

# kedge_python_test(NAME COMMAND argument... [LABELS label...] [TIMEOUT seconds])
#   One ctest test that runs the project's Python (.venv, made by scripts/setup) with the package in python/ on its
#   path; BUILD_FOLDER names the build tree, where bin/ and lib/ are found. Labelled "python".
function(kedge_python_test name)
  if(NOT KEDGE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 test "" "TIMEOUT" "COMMAND;LABELS")
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 600)
  endif()
  add_test(NAME ${name} COMMAND ${KEDGE_PYTHON} ${test_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${test_TIMEOUT} LABELS "python;${test_LABELS}"
    ENVIRONMENT "PYTHONPATH=${PROJECT_SOURCE_DIR}/python;BUILD_FOLDER=${CMAKE_BINARY_DIR}")
endfunction()

# kedge_pytest(NAME PATH [LABELS label...] [TIMEOUT seconds] [ENVIRONMENT variable=value...])
#   The pytest suite at PATH, a folder or a file, as one ctest test; its tests marked "slow" are a second one, NAME.slow, labelled
#   "long". Suites are what takes longest, so ctest begins with them.
function(kedge_pytest name path)
  cmake_parse_arguments(PARSE_ARGV 2 test "" "TIMEOUT" "LABELS;ENVIRONMENT")
  if(NOT test_TIMEOUT)
    set(test_TIMEOUT 600)
  endif()
  # The plugin of hypothesis takes longer to load than most suites' other modules, and prints what hypothesis raises anyway.
  set(pytest -m pytest -q -p no:cacheprovider -p no:hypothesispytest ${path})
  set(folder ${CMAKE_BINARY_DIR}/pytest/${name})
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/pytest)
  set(all_are_slow "")
  if(IS_DIRECTORY ${path})
    file(GLOB_RECURSE files ${path}/*.py)
  else()
    set(files ${path})
    file(STRINGS ${path} all_are_slow REGEX "^pytestmark = .*mark\\.slow")
  endif()
  if(NOT all_are_slow)
    kedge_python_test(${name} COMMAND ${pytest} -m "not slow" --basetemp=${folder} LABELS ${test_LABELS} TIMEOUT ${test_TIMEOUT})
    set_tests_properties(${name} PROPERTIES COST ${test_TIMEOUT})
    if(test_ENVIRONMENT)
      set_tests_properties(${name} PROPERTIES ENVIRONMENT "${test_ENVIRONMENT}")
    endif()
  endif()
  foreach(file IN LISTS files)
    file(STRINGS ${file} marks REGEX "mark\\.slow")
    if(marks)
      kedge_python_test(${name}.slow COMMAND ${pytest} -m slow --basetemp=${folder}.slow LABELS ${test_LABELS} long TIMEOUT 3600)
      if(test_ENVIRONMENT)
        set_tests_properties(${name}.slow PROPERTIES ENVIRONMENT "${test_ENVIRONMENT}")
      endif()
      return()
    endif()
  endforeach()
endfunction()

# kedge_pytests(NAME FOLDER [LABELS label...] [TIMEOUT seconds] [ENVIRONMENT variable=value...])
#   The same for each test_PART.py in FOLDER, as NAME.PART: of a suite that would otherwise run on when all others are done.
function(kedge_pytests name folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/test_*.py)
  foreach(file IN LISTS files)
    get_filename_component(part ${file} NAME_WE)
    string(REPLACE test_ "" part ${part})
    kedge_pytest(${name}.${part} ${file} ${ARGN})
  endforeach()
endfunction()

# kedge_fuzzer(NAME SOURCES file... LINK target...)
#   A libFuzzer target, built only with -DKEDGE_BUILD_FUZZERS=ON under clang. scripts/fuzz runs it; inputs that must
#   always be tried lie in tests/fuzz/corpus/NAME/.
function(kedge_fuzzer name)
  if(NOT KEDGE_BUILD_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 fuzzer "" "" "SOURCES;LINK")
  add_executable(${name} ${fuzzer_SOURCES})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${name} PRIVATE ${fuzzer_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  add_dependencies(fuzzers ${name})
endfunction()
