// Which of the targets the processor and the operating system can run.
#pragma once

#include <array>

#if defined(__x86_64__) || defined(_M_X64)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
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

// What CPUID answers. The compiler's own test of features does not link with clang-cl.
struct CpuId {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;

  explicit CpuId(unsigned leaf, unsigned part = 0) {
    __get_cpuid_count(leaf, part, &eax, &ebx, &ecx, &edx);  // zeros if it has no such leaf
  }
};

constexpr bool all(unsigned found, unsigned wanted) { return (found & wanted) == wanted; }

// Whether the operating system keeps these registers, bits of XCR0.
inline bool system_keeps(unsigned registers) {
  constexpr unsigned kXgetbv = 1U << 27;
  if (!all(CpuId(1).ecx, kXgetbv)) return false;
  unsigned low, high;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return all(low, registers);
}

inline bool has_avx2() {
  constexpr unsigned kFma = 1U << 12, kAvx = 1U << 28, kF16c = 1U << 29, kAvx2 = 1U << 5;
  constexpr unsigned kRegisters = 0x6;  // of SSE and AVX
  return all(CpuId(1).ecx, kFma | kAvx | kF16c) && all(CpuId(7).ebx, kAvx2) &&
         system_keeps(kRegisters);
}
inline bool has_avxvnni() {
  constexpr unsigned kAvxVnni = 1U << 4;
  return has_avx2() && CpuId(7).eax >= 1 && all(CpuId(7, 1).eax, kAvxVnni);
}
inline bool has_avx512() {
  constexpr unsigned kF = 1U << 16, kDq = 1U << 17, kBw = 1U << 30, kVl = 1U << 31;
  constexpr unsigned kVnni = 1U << 11;
  constexpr unsigned kRegisters = 0xE6;  // and those of AVX-512
  return has_avx2() && all(CpuId(7).ebx, kF | kDq | kBw | kVl) && all(CpuId(7).ecx, kVnni) &&
         system_keeps(kRegisters);
}
inline bool has_avx512bf16() {
  constexpr unsigned kBf16 = 1U << 5;
  return has_avx512() && CpuId(7).eax >= 1 && all(CpuId(7, 1).eax, kBf16);
}

// Whether the operating system lets this process use the data of tiles: Linux wants to be asked,
// once for all threads.
inline bool system_grants_tiles() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
inline bool has_amx() {
  constexpr unsigned kBf16 = 1U << 22, kTile = 1U << 24, kInt8 = 1U << 25;
  constexpr unsigned kRegisters = 0x60000;  // the tiles and their configuration
  return has_avx512bf16() && all(CpuId(7).edx, kBf16 | kTile | kInt8) && system_keeps(kRegisters) &&
         system_grants_tiles();
}

// The fastest first.
inline constexpr std::array kTargets = {
    Target{"amx", has_amx}, Target{"avx512bf16", has_avx512bf16}, Target{"avx512", has_avx512},
    Target{"avxvnni", has_avxvnni}, Target{"avx2", has_avx2}};

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
inline constexpr std::array kTargets = {Target{"i8mm", has_i8mm}, Target{"neon", has_dot_product}};

#else

inline constexpr std::array<Target, 0> kTargets;

#endif

}  // namespace edgespec
