#include "kernels/matmul_int4.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/dots/dots.h"
#include "kernels/panel_sums.h"
#include "kernels/panels.h"

namespace edgespec {
namespace {

// A group of a panel: the codes of 8 steps of 4 inputs, then the scales, then the minimums. Two
// registers of 64 codes share 64 bytes, in the low and the high halves.
constexpr int64_t kPanel = kLanes * kParts;  // outputs
constexpr int64_t kStep = 4;
constexpr int64_t kRegisterBytes = 64;
constexpr int64_t kCodeBytes = kPanel * kGroup / 2;
constexpr int64_t kScaleBytes = kPanel * int64_t{sizeof(Float16)};
constexpr int64_t kGroupBytes = kCodeBytes + 2 * kScaleBytes;

struct Product {
  const std::byte* packed;
  int64_t groups, out;
  const GroupedRows& rows;
  const float* added;
  float* y;
};

// Adds the products of one group to the sums of `count` rows.
template <int count>
EDGESPEC_INLINE void add_codes(Dots (&dots)[count][kParts], const std::byte* codes,
                               const int8_t* inputs, int64_t stride) {
#pragma GCC unroll 8
  for (int64_t pair = 0; pair < kCodeBytes / kRegisterBytes; ++pair) {
    const Codes both = load_codes(codes + pair * kRegisterBytes);
    const Codes halves[] = {low_nibbles(both), high_nibbles(both)};
#pragma GCC unroll 2
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t step = (2 * pair + half) / kParts, part = (2 * pair + half) % kParts;
#pragma GCC unroll 16
      for (int r = 0; r < count; ++r) {
        dots[r][part].add(halves[half], load_quad(inputs + r * stride + step * kStep));
      }
    }
  }
}

// The products of one panel with `count` rows.
template <int count>
struct MultiplyPanel {
  static void run(int64_t first_row, const Product& product, const int64_t& panel);
};

template <int count>
void MultiplyPanel<count>::run(int64_t first_row, const Product& product, const int64_t& panel) {
  PanelSums<count> sums;
  clear<count>(sums);
  const std::byte* group = product.packed + panel * product.groups * kGroupBytes;
  const int8_t* inputs = product.rows.row(first_row);
  const int64_t stride = product.rows.stride;
  const float* row_scale = product.rows.scale.data() + first_row * product.groups;
  const float* row_sum = product.rows.sums.data() + first_row * product.groups;
  for (int64_t g = 0; g < product.groups; ++g, group += kGroupBytes, inputs += kGroup) {
    prefetch<count, kGroupBytes>(group);
    Dots dots[count][kParts];
#pragma GCC unroll 16
    for (int r = 0; r < count; ++r) {
      for (int part = 0; part < kParts; ++part) dots[r][part].begin(0);
    }
    add_codes<count>(dots, group, inputs, stride);
    const auto* scales = reinterpret_cast<const uint16_t*>(group + kCodeBytes);
    const auto* minimums = reinterpret_cast<const uint16_t*>(group + kCodeBytes + kScaleBytes);
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const F32x16 scale = load_float16(scales + kLanes * part);
      const F32x16 minimum = load_float16(minimums + kLanes * part);
#pragma GCC unroll 16
      for (int r = 0; r < count; ++r) {
        dots[r][part].flush();
        const int64_t index = r * product.groups + g;
        const F32x16 products = to_floats(dots[r][part].total()) * scale;
        const F32x16 weighted = fma(splat(row_sum[index]), minimum, products);
        sums[r][part] = fma(weighted, splat(row_scale[index]), sums[r][part]);
      }
    }
  }
  store_panel<count>(sums, first_row, panel, product.out, product.added, product.y);
}

// Puts a group of one output into its place in a panel.
void pack_group(const uint8_t* codes, Float16 scale, Float16 minimum, int64_t output,
                std::byte* group) {
  auto* bytes = reinterpret_cast<uint8_t*>(group);
  const int64_t part = output / kLanes, lane = output % kLanes;
  for (int64_t i = 0; i < kGroup; ++i) {
    const uint8_t code = codes[i / 2] >> 4 * (i % 2) & 0xF;
    const int64_t index = i / kStep * kParts + part;  // of the register of 64 codes
    bytes[index / 2 * kRegisterBytes + lane * kStep + i % kStep] |=
        uint8_t(code << 4 * (index % 2));
  }
  std::byte* scales = group + kCodeBytes + output * int64_t{sizeof scale};
  std::memcpy(scales, &scale, sizeof scale);
  std::memcpy(scales + kScaleBytes, &minimum, sizeof minimum);
}

}  // namespace

PackedInt4::PackedInt4(const uint8_t* codes, const Float16* scale, const Float16* minimum,
                       int64_t groups, int64_t out, const PackedStore& store)
    : groups_(groups), out_(out) {
  const auto fill = [&](std::byte* packed) {
    for (int64_t o = 0; o < out; ++o) {
      std::byte* panel = packed + o / kPanel * groups * kGroupBytes;
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t index = o * groups + g;
        pack_group(codes + index * kGroup / 2, scale[index], minimum[index], o % kPanel,
                   panel + g * kGroupBytes);
      }
    }
  };
  packed_ = store(rounded_up_quotient(out, kPanel) * groups * kGroupBytes, fill);
}

void PackedInt4::multiply(const GroupedRows& rows, const float* added, float* y,
                          const Threads& threads) const {
  if (rows.count == 0) return;
  const Product product{packed_.get(), groups_, out_, rows, added, y};
  each_panel<kMaxGroupedRows, MultiplyPanel>(rows.count, rounded_up_quotient(out_, kPanel),
                                             groups_ * kGroupBytes, product, threads);
}

}  // namespace edgespec
