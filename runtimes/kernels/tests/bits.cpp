// Prints a digest of the bits that each kernel computes from stated inputs. All targets print the
// same digests. A kernel's line is its name, how many numbers it gave, and their FNV-1a hash.
//
// No input comes from the C++ library's distributions, which may differ from system to system.
// All NaN count as one: which NaN an instruction gives differs from processor to processor.
#include <algorithm>
#include <bit>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "kernels/argmax_pruned.h"
#include "kernels/attention/attention.h"
#include "kernels/cache_rows.h"
#include "kernels/gated_delta.h"
#include "kernels/groups.h"
#include "kernels/lanes/lanes.h"
#include "kernels/matmul_bfloat16.h"
#include "kernels/matmul_half.h"
#include "kernels/matmul_int4.h"
#include "kernels/matmul_int4_int8.h"
#include "kernels/matmul_int8.h"
#include "kernels/matmul_int8_groups.h"
#include "kernels/rows.h"
#include "kernels/sampling.h"
#include "threads/parallel_for.h"

namespace edgespec::test {
namespace {

class Digest {
 public:
  explicit Digest(const char* name) : name_(name) {}
  Digest(const Digest&) = delete;
  ~Digest() { std::printf("%s %" PRIu64 " %016" PRIx64 "\n", name_, count_, hash_); }

  void add(const std::vector<float>& numbers) {
    for (const float number : numbers) add(number);
  }
  void add(float number) {
    constexpr uint32_t kAnyNan = 0x7FC00000;
    add_bits(std::isnan(number) ? kAnyNan : std::bit_cast<uint32_t>(number));
  }
  void add(double number) { add_bits(std::bit_cast<uint64_t>(number)); }
  void add(int64_t number) { add_bits(static_cast<uint64_t>(number)); }

 private:
  void add_bits(uint64_t bits) {
    constexpr uint64_t kPrime = 0x100000001B3;
    for (int shift = 0; shift < 64; shift += 8) {
      hash_ = (hash_ ^ (bits >> shift & 0xFF)) * kPrime;
    }
    ++count_;
  }

