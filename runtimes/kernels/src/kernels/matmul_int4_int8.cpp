#include "kernels/matmul_int4_int8.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/aligned_vector.h"
#include "kernels/int8_panels.h"
#include "kernels/tiles/int8.h"

namespace edgespec {
namespace {

// A group of a panel: its codes, in the order of packed 8-bit weights, then the steps, then the
// offsets. Two blocks of 64 weights share 64 bytes, in the low and the high halves.
constexpr int64_t kBlock = 64;
constexpr int64_t kExpandedBytes = kInt8Outputs * kGroup;
constexpr int64_t kCodeBytes = kExpandedBytes / 2;
constexpr int64_t kGroupBytes = kCodeBytes + 2 * kInt8Outputs;
static_assert(kGroup % kInt8Step == 0 && kCodeBytes % kBlock == 0);

// Numbers of outputs, for all weights of a block: those of every `kSpreads`th block are of the same
// outputs.
constexpr int64_t kSpreads = std::max(kInt8Outputs * kInt8Run / kBlock, int64_t{1});
constexpr int64_t kTable = 16;  // outputs that are looked up in
constexpr auto kIndices = [] {
  std::array<std::array<uint8_t, kBlock>, kSpreads> indices{};
  for (int64_t i = 0; i < kSpreads * kBlock; ++i) {
    indices[i / kBlock][i % kBlock] = uint8_t(i / kInt8Run % kTable);
  }
  return indices;
}();

template <int64_t spread>
EDGESPEC_INLINE Codes of_outputs(const std::byte* numbers) {
  constexpr int64_t kFirst = spread * kBlock / kInt8Run / kTable * kTable;
  return looked_up(numbers + kFirst, kIndices[spread].data());
}

// The weights of a group as they are packed in 8 bits.
template <size_t... spread>
EDGESPEC_INLINE void expand_group(const std::byte* group, std::byte* weights,
                                  std::index_sequence<spread...>) {
  const std::byte* numbers = group + kCodeBytes;
  const Codes steps[] = {even_bytes(of_outputs<spread>(numbers))...};
  const Codes offsets[] = {of_outputs<spread>(numbers + kInt8Outputs)...};
#pragma GCC unroll 8
  for (int64_t pair = 0; pair < kCodeBytes / kBlock; ++pair) {
    const Codes both = load_codes(group + pair * kBlock);
    const Codes halves[] = {low_nibbles(both), high_nibbles(both)};
#pragma GCC unroll 2
    for (int64_t half = 0; half < 2; ++half) {
      const int64_t block = 2 * pair + half, like = block % kSpreads;
      store_codes(weights + block * kBlock, expanded(halves[half], steps[like], offsets[like]));
    }
  }
}
EDGESPEC_INLINE void expand_group(const std::byte* group, std::byte* weights) {
  expand_group(group, weights, std::make_index_sequence<kSpreads>());
}

struct PackedPanel {
  int64_t index;
  const std::byte* packed;
  int64_t groups;
};

// The products of one panel with `count` rows, which is expanded group by group.
template <int count>
struct MultiplyPanel {
  static void run(int64_t first_row, const Int8Product& product, const PackedPanel& panel);
};

template <int count>
void MultiplyPanel<count>::run(int64_t first_row, const Int8Product& product,
                               const PackedPanel& panel) {
  Int8Sums<count> sums;
  sums.begin(product.corrections.of(first_row));
  const auto* inputs = product.inputs.row(first_row);
  for (int64_t g = 0; g < panel.groups; ++g) {
    const std::byte* group = panel.packed + g * kGroupBytes;
    prefetch<count, kGroupBytes>(group);
    alignas(64) std::byte weights[kExpandedBytes];
    expand_group(group, weights);
#pragma GCC unroll 8
    for (int64_t step = 0; step < kGroup / kInt8Step; ++step, inputs += kInt8Step) {
      sums.add_step(weights + step * kInt8StepBytes, inputs, product.inputs.stride);
    }
  }
  store_sums<count>(sums, first_row, product, panel.index);
}

// Puts a group of one output into its place in a panel.
void pack_group(const uint8_t* codes, uint8_t step, int8_t offset, int64_t output,
                std::byte* group) {
  auto* bytes = reinterpret_cast<uint8_t*>(group);
  for (int64_t i = 0; i < kGroup; ++i) {
    const int code = codes[i / 2] >> 4 * (i % 2) & 0xF;
    const int64_t index = i / kInt8Step * kInt8StepBytes + packed_int8_index(output, i % kInt8Step);
    const int64_t block = index / kBlock;
    bytes[block / 2 * kBlock + index % kBlock] |= uint8_t(code << 4 * (block % 2));
  }
  bytes[kCodeBytes + output] = step;
  bytes[kCodeBytes + kInt8Outputs + output] = uint8_t(offset + kWeightOffset);
}

}  // namespace

PackedInt4Int8::PackedInt4Int8(const uint8_t* codes, const uint8_t* step, const int8_t* offset,
                               int64_t groups, int64_t out, const PackedStore& store)
    : groups_(groups), out_(out) {
  const auto fill = [&](std::byte* packed) {
    for (int64_t o = 0; o < out; ++o) {
      std::byte* panel = packed + o / kInt8Outputs * groups * kGroupBytes;
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t index = o * groups + g;
        pack_group(codes + index * kGroup / 2, step[index], offset[index], o % kInt8Outputs,
                   panel + g * kGroupBytes);
      }
    }
  };
  packed_ = store(rounded_up_quotient(out, kInt8Outputs) * groups * kGroupBytes, fill);
}

void PackedInt4Int8::multiply(const QuantizedRows& rows, const float* scale, const float* added,
                              float* y, const Threads& threads) const {
  if (rows.count == 0) return;
  const Int8Product product{out_, rows, Int8Inputs(rows), Corrections(rows), scale, added, y};
  const int64_t panels = rounded_up_quotient(out_, kInt8Outputs),
                panel_bytes = groups_ * kGroupBytes;
  if (rows.count <= kMaxRows) {
    each_panel(panels, panel_bytes, threads, [&](int64_t panel) {
      const PackedPanel packed{panel, packed_.get() + panel * panel_bytes, groups_};
      by_parts<kMaxRows, MultiplyPanel>(rows.count, product, packed);
    });
    return;
  }
  const auto expanded = [&](int64_t index) -> Int8Panel {
    thread_local AlignedVector<std::byte> weights;
    weights.resize(static_cast<size_t>(groups_ * kExpandedBytes));
    const std::byte* group = packed_.get() + index * panel_bytes;
    for (int64_t g = 0; g < groups_; ++g) {
      expand_group(group + g * kGroupBytes, weights.data() + g * kExpandedBytes);
    }
    return {index, weights.data(), groups_ * kExpandedBytes};
  };
#ifdef EDGESPEC_TILES
  each_part(rows.count, rows.stride, panels, panel_bytes, threads,
            [&](auto... part) { multiply_part(product, expanded, part...); });
#else
  each_panel(panels, panel_bytes, threads, [&](int64_t index) {
    by_parts<kMaxRows, MultiplyInt8Panel>(rows.count, product, expanded(index));
  });
#endif
}

}  // namespace edgespec
