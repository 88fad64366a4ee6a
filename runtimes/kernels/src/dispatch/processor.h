// Which of the targets the processor and the operating system can run.
#pragma once

#include <array>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace edgespec {

struct Target {
  const char* name;
  bool (*runs_here)();
};

#if defined(__x86_64__) || defined(_M_X64)

inline bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}
inline bool has_avxvnni() { return has_avx2() && __builtin_cpu_supports("avxvnni"); }
inline bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vnni");
}

// The fastest first.
constexpr std::array kTargets = {Target{"avx512", has_avx512}, Target{"avxvnni", has_avxvnni},
                                 Target{"avx2", has_avx2}};

#elif defined(__aarch64__) || defined(_M_ARM64)

#if defined(__APPLE__)
inline bool has_feature(const char* name) {
  int has = 0;
  size_t size = sizeof has;
  return sysctlbyname(name, &has, &size, nullptr, 0) == 0 && has;
}
inline bool has_dot_product() { return has_feature("hw.optional.arm.FEAT_DotProd"); }
inline bool has_i8mm() { return has_dot_product() && has_feature("hw.optional.arm.FEAT_I8MM"); }
#elif defined(__linux__)
constexpr unsigned long kDotProduct = 1UL << 20;  // HWCAP_ASIMDDP
constexpr unsigned long kI8mm = 1UL << 13;        // HWCAP2_I8MM
inline bool has_dot_product() { return getauxval(AT_HWCAP) & kDotProduct; }
inline bool has_i8mm() { return has_dot_product() && (getauxval(AT_HWCAP2) & kI8mm); }
#else
inline bool has_dot_product() { return false; }
inline bool has_i8mm() { return false; }
#endif

// The fastest first.
constexpr std::array kTargets = {Target{"i8mm", has_i8mm}, Target{"neon", has_dot_product}};

#else

constexpr std::array<Target, 0> kTargets;

#endif

}  // namespace edgespec
