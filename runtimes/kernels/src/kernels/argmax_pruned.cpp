#include "kernels/argmax_pruned.h"

#include <immintrin.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/panels.h"
#include "kernels/vector_math.h"

namespace edgespec {
namespace {

// Of each weight the upper five bits are packed, 4 + 1. Four steps of a panel form a group, which
// is whole cache lines: first the four lower of these bits of all weights, then the fifth of all.
constexpr int64_t kSteps = 4;
constexpr int64_t kNibbleBytes = kStep * kPanel / 2;  // of one step
constexpr int64_t kBitBytes = kStep * kPanel / 8;     // of one step
constexpr int64_t kGroupBytes = kSteps * (kNibbleBytes + kBitBytes);

// weight = 8 · upper - 128 + rest, where rest is 0 to 7 and 3.5 in the middle.
constexpr float kMiddle = 3.5f;

// Σ a · b, where `sum` is Σ b.
int32_t dot(const int8_t* a, const int8_t* b, int32_t sum, int64_t width) {
  const __m512i sign = _mm512_set1_epi8(int8_t(-128));
  __m512i products = _mm512_setzero_si512();
  for (int64_t i = 0; i < width; i += 64) {
    const __mmask64 lanes = width - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (width - i)) - 1;
    // The instruction takes one unsigned factor, a + 128. After the end, b is zero.
    const __m512i from_a = _mm512_xor_si512(_mm512_maskz_loadu_epi8(lanes, a + i), sign);
    products = _mm512_dpbusd_epi32(products, from_a, _mm512_maskz_loadu_epi8(lanes, b + i));
  }
  return _mm512_reduce_add_epi32(products) - 128 * sum;
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
    return float(dot(weights, rows.row(row), sums[row], table.in)) * scale;
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
    const auto* weights = reinterpret_cast<const char*>(table.weights + output * table.in);
    for (int64_t i = 0; i < table.in; i += 64) _mm_prefetch(weights + i, _MM_HINT_T0);
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
  __m512 middle, upper;

  Bounds(__m512i sums, int32_t row_sum, __m512 row_norm, __m512 rests, __m512 scale) {
    // Twice the product with 8 · upper - 128 + 3.5 is an integer.
    const __m512i shift = _mm512_set1_epi32(int32_t(-249 * int64_t{row_sum}));
    const __m512i twice = _mm512_add_epi32(_mm512_slli_epi32(sums, 4), shift);
    const __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps(twice), _mm512_set1_ps(0.5f));
    // By Cauchy and Schwarz, the rests add at most the product of the norms. The two small factors
    // cover float rounding, here and in the value itself.
    __m512 reach = _mm512_mul_ps(_mm512_mul_ps(row_norm, rests), _mm512_set1_ps(1.00001f));
    reach = _mm512_fmadd_ps(_mm512_abs_ps(product), _mm512_set1_ps(1e-6f), reach);
    middle = _mm512_mul_ps(product, scale);
    // Upwards also where the scale is negative.
    const __m512 sign = _mm512_and_ps(scale, _mm512_set1_ps(-0.0f));
    upper = _mm512_mul_ps(_mm512_add_ps(product, _mm512_or_ps(reach, sign)), scale);
  }
};

// Where an output's middle is above the row's floor, computes the highest such output and raises
// the floor to it. Keeps outputs whose upper bound is not below the floor, also NaN.
void keep_contenders(const Search& search, int64_t row, int64_t first_output, __mmask16 lanes,
                     const Bounds& bounds, float& floor, std::vector<Contender>& found) {
  if (_mm512_mask_cmp_ps_mask(lanes, bounds.middle, _mm512_set1_ps(floor), _CMP_GT_OQ)) {
    const __m512 highest = _mm512_set1_ps(_mm512_mask_reduce_max_ps(lanes, bounds.middle));
    const auto there = _mm512_mask_cmp_ps_mask(lanes, bounds.middle, highest, _CMP_EQ_OQ);
    const int64_t output = first_output + (there ? __builtin_ctz(there) : 0);
    floor = std::max(floor, search.number(row, output));
  }
  uint32_t kept = _mm512_mask_cmp_ps_mask(lanes, bounds.upper, _mm512_set1_ps(floor), _CMP_NLT_UQ);
  if (kept == 0) return;
  alignas(64) float upper[16];
  _mm512_store_ps(upper, bounds.upper);
  for (; kept; kept &= kept - 1) {
    const int lane = __builtin_ctz(kept);
    found.push_back({row, first_output + lane, upper[lane]});
  }
}

// The search of one panel for `count` rows.
template <int count>
struct SearchPanel {
  static void run(int64_t first_row, const Search& search, const int64_t& panel,
                  float* const& floors, std::vector<Contender>* const& found);
};

