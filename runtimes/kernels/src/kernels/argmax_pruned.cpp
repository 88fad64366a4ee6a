#include "kernels/argmax_pruned.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/dots/dots.h"
#include "kernels/panels.h"

namespace edgespec {
namespace {

// Of each weight the upper five bits are packed, 4 + 1, in panels of 32 outputs. Four steps of 4
// inputs form a group: for each step the four lower of these bits of all weights, outputs 0 … 15 in
// the low halves of bytes and 16 … 31 in the high ones; then the fifth bits of all.
constexpr int64_t kPanel = 32;
constexpr int kHalves = 2;
constexpr int64_t kStep = 4, kSteps = 4;
constexpr int64_t kStepBytes = 64;
constexpr int64_t kGroupBytes = (kSteps + 1) * kStepBytes;

// weight = 8 · upper - 128 + rest, where rest is 0 to 7 and 3.5 in the middle.
constexpr float kMiddle = 3.5f;

// Σ a · b
int32_t dot(const int8_t* a, const int8_t* b, int64_t width) {
  int32_t sum = 0;
  for (int64_t i = 0; i < width; ++i) sum += a[i] * b[i];
  return sum;
}

// An output that may be a row's maximum.
struct Contender {
  int64_t row, output;
  float upper;  // bound; later the value itself
};

// One search. Each share of the panels has its own list of contenders.
struct Search {
  const std::byte* packed;
  int64_t panel_bytes;
  const float* rest_norms;
  const Int8Table& table;
  const QuantizedRows& rows;
  std::vector<int32_t> sums;                  // [rows]: sum of the row's numbers
  std::vector<float> row_norms;               // [rows]: Euclidean norm
  std::vector<std::atomic<float>> floors;     // [rows]: the maximum is at least this
  std::vector<std::vector<Contender>> found;  // [shares]

  Search(const std::byte* packed, int64_t panel_bytes, const float* rest_norms,
         const Int8Table& table, const QuantizedRows& rows, int64_t shares)
      : packed(packed),
        panel_bytes(panel_bytes),
        rest_norms(rest_norms),
        table(table),
        rows(rows),
        sums(rows.count),
        row_norms(rows.count),
        floors(rows.count),
        found(shares) {
    for (int64_t r = 0; r < rows.count; ++r) {
      sums[r] = rows.sum(r);
      int32_t squares = 0;
      for (int64_t i = 0; i < rows.width; ++i) squares += rows.row(r)[i] * rows.row(r)[i];
      row_norms[r] = std::sqrt(float(squares));
      floors[r].store(-std::numeric_limits<float>::infinity(), std::memory_order_relaxed);
    }
  }

  // The value of an output, bit-identical to that of `PackedInt8`.
  float number(int64_t row, int64_t output) const {
    const int8_t* weights = table.weights + output * table.in;
    const float scale = rows.scale[row] * table.scale[output];
    return float(dot(weights, rows.row(row), table.in)) * scale;
  }

  bool below(const Contender& contender) const {
    return contender.upper < floors[contender.row].load(std::memory_order_relaxed);
  }

  int64_t contenders() const {
    int64_t count = 0;
    for (const auto& some : found) count += int64_t(some.size());
    return count;
  }

  // Replaces the bounds by values.
  void compute(std::vector<Contender>& contenders) const {
    constexpr size_t kAhead = 8;
    for (size_t i = 0; i < contenders.size() + kAhead; ++i) {
      if (i < contenders.size()) prefetch(contenders[i].output);
      if (i < kAhead) continue;
      Contender& contender = contenders[i - kAhead];
      contender.upper = number(contender.row, contender.output);
    }
  }

  void prefetch(int64_t output) const {
    const int8_t* weights = table.weights + output * table.in;
    for (int64_t i = 0; i < table.in; i += 64) __builtin_prefetch(weights + i);
  }

  void raise(int64_t row, float floor) {
    float known = floors[row].load(std::memory_order_relaxed);
    while (known < floor &&
           !floors[row].compare_exchange_weak(known, floor, std::memory_order_relaxed)) {
    }
  }
};

// Whether a value comes before the highest so far; NaN counts as the highest.
bool exceeds(float here, float highest) {
  return here > highest || (std::isnan(here) && !std::isnan(highest));
}

// Bounds of 16 outputs of a row, from the sums of the upper bits.
struct Bounds {
  F32x16 middle, upper;

