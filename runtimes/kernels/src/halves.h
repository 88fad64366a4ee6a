// The product of a few rows with a matrix of 16-bit weights, in 32-bit floats.
//
// Weights stay in 16 bits in memory, which is what decoding waits for, and are widened on their way
// into a product: nothing is lost that 32-bit weights would have kept. An output's sum goes along its
// inputs one addition after the other, whatever other rows are in the call.
#pragma once

#include <array>
#include <cstdint>

#include "kernel.h"
#include "memory.h"
#include "team.h"

namespace edgespec {

// Two kinds of numbers of 16 bits.
struct Float16 {
  static constexpr ort::ElementType type = ort::ElementType::float16;
  static constexpr const char* product = "Float16Product";
};
struct BFloat16 {
  static constexpr ort::ElementType type = ort::ElementType::bfloat16;
  static constexpr const char* product = "BFloat16Product";
};

// Weights [out, in], packed in panels of 32 outputs.
template <typename Half>
class PackedHalves {
 public:
  PackedHalves(const uint16_t* weights, int64_t in, int64_t out);

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

  // y [count, out] = x [count, in] · weightsᵀ
  void multiply(const float* x, int64_t count, float* y, const Threads& threads) const;

 private:
  int64_t in_, out_, panel_bytes_;
  Piece packed_;
};

// Inputs: x [m, in], weights [out, in]. Output: their product [m, out].
template <typename Half>
struct HalfProduct {
  static constexpr const char* name = Half::product;
  static constexpr std::array inputs{ort::ElementType::float32, Half::type};
  static constexpr std::array outputs{ort::ElementType::float32};
  PackedHalves<Half> weights;

  explicit HalfProduct(const Setup& setup) : weights(packed(setup)) {}

  void compute(Call& call) {
    const auto x = call.input<float>(0);
    if (x.shape.size() != 2 || x.last() != weights.in()) {
      throw Failure("rows and weights differ in width");
    }
    float* y = call.output(0, {x.rows(), weights.out()});
    Team::together(call.threads(), [&](const Threads& threads) {
      weights.multiply(x.data, x.rows(), y, threads);
    });
  }

 private:
  static PackedHalves<Half> packed(const Setup& setup) {
    const auto weights = setup.constant<uint16_t>(1, "weights");
    if (weights.shape.size() != 2) throw Failure("weights must have two dimensions");
    if (weights.rows() < 1 || weights.last() < 1) throw Failure("there must be weights");
    return {weights.data, weights.last(), weights.rows()};
  }
};

}  // namespace edgespec