template <int count>
void SearchPanel<count>::run(int64_t first_row, const Search& search, const int64_t& panel,
                             float* const& floors, std::vector<Contender>* const& found) {
  __m512i low[count], high[count];  // sums of the panel's first and last 16 outputs
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) low[r] = high[r] = _mm512_setzero_si512();
  const __m512i nibble = _mm512_set1_epi8(0x0F), fifth_bit = _mm512_set1_epi8(0x10);
  const std::byte* group = search.packed + panel * search.panel_bytes;
  const std::byte* end = group + search.panel_bytes;
  const int8_t* inputs = search.rows.row(first_row);
  const int64_t stride = search.rows.stride;
  for (; group != end; group += kGroupBytes) {
    prefetch<count, kGroupBytes>(group);
#pragma GCC unroll 4
    for (int64_t step = 0; step < kSteps; ++step, inputs += kStep) {
      const __m512i both = _mm512_load_si512(group + step * kNibbleBytes);
      __mmask64 fifth[2];
      std::memcpy(fifth, group + kSteps * kNibbleBytes + step * kBitBytes, sizeof fifth);
      __m512i first = _mm512_and_si512(both, nibble);
      __m512i second = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
      first = _mm512_mask_add_epi8(first, fifth[0], first, fifth_bit);
      second = _mm512_mask_add_epi8(second, fifth[1], second, fifth_bit);
      add_products<count>(low, high, first, second, inputs, stride);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    const int64_t row = first_row + r;
    const __m512 row_scale = _mm512_set1_ps(search.rows.scale[row]);
    const __m512 row_norm = _mm512_set1_ps(search.row_norms[row]);
    for (int half = 0; half < 2; ++half) {
      const int64_t output = panel * kPanel + 16 * half;
      if (output >= search.table.out) continue;
      const __mmask16 lanes = first_lanes(search.table.out - output);
      const __m512 scale =
          _mm512_mul_ps(row_scale, _mm512_maskz_loadu_ps(lanes, search.table.scale + output));
      const __m512 rests = _mm512_maskz_loadu_ps(lanes, search.rest_norms + output);
      const Bounds bounds(half ? high[r] : low[r], search.sums[row], row_norm, rests, scale);
      keep_contenders(search, row, output, lanes, bounds, floors[row], *found);
    }
  }
}

// Packs an output's weights into its panel; returns the norm of what the upper bits leave out.
float pack_output(const Int8Table& table, int64_t output, uint8_t* panel) {
  const int64_t half = output % kPanel / 16;
  float squares = 0;
  for (int64_t i = 0; i < table.in; ++i) {
    const uint8_t weight = uint8_t(table.weights[output * table.in + i] + 128);
    uint8_t* group = panel + i / (kStep * kSteps) * kGroupBytes;
    const int64_t step = i / kStep % kSteps, index = output % 16 * kStep + i % kStep;
    group[step * kNibbleBytes + index] |= uint8_t((weight >> 3 & 0xF) << 4 * half);
    uint8_t* fifth = group + kSteps * kNibbleBytes + step * kBitBytes + half * kBitBytes / 2;
    fifth[index / 8] |= uint8_t((weight >> 7) << index % 8);
    const float rest = float(weight & 7) - kMiddle;
    squares += rest * rest;
  }
  return std::sqrt(squares);
}

}  // namespace

PrunedArgmax::PrunedArgmax(const Int8Table& table, const Threads& threads)
    : rest_norms_(table.out) {
  panel_bytes_ = (table.in + kStep * kSteps - 1) / (kStep * kSteps) * kGroupBytes;
  packed_ = allocate(panels_of(table.out) * panel_bytes_);
  threads.each(panels_of(table.out), [&](int64_t panel) {
    auto* bytes = reinterpret_cast<uint8_t*>(packed_.get()) + panel * panel_bytes_;
    const int64_t first = panel * kPanel, end = std::min(first + kPanel, table.out);
    for (int64_t o = first; o < end; ++o) rest_norms_[o] = pack_output(table, o, bytes);
  });
}

bool PrunedArgmax::argmax(const QuantizedRows& rows, const Int8Table& table, int64_t* index,
                          float* highest, const Threads& threads) const {
  if (rows.count == 0) return true;
  const Shares shares(panels_of(table.out), panel_bytes_);
  Search search(packed_.get(), panel_bytes_, rest_norms_.data(), table, rows, shares.count());
  threads.each(shares.count(), [&](int64_t share) {
    std::vector<float> floors(search.floors.begin(), search.floors.end());
    // One panel stays in the cache for all rows.
    for (int64_t panel = shares.first_panel(share); panel < shares.first_panel(share + 1);
         ++panel) {
      by_parts<SearchPanel>(rows.count, search, panel, floors.data(), &search.found[share]);
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
