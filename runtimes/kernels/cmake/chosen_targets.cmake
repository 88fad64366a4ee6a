# The targets that this machine runs, the fastest first; empty if it runs none.
function(targets_run_here result)
  try_run(ran compiled SOURCES ${PROJECT_SOURCE_DIR}/tests/runs_here.cpp
    CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}/src
    CXX_STANDARD 20
    RUN_OUTPUT_VARIABLE here)
  set(${result} ${here} PARENT_SCOPE)
endfunction()

# The instruction sets to build kernels for, of those in `targets`: what EDGESPEC_TARGETS in the
# environment names, "all", or "native" for the fastest that this machine runs. By default that one
# and the last, which nearly every machine runs: what is built here runs elsewhere, too. Tests, and
# what is built for another processor, have all.
set(asked "$ENV{EDGESPEC_TARGETS}")
if(asked STREQUAL "native" OR NOT (asked OR CMAKE_CROSSCOMPILING OR EDGESPEC_KERNELS_TESTS))
  targets_run_here(here)
endif()
if(here)
  list(GET here 0 fastest)
elseif(asked STREQUAL "native")
  message(FATAL_ERROR "this machine runs none of ${targets}; edgespec runs without kernels")
endif()
if(asked STREQUAL "native")
  set(asked ${fastest})
elseif(here)
  list(GET targets -1 usual)
  set(asked ${fastest} ${usual})
  list(REMOVE_DUPLICATES asked)
elseif(asked STREQUAL "all" OR NOT asked)
  set(asked ${targets})
endif()
foreach(target ${asked})
  if(NOT target IN_LIST targets)
    message(FATAL_ERROR "EDGESPEC_TARGETS has ${target}; there are: ${targets}, native, all")
  endif()
endforeach()
set(targets ${asked})
message(STATUS "kernels for ${targets}")
