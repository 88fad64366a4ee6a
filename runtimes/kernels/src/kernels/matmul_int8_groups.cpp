#include "kernels/matmul_int8_groups.h"

#include <cstring>
#include <vector>

#include "kernels/dots/dots.h"
#include "kernels/panel_sums.h"
#include "kernels/panels.h"

namespace edgespec {
namespace {

// A group of a panel: the weights of its steps, then the scales.
constexpr int64_t kPanel = kLanes * kParts;  // outputs
constexpr int64_t kStepBytes = kPanel * kInt8Step;
constexpr int64_t kWeightBytes = kPanel * kGroup;
constexpr int64_t kGroupBytes = kWeightBytes + kPanel * int64_t{sizeof(Float16)};
constexpr int32_t kZeroPoint = 128;

struct Product {
  const std::byte* packed;
  int64_t out;
  const GroupedRows& rows;
  const Int8Inputs inputs;
  const int32_t* corrections;  // [groups, rows]
  const float* added;
  float* y;
};

// The products of one panel with `count` rows.
template <int count>
struct MultiplyPanel {
  static void run(int64_t first_row, const Product& product, const int64_t& panel);
};

template <int count>
void MultiplyPanel<count>::run(int64_t first_row, const Product& product, const int64_t& panel) {
  PanelSums<count> sums;
  clear<count>(sums);
  const int64_t groups = product.rows.groups, stride = product.inputs.stride;
  const std::byte* group = product.packed + panel * groups * kGroupBytes;
  const auto* inputs = product.inputs.row(first_row);
  const int32_t* corrections = product.corrections + first_row;
  const float* row_scale = product.rows.scale.data() + first_row * groups;
  for (int64_t g = 0; g < groups; ++g, group += kGroupBytes, corrections += product.rows.count) {
    prefetch<count, kGroupBytes>(group);
    Int8Sums<count> dots;
    dots.begin(corrections);
#pragma GCC unroll 8
    for (int64_t step = 0; step < kGroup / kInt8Step; ++step, inputs += kInt8Step) {
      dots.add_step(group + step * kStepBytes, inputs, stride);
    }
    const auto* scales = reinterpret_cast<const uint16_t*>(group + kWeightBytes);
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      const F32x16 scale = load_float16(scales + kLanes * part);
#pragma GCC unroll 16
      for (int r = 0; r < count; ++r) {
        const F32x16 products = to_floats(dots.total(r, part)) * scale;
        sums[r][part] = fma(products, splat(row_scale[r * groups + g]), sums[r][part]);
      }
    }
  }
  store_panel<count>(sums, first_row, panel, product.out, product.added, product.y);
}

// Puts a group of one output into its place in a panel.
void pack_group(const uint8_t* codes, Float16 scale, int64_t output, std::byte* group) {
  auto* bytes = reinterpret_cast<uint8_t*>(group);
  for (int64_t i = 0; i < kGroup; ++i) {
    const int64_t index = packed_int8_index(output, i % kInt8Step);
    bytes[i / kInt8Step * kStepBytes + index] =
        static_cast<uint8_t>(codes[i] - kZeroPoint + kWeightOffset);
  }
  std::memcpy(group + kWeightBytes + output * int64_t{sizeof scale}, &scale, sizeof scale);
}

// What each row's sums of a group begin with, as packed weights are kWeightOffset too large.
void correct(const GroupedRows& rows, std::vector<int32_t>& corrections) {
  corrections.assign(rows.groups * rows.count, 0);
  if (!kWeightOffset) return;
  for (int64_t r = 0; r < rows.count; ++r) {
    for (int64_t g = 0; g < rows.groups; ++g) {
      const auto sum = static_cast<int32_t>(rows.sums[r * rows.groups + g]);
      corrections[g * rows.count + r] = -kWeightOffset * sum;
    }
  }
}

}  // namespace

PackedInt8Groups::PackedInt8Groups(const uint8_t* codes, const Float16* scale, int64_t groups,
                                   int64_t out, const PackedStore& store)
    : groups_(groups), out_(out) {
  const auto fill = [&](std::byte* packed) {
    for (int64_t o = 0; o < out; ++o) {
      std::byte* group = packed + o / kPanel * groups * kGroupBytes;
      for (int64_t g = 0; g < groups; ++g, group += kGroupBytes, codes += kGroup, ++scale) {
        pack_group(codes, *scale, o % kPanel, group);
      }
    }
  };
  packed_ = store(rounded_up_quotient(out, kPanel) * groups * kGroupBytes, fill);
}

void PackedInt8Groups::multiply(const GroupedRows& rows, const float* added, float* y,
                                const Threads& threads) const {
  if (rows.count == 0) return;
  thread_local std::vector<int32_t> corrections;
  correct(rows, corrections);
  const Product product{packed_.get(), out_, rows, Int8Inputs(rows), corrections.data(), added, y};
  each_panel<kMaxGroupedRows, MultiplyPanel>(rows.count, rounded_up_quotient(out_, kPanel),
                                             groups_ * kGroupBytes, product, threads);
}

}  // namespace edgespec
