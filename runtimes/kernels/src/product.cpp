#include "product.h"

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "vector_math.h"

namespace edgespec {
namespace {

constexpr int64_t kPanel = 32;  // outputs: two registers of 16 sums
constexpr int64_t kStep = 4;    // inputs that one instruction adds up
constexpr int64_t kMostRows = 9;  // whose sums stay in registers together, with nothing to spare
constexpr int64_t kPartRows = 8;  // of more than these, faster parts
constexpr int64_t kShare = 131072;  // bytes of weights that a thread takes at a time, at most
constexpr int64_t kEven = 4;  // shares: of so many, or twice as many …, two or four threads get alike
constexpr int64_t kFewRows = 6;  // are done with weights before the next ones are there

// Asks memory for the weights to come: the processor's own prefetching ends at each page of 4 KB.
// For few rows past the second cache, where they would push out what is needed again; more rows take
// longer with each line than the first cache can hold lines waiting.
template <int rows>
void prefetch(const std::byte* weights) {
  constexpr int64_t kAhead = rows <= kFewRows ? 8192 : 16384;
  constexpr auto kHint = rows <= kFewRows ? _MM_HINT_NTA : _MM_HINT_T1;
  _mm_prefetch(reinterpret_cast<const char*>(weights + kAhead), kHint);
  _mm_prefetch(reinterpret_cast<const char*>(weights + kAhead + 64), kHint);
}

struct Call {
  const std::byte* packed;
  int64_t panel_bytes;
  int64_t panels;
  int64_t shares;
  int64_t steps;
  int64_t out;
  const RoundedRows* rows;
  const int32_t* corrections;
  const float* scale;
  const float* added;
  float* y;
};

// Weights are packed as unsigned numbers, 128 too large; what that adds to a row's sums is taken
// off at the start.
int32_t correction(const RoundedRows& rows, int64_t r) {
  __m512i sum = _mm512_setzero_si512();
  const __m512i ones = _mm512_set1_epi8(1);
  for (int64_t i = 0; i < rows.stride; i += 64) {
    sum = _mm512_dpbusd_epi32(sum, ones, _mm512_loadu_si512(rows.row(r) + i));
  }
  return -128 * _mm512_reduce_add_epi32(sum);
}

template <int count>
void multiply_panel(const Call& call, int64_t panel, int64_t first_row) {
  __m512i low[count], high[count];  // sums of the panel's first and last 16 outputs
#pragma GCC unroll 16
  for (int r = 0; r < count; ++r) {
    low[r] = high[r] = _mm512_set1_epi32(call.corrections[first_row + r]);
  }
  const std::byte* weights = call.packed + panel * call.panel_bytes;
  const std::byte* end = weights + call.steps * 128;
  const int8_t* inputs = call.rows->row(first_row);
  const int64_t stride = call.rows->stride;
  for (; weights != end; weights += 128, inputs += kStep) {
    prefetch<count>(weights);
    const __m512i first = _mm512_load_si512(weights), second = _mm512_load_si512(weights + 64);
#pragma GCC unroll 16
    for (int r = 0; r < count; ++r) {
      int32_t four;
      std::memcpy(&four, inputs + r * stride, sizeof four);
      low[r] = _mm512_dpbusd_epi32(low[r], first, _mm512_set1_epi32(four));
      high[r] = _mm512_dpbusd_epi32(high[r], second, _mm512_set1_epi32(four));
    }
  }
  for (int r = 0; r < count; ++r) {
    const __m512 row_scale = _mm512_set1_ps(call.rows->scale[first_row + r]);
    for (int half = 0; half < 2; ++half) {
      const int64_t column = panel * kPanel + 16 * half;
      if (column >= call.out) continue;
      const __mmask16 lanes = first_lanes(call.out - column);
      const __m512 scale =
          _mm512_mul_ps(row_scale, _mm512_maskz_loadu_ps(lanes, call.scale + column));
      __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(half ? high[r] : low[r]), scale);
      const int64_t place = (first_row + r) * call.out + column;
      if (call.added) y = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, call.added + place), y);
      _mm512_mask_storeu_ps(call.y + place, lanes, y);
    }
  }
}

using Multiply = void (*)(const Call&, int64_t panel, int64_t first_row);
template <size_t... count>
constexpr std::array<Multiply, sizeof...(count)> panels_by_rows(std::index_sequence<count...>) {
  return {multiply_panel<count + 1>...};
}

// By the number of rows, less one.
constexpr auto kMultiply = panels_by_rows(std::make_index_sequence<kMostRows>());

// All rows of a call with some panels; each stays in the cache while rows come in even parts.
void multiply_share(const Call& call, int64_t share) {
  const int64_t count = call.rows->count;
  const int64_t parts = count <= kMostRows ? 1 : (count + kPartRows - 1) / kPartRows;
  const int64_t first_panel = share * call.panels / call.shares;
  const int64_t end_panel = (share + 1) * call.panels / call.shares;
  for (int64_t panel = first_panel; panel < end_panel; ++panel) {
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t first = part * count / parts, end = (part + 1) * count / parts;
      kMultiply[end - first - 1](call, panel, first);
    }
  }
}

}  // namespace

PackedMatrix::PackedMatrix(const int8_t* weights, int64_t in, int64_t out, int64_t in_step,
                           int64_t out_step)
    : in_(in), out_(out), panel_bytes_((in + kStep - 1) / kStep * kStep * kPanel) {
  const int64_t panels = (out + kPanel - 1) / kPanel;
  packed_ = allocate(panels * panel_bytes_);
  auto* bytes = reinterpret_cast<uint8_t*>(packed_.get());
  for (int64_t first = 0; first < out; first += kPanel, bytes += panel_bytes_) {
    const int64_t count = std::min(kPanel, out - first);
    for (int64_t i = 0; i < in; ++i) {
      uint8_t* step = bytes + i / kStep * kStep * kPanel + i % kStep;
      const int8_t* source = weights + i * in_step + first * out_step;
      for (int64_t o = 0; o < count; ++o) step[o * kStep] = uint8_t(source[o * out_step] + 128);
    }
  }
}

void PackedMatrix::multiply(const RoundedRows& rows, const float* scale, const float* added,
                            float* y, const Threads& threads) const {
  if (rows.count == 0) return;
  thread_local std::vector<int32_t> corrections;
  corrections.resize(rows.count);
  for (int64_t r = 0; r < rows.count; ++r) corrections[r] = correction(rows, r);
  const int64_t panels = (out_ + kPanel - 1) / kPanel;
  const int64_t fewest = (panels * panel_bytes_ + kShare - 1) / kShare;
  const int64_t shares = std::min(panels, (fewest + kEven - 1) / kEven * kEven);
  Call call{packed_.get(),
            panel_bytes_,
            panels,
            shares,
            (in_ + kStep - 1) / kStep,
            out_,
            &rows,
            corrections.data(),
            scale,
            added,
            y};
  threads.each(shares, [&](int64_t share) { multiply_share(call, share); });
}

}  // namespace edgespec
