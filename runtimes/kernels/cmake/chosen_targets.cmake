# EDGESPEC_TARGETS in the environment: the instruction sets to build kernels for, of those in
# `targets`. "native" is the fastest that this machine runs, which takes a third of the time; kernels
# that are built so do not run on machines without it.
set(asked "$ENV{EDGESPEC_TARGETS}")
if(asked STREQUAL "native")
  try_run(ran compiled SOURCES ${CMAKE_CURRENT_LIST_DIR}/../tests/runs_here.cpp
    CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${CMAKE_CURRENT_LIST_DIR}/../src
    CXX_STANDARD 20
    RUN_OUTPUT_VARIABLE asked)
  if(NOT compiled OR NOT asked)
    message(FATAL_ERROR "this machine runs none of ${targets}; edgespec runs without kernels")
  endif()
  list(GET asked 0 asked)
endif()
foreach(target ${asked})
  if(NOT target IN_LIST targets)
    message(FATAL_ERROR "EDGESPEC_TARGETS has ${target}; there are: ${targets}, native")
  endif()
endforeach()
if(asked)
  set(targets ${asked})
  message(STATUS "kernels for ${targets} only")
endif()
