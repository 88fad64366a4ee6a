# What kernels are built for, and of; runtimes/native links the same.
# The instruction sets that kernels are built for, and the compiler's flags for each. The dispatcher
# knows them by the same names (src/dispatch/processor.h).
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(targets avx512bf16 avx512 avxvnni avx2)
  if(CMAKE_SYSTEM_NAME STREQUAL "Linux") # elsewhere nobody asks the system for the tiles
    list(PREPEND targets amx)
  endif()
  set(flags_avx2 -mavx2 -mfma -mf16c)
  set(flags_avxvnni ${flags_avx2} -mavxvnni)
  set(flags_avx512 ${flags_avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni)
  set(flags_avx512bf16 ${flags_avx512} -mavx512bf16)
  set(flags_amx ${flags_avx512bf16} -mamx-tile -mamx-int8 -mamx-bf16)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  set(targets i8mm neon)
  set(flags_neon -march=armv8.2-a+dotprod)
  set(flags_i8mm -march=armv8.2-a+dotprod+i8mm)
else()
  message(FATAL_ERROR "there are no kernels for ${CMAKE_SYSTEM_PROCESSOR}; edgespec runs without them")
endif()

set(kernels_src ${CMAKE_CURRENT_LIST_DIR}/../src)
set(kernel_sources
  ${kernels_src}/kernels/argmax_pruned.cpp
  ${kernels_src}/kernels/attention/attention.cpp
  ${kernels_src}/kernels/attention/chains.cpp
  ${kernels_src}/kernels/attention/product.cpp
  ${kernels_src}/kernels/gated_delta.cpp
  ${kernels_src}/kernels/bfloat16_rows.cpp
  ${kernels_src}/kernels/groups.cpp
  ${kernels_src}/kernels/cache_rows.cpp
  ${kernels_src}/kernels/matmul_bfloat16.cpp
  ${kernels_src}/kernels/matmul_half.cpp
  ${kernels_src}/kernels/matmul_int4.cpp
  ${kernels_src}/kernels/matmul_int4_int8.cpp
  ${kernels_src}/kernels/matmul_int8_groups.cpp
  ${kernels_src}/kernels/matmul_int8.cpp
  ${kernels_src}/kernels/mapped_file.cpp
  ${kernels_src}/kernels/packed_file.cpp
  ${kernels_src}/kernels/packed_memory.cpp
  ${kernels_src}/kernels/rows.cpp
  ${kernels_src}/kernels/sampling.cpp)
set(operator_sources ${kernels_src}/ops/register.cpp)
# Operators only call kernels: made for size they are half a megabyte smaller, compiled in two thirds
# of the time, and as fast.
set_source_files_properties(${operator_sources} PROPERTIES
  COMPILE_OPTIONS $<IF:$<BOOL:${MSVC}>,/clang:-Os,-Os>)
set(dispatch_sources
  ${kernels_src}/dispatch/shared_library.cpp
  ${kernels_src}/dispatch/target.cpp)
