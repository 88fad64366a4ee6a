#include "kernels/matmul_int4.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/dots/dots.h"
#include "kernels/panels.h"

namespace edgespec {
namespace {

// A group of a panel: the codes of 8 steps of 4 inputs, then the scales. Two registers of 64 codes
// share 64 bytes, in the low and the high halves.
constexpr int64_t kPanel = kLanes * kParts;  // outputs
constexpr int64_t kStep = 4;
constexpr int64_t kRegisterBytes = 64;
constexpr int64_t kCodeBytes = kPanel * kInt4Group / 2;
constexpr int64_t kGroupBytes = kCodeBytes + kPanel * int64_t{sizeof(Float16)};

struct Product {
  const std::byte* packed;
  int64_t groups, out;
  const QuantizedRows& rows;
  const int32_t* corrections;  // [rows, groups]
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
  F32x16 sums[count][kParts];
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    for (int part = 0; part < kParts; ++part) sums[r][part] = zeros();
  }
  const std::byte* group = product.packed + panel * product.groups * kGroupBytes;
  const int8_t* inputs = product.rows.row(first_row);
  const int64_t stride = product.rows.stride;
  const int32_t* corrections = product.corrections + first_row * product.groups;
  for (int64_t g = 0; g < product.groups; ++g, group += kGroupBytes, inputs += kInt4Group) {
    prefetch<count, kGroupBytes>(group);
    Dots dots[count][kParts];
#pragma GCC unroll 16
    for (int r = 0; r < count; ++r) {
      const int32_t correction = corrections[r * product.groups + g];
      for (int part = 0; part < kParts; ++part) dots[r][part].begin(correction);
    }
    add_codes<count>(dots, group, inputs, stride);
    const auto* scales = reinterpret_cast<const uint16_t*>(group + kCodeBytes);
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const F32x16 scale = load_float16(scales + kLanes * part);
#pragma GCC unroll 16
      for (int r = 0; r < count; ++r) {
        dots[r][part].flush();
        sums[r][part] = fma(to_floats(dots[r][part].total()), scale, sums[r][part]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    const F32x16 row_scale = splat(product.rows.scale[first_row + r]);
    for (int part = 0; part < kParts; ++part) {
      const int64_t column = panel * kPanel + kLanes * part, left = product.out - column;
      if (left <= 0) continue;
      F32x16 y = sums[r][part] * row_scale;
      const int64_t index = (first_row + r) * product.out + column;
      if (product.added) y = load(product.added + index, left) + y;
      store(product.y + index, left, y);
    }
  }
}

// Puts a group of one output into its place in a panel.
void pack_group(const uint8_t* codes, Float16 scale, int64_t output, std::byte* group) {
  auto* bytes = reinterpret_cast<uint8_t*>(group);
  const int64_t part = output / kLanes, lane = output % kLanes;
  for (int64_t i = 0; i < kInt4Group; ++i) {
    const uint8_t code = codes[i / 2] >> 4 * (i % 2) & 0xF;
    const int64_t index = i / kStep * kParts + part;  // of the register of 64 codes
    bytes[index / 2 * kRegisterBytes + lane * kStep + i % kStep] |=
        uint8_t(code << 4 * (index % 2));
  }
  std::memcpy(group + kCodeBytes + output * int64_t{sizeof scale}, &scale, sizeof scale);
}

}  // namespace

PackedInt4::PackedInt4(const uint8_t* codes, const Float16* scale, int64_t groups, int64_t out)
    : groups_(groups), out_(out) {
  packed_ = allocate(rounded_up_quotient(out, kPanel) * groups * kGroupBytes);
  for (int64_t o = 0; o < out; ++o) {
    std::byte* panel = packed_.get() + o / kPanel * groups * kGroupBytes;
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t index = o * groups + g;
      pack_group(codes + index * kInt4Group / 2, scale[index], o % kPanel, panel + g * kGroupBytes);
    }
  }
}

void PackedInt4::multiply(const QuantizedRows& rows, const float* added, float* y,
                          const Threads& threads) const {
  if (rows.count == 0) return;
  thread_local std::vector<int32_t> corrections;
  corrections.resize(rows.count * groups_);
  // Codes are unsigned: each is kInt4Zero more than the weight.
  for (int64_t r = 0; r < rows.count; ++r) {
    for (int64_t g = 0; g < groups_; ++g) {
      const int8_t* inputs = rows.row(r) + g * kInt4Group;
      int32_t sum = 0;
      for (int64_t i = 0; i < kInt4Group; ++i) sum += inputs[i];
      corrections[r * groups_ + g] = -kInt4Zero * sum;
    }
  }
  const Product product{packed_.get(), groups_, out_, rows, corrections.data(), added, y};
  const int64_t panels = rounded_up_quotient(out_, kPanel);
  const Shares shares(panels, groups_ * kGroupBytes);
  threads.each(shares.count(), [&](int64_t share) {
    // One panel stays in the cache for all rows.
    for (int64_t panel = shares.first_panel(share); panel < shares.first_panel(share + 1);
         ++panel) {
      by_parts<kMaxGroupedRows, MultiplyPanel>(rows.count, product, panel);
    }
  });
}

}  // namespace edgespec