  Bounds(I32x16 sums, int32_t row_sum, F32x16 row_norm, F32x16 rests, F32x16 scale) {
    // Twice the product with 8 · upper - 128 + 3.5 is an integer.
    const I32x16 shift = splat_int(int32_t(-249 * int64_t{row_sum}));
    const F32x16 product = to_floats(shift_left<4>(sums) + shift) * splat(0.5f);
    // By Cauchy and Schwarz, the rests add at most the product of the norms. The two small factors
    // cover float rounding, here and in the value itself.
    F32x16 reach = row_norm * rests * splat(1.00001f);
    reach = fma(abs(product), splat(1e-6f), reach);
    middle = product * scale;
    upper = (product + copy_sign_bits(reach, scale)) * scale;  // upwards also for negative scales
  }
};

// Where an output's middle is above the row's floor, computes the highest such output and raises
// the floor to it. Keeps outputs whose upper bound is not below the floor, also NaN.
void keep_contenders(const Search& search, int64_t row, int64_t first_output, int64_t count,
                     const Bounds& bounds, float& floor, std::vector<Contender>& found) {
  const uint32_t all = bits_of(first_lanes(count));
  if (bits_of(splat(floor) < bounds.middle) & all) {
    const F32x16 none = splat(-std::numeric_limits<float>::infinity());
    const F32x16 middle = select(first_lanes(count), bounds.middle, none);
    const uint32_t there = bits_of(middle == splat(largest_of(middle))) & all;
    const int64_t output = first_output + (there ? std::countr_zero(there) : 0);
    floor = std::max(floor, search.number(row, output));
  }
  uint32_t kept = ~bits_of(bounds.upper < splat(floor)) & all;
  if (kept == 0) return;
  alignas(64) float upper[kLanes];
  store(upper, bounds.upper);
  for (; kept; kept &= kept - 1) {
    const int lane = std::countr_zero(kept);
    found.push_back({row, first_output + lane, upper[lane]});
  }
}

// The codes of one step of a group for outputs 0 … 15 or 16 … 31 of the panel.
template <int step, int half>
EDGESPEC_INLINE Codes upper_bits(const std::byte* group, Codes fifths) {
  const Codes both = load_codes(group + step * kStepBytes);
  const Codes four = half ? high_nibbles(both) : low_nibbles(both);
  return with_fifth_bit<kHalves * step + half>(four, fifths);
}

// Adds step `step` of a group to the sums of `count` rows, for kParts halves of the panel.
template <int step, int first_half, int count>
EDGESPEC_INLINE void add_step(Dots (&dots)[count][kParts], const std::byte* group, Codes fifths,
                              const int8_t* inputs, int64_t stride) {
  Codes codes[kParts];
  codes[0] = upper_bits<step, first_half>(group, fifths);
  if constexpr (kParts == kHalves) codes[kParts - 1] = upper_bits<step, kHalves - 1>(group, fifths);
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    const Quad four = load_quad(inputs + r * stride + step * kStep);
    for (int part = 0; part < kParts; ++part) dots[r][part].add(codes[part], four);
  }
}

// The search of kParts halves of one panel for `count` rows.
template <int count, int first_half>
void search(int64_t first_row, const Search& search, int64_t panel, float* floors,
            std::vector<Contender>& found) {
  Dots dots[count][kParts];
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    for (int part = 0; part < kParts; ++part) dots[r][part].begin(0);
  }
  const std::byte* group = search.packed + panel * search.panel_bytes;
  const std::byte* end = group + search.panel_bytes;
  const int8_t* inputs = search.rows.row(first_row);
  const int64_t stride = search.rows.stride;
  for (; group != end; group += kGroupBytes, inputs += kSteps * kStep) {
    if (first_half == 0) prefetch<count, kGroupBytes>(group);
    const Codes fifths = load_codes(group + kSteps * kStepBytes);
    add_step<0, first_half>(dots, group, fifths, inputs, stride);
    add_step<1, first_half>(dots, group, fifths, inputs, stride);
    add_step<2, first_half>(dots, group, fifths, inputs, stride);
    add_step<3, first_half>(dots, group, fifths, inputs, stride);
#pragma GCC unroll 16
    for (int r = 0; r < count; ++r) {
      for (int part = 0; part < kParts; ++part) dots[r][part].flush();
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    const int64_t row = first_row + r;
    const F32x16 row_scale = splat(search.rows.scale[row]);
    const F32x16 row_norm = splat(search.row_norms[row]);
    for (int part = 0; part < kParts; ++part) {
      const int64_t output = panel * kPanel + kLanes * (first_half + part);
      const int64_t left = search.table.out - output;
      if (left <= 0) continue;
      const F32x16 scale = row_scale * load(search.table.scale + output, left);
      const F32x16 rests = load(search.rest_norms + output, left);
      const Bounds bounds(dots[r][part].total(), search.sums[row], row_norm, rests, scale);
      keep_contenders(search, row, output, left, bounds, floors[row], found);
    }
  }
}

// The search of one panel for `count` rows.
template <int count>
struct SearchPanel {
  static void run(int64_t first_row, const Search& rows, const int64_t& panel, float* const& floors,
                  std::vector<Contender>* const& found) {
    search<count, 0>(first_row, rows, panel, floors, *found);
    if constexpr (kParts < kHalves) search<count, 1>(first_row, rows, panel, floors, *found);
  }
};

// Packs an output's weights into its panel; returns the norm of what the upper bits leave out.
float pack_output(const Int8Table& table, int64_t output, uint8_t* panel) {
  const int64_t half = output % kPanel / kLanes;
  float squares = 0;
  for (int64_t i = 0; i < table.in; ++i) {
    const uint8_t weight = uint8_t(table.weights[output * table.in + i] + 128);
    uint8_t* group = panel + i / (kStep * kSteps) * kGroupBytes;
    const int64_t step = i / kStep % kSteps, index = output % kLanes * kStep + i % kStep;
    group[step * kStepBytes + index] |= uint8_t((weight >> 3 & 0xF) << 4 * half);
    group[kSteps * kStepBytes + index] |= uint8_t(weight >> 7 << (kHalves * step + half));
    const float rest = float(weight & 7) - kMiddle;
    squares += rest * rest;
  }
  return std::sqrt(squares);
}

}  // namespace