  const char* name_;
  uint64_t count_ = 0;
  uint64_t hash_ = 0xCBF29CE484222325;
};

// SplitMix64.
uint64_t random_bits() {
  static uint64_t state = 27;
  uint64_t x = state += 0x9E3779B97F4A7C15;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

// Uniform in -size … size.
float uniform(float size) {
  return (static_cast<float>(random_bits() >> 40) * 0x1p-23f - 1.0f) * size;
}

std::vector<float> floats(int64_t count, float size = 1) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = uniform(size);
  return numbers;
}

std::vector<int8_t> int8s(int64_t count) {
  std::vector<int8_t> numbers(static_cast<size_t>(count));
  for (int8_t& number : numbers) number = static_cast<int8_t>(random_bits() >> 56);
  return numbers;
}

// What rows of activations may hold: ordinary numbers, zeros of both signs, the smallest and the
// largest numbers, infinities and NaN.
constexpr int64_t kKinds = 8;

std::vector<float> row_of_kind(int64_t kind, int64_t width) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kSizes[kKinds] = {1, 1e-3f, 3e3f, 0, 1e-41f, 3e38f, 1, 1};
  auto row = floats(width, kSizes[kind]);
  for (int64_t i = 0; i < width; i += 5) row[i] *= 20;
  if (kind == 3) row[width / 2] = -0.0f;
  if (kind == 6) row[random_bits() % width] = random_bits() % 2 ? kInfinity : -kInfinity;
  if (kind == 7) row[random_bits() % width] = kNan;
  return row;
}

std::vector<float> rows_of_all_kinds(int64_t count, int64_t width) {
  std::vector<float> rows;
  for (int64_t r = 0; r < count; ++r) {
    const auto row = row_of_kind(r % kKinds, width);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

QuantizedRows quantized(const std::vector<float>& x, int64_t count, int64_t width) {
  QuantizedRows rows;
  rows.resize(count, width);
  for (int64_t r = 0; r < count; ++r) quantize_row_by_max(x.data() + r * width, rows, r);
  return rows;
}

// How threads share work changes no bits (the tests beside this).
constexpr Threads kOneThread = kThisThread;

constexpr int64_t kWidths[] = {1, 3, 16, 17, 31, 64, 100, 576};

void exponentials() {
  Digest digest("exp");
  constexpr uint64_t kStep = 997;  // every 997th of all 2^32 numbers
  for (uint64_t first = 0; first < uint64_t{1} << 32; first += kLanes * kStep) {
    float numbers[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) {
      numbers[i] = std::bit_cast<float>(static_cast<uint32_t>(first + i * kStep));
    }
    store(numbers, exp(load(numbers)));
    for (const float number : numbers) digest.add(number);
  }
}

void quantization() {
  Digest digest("quantize");
  for (const int64_t width : kWidths) {
    QuantizedRows rows;
    rows.resize(2, width);
    for (int64_t kind = 0; kind < kKinds; ++kind) {
      const auto x = row_of_kind(kind, width);
      quantize_row_by_max(x.data(), rows, 0);
      quantize_row(x.data(), 0.01f, rows, 1);
      for (int64_t r = 0; r < 2; ++r) {
        digest.add(rows.scale[r]);
        digest.add(int64_t{rows.sum(r)});
        for (int64_t i = 0; i < width; ++i) digest.add(int64_t{rows.row(r)[i]});
      }
    }
  }
}

void norms() {
  Digest digest("norm");
  for (const int64_t width : kWidths) {
    const auto weight = floats(width, 2);
    for (int64_t kind = 0; kind < kKinds; ++kind) {
      const auto x = row_of_kind(kind, width);
      std::vector<float> y(x.size());
      digest.add(int64_t{norm_row(x.data(), weight.data(), 1e-5f, width, y.data())});
      digest.add(y);
    }
  }
}

void rotations() {
  Digest digest("hadamard");
  for (int64_t block = 1; block <= kMaxHadamard; block *= 2) {
    const int64_t width = 3 * block;
    for (int64_t kind = 0; kind < kKinds; ++kind) {
      const auto x = row_of_kind(kind, width);
      std::vector<float> y(x.size());
      hadamard_row(x.data(), block, width, y.data());
      digest.add(y);
    }
  }
}

void positions() {
  Digest digest("rope");
  for (const int64_t half : {4, 12, 16, 20, 32, 64}) {
    for (int64_t kind = 0; kind < kKinds; ++kind) {
      const auto x = row_of_kind(kind, 2 * half), cos = floats(half), sin = floats(half);
      std::vector<float> y(x.size());
      rope_row(x.data(), cos.data(), sin.data(), half, y.data());
      digest.add(y);
    }
  }
}

void gates() {
  Digest silu("silu"), gelu("gelu"), relu("relu");
  for (const int64_t width : kWidths) {
    for (int64_t kind = 0; kind < kKinds; ++kind) {
      const auto gate = row_of_kind(kind, width), up = floats(width);
      std::vector<float> y(gate.size());
      silu_gate_row(gate.data(), up.data(), width, y.data());
      silu.add(y);
      gelu_gate_row(gate.data(), up.data(), width, y.data());
      gelu.add(y);
      relu_row(gate.data(), width, y.data());
      relu.add(y);
    }
  }
}

struct Shape {
  int64_t in, out;
};

constexpr Shape kShapes[] = {{1, 1}, {3, 31}, {5, 33}, {64, 48}, {129, 97}, {576, 200}};
constexpr int64_t kCounts[] = {1, 2, 5, 8, 13, 29};

void int8_products() {
  Digest digest("int8 product");
  for (const auto [in, out] : kShapes) {
    const auto weights = int8s(in * out);
    const auto scale = floats(out, 1e-2f);
    const PackedInt8 packed(weights.data(), in, out, out, 1);
    for (const int64_t count : kCounts) {
      const auto rows = quantized(rows_of_all_kinds(count, in), count, in);
      const auto added = floats(count * out);
      std::vector<float> y(added.size());
      for (const float* sum : {static_cast<const float*>(nullptr), added.data()}) {
        packed.multiply(rows, scale.data(), sum, y.data(), kOneThread);
        digest.add(y);
      }
    }
  }
}

// The exponents of weights are up to those of ±4; subnormal ones are among them.
Float16 random_weight(Float16) { return {static_cast<uint16_t>(random_bits() & 0xC3FF)}; }
BFloat16 random_weight(BFloat16) {
  return {static_cast<uint16_t>(std::bit_cast<uint32_t>(uniform(4)) >> 16)};
}

template <typename Half>
void half_products(const char* name) {
  Digest digest(name);
  for (const auto [in, out] : kShapes) {
    std::vector<Half> weights(static_cast<size_t>(in * out));
    for (Half& weight : weights) weight = random_weight(Half{});
    const PackedHalf<Half> packed(weights.data(), in, out);
    for (const int64_t count : kCounts) {
      const auto x = rows_of_all_kinds(count, in);
      std::vector<float> y(static_cast<size_t>(count * out));
      packed.multiply(x.data(), count, y.data(), kOneThread);
      digest.add(y);
    }
  }
}

GroupedRows quantized_by_groups(const std::vector<float>& x, int64_t count, int64_t width) {
  GroupedRows rows;
  rows.resize(count, width);
  for (int64_t r = 0; r < count; ++r) quantize_groups(x.data() + r * width, rows, r);
  return rows;
}

void int4_products() {
  Digest products("int4 product"), scales("quantize in groups");
  for (const int64_t groups : {1, 2, 5, 18}) {
    const int64_t in = groups * kGroup;
    for (const int64_t out : {1, 31, 48, 200}) {
      std::vector<uint8_t> codes(static_cast<size_t>(out * in / 2));
      for (uint8_t& code : codes) code = static_cast<uint8_t>(random_bits() >> 56);
      std::vector<Float16> scale(static_cast<size_t>(out * groups)), minimum(scale.size());
      for (Float16& one : scale) one = random_weight(Float16{});
      for (Float16& one : minimum) one = random_weight(Float16{});
      const PackedInt4 packed(codes.data(), scale.data(), minimum.data(), groups, out);
      for (const int64_t count : kCounts) {
        const auto rows = quantized_by_groups(rows_of_all_kinds(count, in), count, in);
        scales.add(rows.scale);
        scales.add(rows.sums);
        const auto added = floats(count * out);
        std::vector<float> y(added.size());
        for (const float* sum : {static_cast<const float*>(nullptr), added.data()}) {
          packed.multiply(rows, sum, y.data(), kOneThread);
          products.add(y);
        }
      }
    }
  }
}

void int4_int8_products() {
  Digest products("int4-int8 product");
  for (const int64_t groups : {1, 2, 5, 18}) {
    const int64_t in = groups * kGroup;
    for (const int64_t out : {1, 31, 48, 200}) {
      std::vector<uint8_t> codes(static_cast<size_t>(out * in / 2));
      for (uint8_t& code : codes) code = static_cast<uint8_t>(random_bits() >> 56);
      std::vector<uint8_t> steps(static_cast<size_t>(out * groups));
      std::vector<int8_t> offsets(steps.size());
      for (size_t i = 0; i < steps.size(); ++i) {
        steps[i] = static_cast<uint8_t>(random_bits() % 18);
        offsets[i] = static_cast<int8_t>(random_bits() % (256 - 15 * steps[i]) - 128);
      }
      const PackedInt4Int8 packed(codes.data(), steps.data(), offsets.data(), groups, out);
      const auto scale = floats(out, 1e-2f);
      for (const int64_t count : kCounts) {
        const auto rows = quantized(rows_of_all_kinds(count, in), count, in);
        std::vector<float> y(static_cast<size_t>(count * out));
        packed.multiply(rows, scale.data(), nullptr, y.data(), kOneThread);
        products.add(y);
      }
    }
  }
}

void int8_group_products() {
  Digest products("int8 product in groups");
  for (const int64_t groups : {1, 2, 5, 18}) {
    const int64_t in = groups * kGroup;
    for (const int64_t out : {1, 31, 48, 200}) {
      std::vector<uint8_t> codes(static_cast<size_t>(out * in));
      for (uint8_t& code : codes) code = static_cast<uint8_t>(random_bits() >> 56);
      std::vector<Float16> scale(static_cast<size_t>(out * groups));
      for (Float16& one : scale) one = random_weight(Float16{});
      const PackedInt8Groups packed(codes.data(), scale.data(), groups, out);
      for (const int64_t count : kCounts) {
        const auto rows = quantized_by_groups(rows_of_all_kinds(count, in), count, in);
        const auto added = floats(count * out);
        std::vector<float> y(added.size());
        for (const float* sum : {static_cast<const float*>(nullptr), added.data()}) {
          packed.multiply(rows, sum, y.data(), kOneThread);
          products.add(y);
        }
      }
    }
  }
}

// A table in which output 7 * r + 3 stands out for row r, so that pruning succeeds.
void arg_maxima() {
  Digest digest("pruned argmax");
  constexpr int64_t kOut = 3001;
  for (const int64_t in : {64, 100, 129}) {
    auto weights = int8s(kOut * in);
    for (auto& weight : weights) weight = static_cast<int8_t>(weight / 8);
    auto scale = floats(kOut, 2e-3f);
    for (float& number : scale) number += 1e-2f;
    for (const int64_t count : {1, 4, 13}) {
      const auto rows = quantized(floats(count * in), count, in);
      for (int64_t r = 0; r < count; ++r) {
        std::copy_n(rows.row(r), in, weights.begin() + (7 * r + 3) * in);
      }
      const Int8Table table{weights.data(), scale.data(), in, kOut};
      const PrunedArgmax pruned(table, kOneThread);
      std::vector<int64_t> index(static_cast<size_t>(count), -1);
      std::vector<float> highest(index.size());
      digest.add(int64_t{pruned.argmax(rows, table, index.data(), highest.data(), kOneThread)});
      digest.add(highest);
      for (const int64_t output : index) digest.add(output);
    }
  }
}

void attend_to(Digest& digest, const AttentionShape& shape, bool biased, float size) {
  const int64_t keys = shape.seen + (shape.rows - 1) * shape.step;
  const auto queries = floats(shape.rows * shape.heads * shape.size, size);
  const auto cached_keys = floats(shape.kv_heads * shape.stride * shape.size, size);
  const auto cached_values = floats(shape.kv_heads * shape.stride * shape.size);
  auto bias = floats(shape.heads * shape.rows * keys, 3);
  for (size_t i = 0; i < bias.size(); i += 7) bias[i] = -std::numeric_limits<float>::infinity();
  std::vector<float> out(queries.size());
  attend(shape, queries.data(), shape.heads * shape.size, CacheRows<float>{cached_keys.data()},
         CacheRows<float>{cached_values.data()}, biased ? bias.data() : nullptr, out.data(),
         kOneThread);
  digest.add(out);
}

// A cache of rows that are stored in fewer bits.
template <typename Number>
struct Narrow {
  std::vector<Number> numbers;
  std::vector<float> scales;

  Narrow(const std::vector<float>& rows, int64_t size)
      : numbers(rows.size()), scales(rows.size() / static_cast<size_t>(size)) {
    for (size_t r = 0; r < scales.size(); ++r) {
      const size_t first = r * static_cast<size_t>(size);
      if constexpr (std::is_same_v<Number, int8_t>) {
        scales[r] = store_row(rows.data() + first, size, numbers.data() + first);
      } else {
        store_row(rows.data() + first, size, numbers.data() + first);
      }
    }
  }
  CacheRows<Number> rows() const {
    if constexpr (std::is_same_v<Number, int8_t>) return {numbers.data(), scales.data()};
    if constexpr (!std::is_same_v<Number, int8_t>) return {numbers.data()};
  }
};

template <typename Number>
void narrow_attention(const char* name, Arithmetic arithmetic) {
  Digest digest(name);
  for (const int64_t past : {0, 30, 250, 600}) {
    for (const int64_t rows : {1, 5, 17}) {
      AttentionShape shape{rows, 9, 3, 64, past + 1, 1, past + rows, 0.125f};
      shape.arithmetic = arithmetic;
      const auto queries = floats(rows * shape.heads * shape.size, 2);
      const Narrow<Number> keys(floats(shape.kv_heads * shape.stride * shape.size, 2), shape.size);
      const Narrow<Number> values(floats(shape.kv_heads * shape.stride * shape.size), shape.size);
      std::vector<float> out(queries.size());
      attend(shape, queries.data(), shape.heads * shape.size, keys.rows(), values.rows(), nullptr,
             out.data(), kOneThread);
      digest.add(out);
    }
  }
}

AttentionShape rounded(AttentionShape shape) {
  shape.arithmetic = Arithmetic::kBFloat16;
  return shape;
}

void attention() {
  Digest causal("attention"), biased("attention with bias"), source("attention to a source"),
      candidates("attention with candidates");
  for (const int64_t past : {0, 30, 250, 600, 1500}) {
    for (const int64_t rows : {1, 5, 17}) {
      attend_to(causal, {rows, 9, 3, 64, past + 1, 1, past + rows, 0.125f}, false, 2);
      attend_to(causal, {rows, 2, 1, 8, past + 1, 1, past + rows + 3, 0.3f}, false, 30);
      attend_to(biased, {rows, 6, 6, 24, past + 1, 1, past + rows, 1.0f}, true, 1);
      attend_to(source, {rows, 4, 4, 64, past + 1, 0, past + 1, 0.2f}, false, 1);
    }
    // Alternatives to the rows after rows 0, 1 and 1 of a line of four.
    const RowLayout after[] = {
        {0, past + 1, past + 4}, {0, past + 2, past + 5}, {0, past + 2, past + 6}};
    attend_to(candidates, {7, 4, 2, 24, past + 1, 1, past + 7, 0.2f, after, 3}, false, 1);
    attend_to(candidates, {7, 4, 4, 64, past + 1, 1, past + 7, 0.2f, after, 3}, true, 1);
  }
  attend_to(causal, {40, 6, 6, 64, 256, 1, 300, 0.125f}, false, 1);
}

void windowed_attention() {
  Digest digest("attention with a window");
  for (const int64_t past : {0, 30, 250, 600, 1500}) {
    for (const int64_t window : {1, 40, 256, 300}) {
      const RowLayout after[] = {{0, past + 1, past + 6}, {0, past + 3, past + 7}};
      attend_to(digest, {8, 4, 1, 24, past + 1, 1, past + 8, 0.2f, after, 2, window}, false, 2);
      attend_to(digest, {17, 2, 2, 64, past + 1, 1, past + 17, 0.2f, nullptr, 0, window}, false, 2);
    }
  }
}

// In bfloat16: sizes of heads that fill no tile, bias, windows, candidates, numbers that leave the
// normal ones; and a key and a value that are no numbers.
void rounded_attention() {
  Digest digest("attention in bfloat16");
  for (const int64_t past : {0, 30, 250, 600}) {
    const RowLayout after[] = {{0, past + 1, past + 6}, {0, past + 3, past + 7}};
    for (const float size : {0x1p-70f, 0x1p-30f, 1.0f, 30.0f, 0x1p100f}) {
      for (const int64_t window : {0, 40, 300}) {
        attend_to(digest, rounded({8, 4, 1, 24, past + 1, 1, past + 8, 0.2f, after, 2, window}),
                  false, size);
        attend_to(digest, rounded({17, 6, 2, 72, past + 1, 1, past + 17, 0.2f}), true, size);
        attend_to(digest, rounded({1, 2, 2, 128, past + 1, 1, past + 1, 0.1f}), false, size);
      }
    }
  }
  attend_to(digest, rounded({50, 6, 2, 64, 256, 1, 305, 0.125f}), false, 1);
}

void norms_or_nan() {
  Digest digest("norm or NaN, and sum");
  for (const int64_t width : kWidths) {
    const auto weight = floats(width, 2), added = floats(width);
    for (int64_t kind = 0; kind < kKinds; ++kind) {
      auto x = row_of_kind(kind, width);
      norm_row_or_nan(x.data(), weight.data(), 1e-5f, width, x.data());
      digest.add(x);
      add_row(added.data(), width, x.data());
      digest.add(x);
    }
  }
}

void convolutions() {
  Digest digest("product of rows, and sum");
  for (const int64_t width : kWidths) {
    for (int64_t kind = 0; kind < kKinds; ++kind) {
      const auto a = row_of_kind(kind, width), b = floats(width), c = floats(width);
      std::vector<float> y(a.size());
      multiply_row(a.data(), b.data(), width, y.data());
      digest.add(y);
      add_product_row(b.data(), c.data(), width, y.data());
      digest.add(y);
    }
  }
}

void gated_deltas() {
  Digest inputs_of("inputs of a gated delta rule"), results("gated delta rule");
  for (const DeltaShape shape : {DeltaShape{1, 1, 16, 16, 2}, {2, 4, 24, 40, 4}, {3, 3, 7, 5, 3}}) {
    const auto convolution = floats(shape.taps * shape.channels());
    const auto decay = floats(shape.v_heads, 3), bias = floats(shape.v_heads, 4);
    const DeltaWeights weights{convolution.data(), decay.data(), bias.data()};
    constexpr int64_t kPositions = 11;
    std::vector<float> inputs;
    for (int64_t position = 0; position < kPositions; ++position) {
      std::vector<std::vector<float>> rows;
      for (int64_t tap = 0; tap < shape.taps; ++tap) {
        rows.push_back(row_of_kind(position == 10 ? 7 : 0, shape.channels()));
      }
      std::vector<const float*> seen;
      for (const auto& row : rows) seen.push_back(row.data());
      const auto write = floats(shape.v_heads, 30), forget = floats(shape.v_heads, 90);
      std::vector<float> y(static_cast<size_t>(shape.row()));
      delta_inputs(shape, weights, seen.data(), write.data(), forget.data(), y.data());
      inputs_of.add(y);
      inputs.insert(inputs.end(), y.begin(), y.end());
    }
    const auto past = floats(shape.matrices());
    std::vector<int64_t> in_order(kPositions);
    std::iota(in_order.begin(), in_order.end(), 0);
    const int64_t* order = in_order.data();
    for (const DeltaSteps steps :
         {DeltaSteps{kPositions, 0, 0, order}, {kPositions, 4, 6, order}, {9, 8, 9, order}}) {
      std::vector<float> present(past.size()), state(static_cast<size_t>(16 * shape.key_size));
      std::vector<float> y(static_cast<size_t>((steps.count - steps.again) * shape.v_width()));
      for (int64_t head = 0; head < shape.v_heads; ++head) {
        for (int64_t column = 0; column < shape.value_size; column += 16) {
          delta_columns(shape, steps, head, column, inputs.data(), past.data(), present.data(),
                        y.data(), state.data());
        }
      }
      results.add(present);
      results.add(y);
    }
  }
}

void sampling() {
  Digest weights_of("softmax"), nuclei("nucleus"), draws("draw"), residuals("excess"),
      maxima("argmax");
  for (const int64_t count : {1, 15, 16, 300, 49152}) {
    for (int64_t kind = 0; kind < kKinds; ++kind) {
      const auto x = row_of_kind(kind, count);
      maxima.add(largest(x.data(), count));
    }
    for (const float temperature : {0.1f, 1.0f, 3.0f}) {
      auto x = floats(count, 12);
      if (count > 1) x[1] = -std::numeric_limits<float>::infinity();
      const float highest = x[largest(x.data(), count)];
      std::vector<float> weights(x.size());
      weights_of.add(weigh(x.data(), count, highest, 1 / temperature, weights.data()));
      weights_of.add(weights);
      for (int i = 0; i < 50; ++i) draws.add(draw(weights.data(), count, i / 50.0));
      const auto q = floats(count / 2, 0.5f);
      std::vector<int64_t> indices(q.size());
      for (int64_t& index : indices) index = static_cast<int64_t>(random_bits() % (count + 2));
      std::vector<float> left(x.size());
      excess(weights.data(), count, 0.7f, q.data(), indices.data(), count / 2, left.data());
      residuals.add(left);
      for (const double share : {0.0, 0.5, 0.9, 0.999, 1.0}) {
        std::vector<int64_t> kept(x.size());
        const int64_t size =
            nucleus(x.data(), count, highest, 1 / temperature, share, kept.data(), weights.data());
        for (int64_t i = 0; i < size; ++i) {
          nuclei.add(kept[i]);
          nuclei.add(weights[i]);
        }
      }
    }
  }
}

// Weights of all exponents, subnormal ones among them: in each row of weights those of a range.
std::vector<BFloat16> bfloat16_weights(int64_t in, int64_t out) {
  constexpr float kSizes[] = {1, 4, 1e-2f, 1e-14f, 1e-17f, 1e-39f, 1e18f};
  std::vector<BFloat16> weights;
  for (int64_t o = 0; o < out; ++o) {
    for (const float number : floats(in, kSizes[o % std::size(kSizes)])) {
      weights.push_back({static_cast<uint16_t>(std::bit_cast<uint32_t>(number) >> 16)});
    }
  }
  return weights;
}

void bfloat16_row_products() {
  Digest rounded("round to bfloat16"), products("product of bfloat16 rows");
  for (const auto [in, out] : kShapes) {
    const PackedBFloat16 packed(bfloat16_weights(in, out).data(), in, out);
    for (const int64_t count : {1, 2, 3, 4, 5, 12, 13, 16, 17, 29, 32, 33, 40}) {
      const auto x = rows_of_all_kinds(count, in);
      BFloat16Rows rows;
      rows.resize(count, in);
      for (int64_t r = 0; r < count; ++r) round_to_bfloat16(x.data() + r * in, rows, r);
      for (int64_t r = 0; r < count; ++r) {
        for (int64_t b = 0; b < rows.blocks; ++b) {
          for (int64_t i = 0; i < kBFloat16Block; ++i) rounded.add(int64_t{rows.block(r, b)[i]});
        }
      }
      const auto added = floats(count * out);
      std::vector<float> y(added.size());
      for (const float* sum : {static_cast<const float*>(nullptr), added.data()}) {
        packed.multiply(rows, sum, y.data(), kOneThread);
        products.add(y);
      }
    }
  }
}

}  // namespace
}  // namespace edgespec::test

int main() {
  using namespace edgespec::test;
  exponentials();
  quantization();
  norms();
  rotations();
  positions();
  gates();
  int8_products();
  half_products<edgespec::Float16>("float16 product");
  half_products<edgespec::BFloat16>("bfloat16 product");
  arg_maxima();
  attention();
  sampling();
  int4_products();
  using enum edgespec::Arithmetic;
  narrow_attention<edgespec::Float16>("attention, float16 cache", kFloat32);
  narrow_attention<int8_t>("attention, int8 cache", kFloat32);
  int8_group_products();
  windowed_attention();
  norms_or_nan();
  convolutions();
  gated_deltas();
  narrow_attention<edgespec::Float16>("attention in bfloat16, float16 cache", kBFloat16);
  narrow_attention<int8_t>("attention in bfloat16, int8 cache", kBFloat16);
  rounded_attention();
  bfloat16_row_products();
  int4_int8_products();
}
