// Prints the targets that this processor runs, as a list of CMake.
#include <cstdio>

#include "dispatch/processor.h"

int main() {
  for (const auto& target : edgespec::kTargets) {
    if (target.runs_here()) std::printf("%s;", target.name);
  }
#if defined(__x86_64__) || defined(_M_X64)
  if (edgespec::has_avx512()) std::printf("avxvnni_evex;");
#endif
}