PrunedArgmax::PrunedArgmax(const Int8Table& table, const Threads& threads, const PackedStore& store)
    : panel_bytes_(rounded_up_quotient(table.in, kStep * kSteps) * kGroupBytes) {
  const int64_t panels = rounded_up_quotient(table.out, kPanel);
  const auto norms_of = [&](std::byte* packed) {
    return reinterpret_cast<float*>(packed + panels * panel_bytes_);
  };
  const auto fill = [&](std::byte* packed) {
    threads.each(panels, [&](int64_t panel) {
      auto* bytes = reinterpret_cast<uint8_t*>(packed) + panel * panel_bytes_;
      const int64_t first = panel * kPanel, end = std::min(first + kPanel, table.out);
      for (int64_t o = first; o < end; ++o) norms_of(packed)[o] = pack_output(table, o, bytes);
    });
  };
  packed_ = store(panels * panel_bytes_ + table.out * int64_t{sizeof(float)}, fill);
  rest_norms_ = norms_of(packed_.get());
}

bool PrunedArgmax::argmax(const QuantizedRows& rows, const Int8Table& table, int64_t* index,
                          float* highest, const Threads& threads) const {
  if (rows.count == 0) return true;
  const Shares shares(rounded_up_quotient(table.out, kPanel), panel_bytes_);
  Search search(packed_.get(), panel_bytes_, rest_norms_, table, rows, shares.count());
  threads.each(shares.count(), [&](int64_t share) {
    std::vector<float> floors(search.floors.begin(), search.floors.end());
    // One panel stays in the cache for all rows.
    for (int64_t panel = shares.first_panel(share); panel < shares.first_panel(share + 1);
         ++panel) {
      by_parts<kMaxSearchedRows, SearchPanel>(rows.count, search, panel, floors.data(),
                                              &search.found[share]);
    }
    for (int64_t r = 0; r < rows.count; ++r) search.raise(r, floors[r]);
  });
  constexpr int64_t kMinPruning = 16;  // at most one output of 16 is computed with all bits
  if (search.contenders() > rows.count * table.out / kMinPruning) return false;
  threads.each(shares.count(), [&](int64_t share) {
    auto& found = search.found[share];
    std::erase_if(found, [&](const Contender& one) { return search.below(one); });
    search.compute(found);
  });
  std::fill(index, index + rows.count, int64_t{-1});
  for (const auto& found : search.found) {  // by increasing output
    for (const auto& [row, output, here] : found) {
      if (index[row] >= 0 && !exceeds(here, highest[row])) continue;
      index[row] = output;
      highest[row] = here;
    }
  }
  return true;
}

}  // namespace edgespec
