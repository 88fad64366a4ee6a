// The heads of attention operators, and rows of them.
#pragma once

#include "kernels/attention/attention.h"
#include "ort/op.h"

namespace edgespec {

// The attributes of attention operators; only some have the last three.
struct Heads {
  int64_t count, kv_count;
  float scale;
  float norm_epsilon = 0;
  int64_t window = 0;  // positions that a query sees, its own included; 0 if it sees all before it
  Arithmetic arithmetic = Arithmetic::kFloat32;

  template <typename Schema>
  static Heads of(const Setup& setup) {
    Heads heads{setup.attribute(Schema::attr::num_heads),
                setup.attribute(Schema::attr::kv_num_heads), setup.attribute(Schema::attr::scale)};
    if constexpr (requires { Schema::attr::head_epsilon; }) {
      heads.norm_epsilon = setup.attribute(Schema::attr::head_epsilon);
    }
    if constexpr (requires { Schema::attr::window; }) {
      heads.window = setup.attribute(Schema::attr::window);
      if (heads.window < 1) fail("window is ", heads.window, "; a query sees at least itself");
    }
    if constexpr (requires { Schema::attr::bfloat16; }) {
      const bool is_bfloat16 = setup.attribute_or(Schema::attr::bfloat16, 0) != 0;
      if (is_bfloat16) heads.arithmetic = Arithmetic::kBFloat16;
    }
    if (heads.kv_count < 1 || heads.count < 1 || heads.count % heads.kv_count) {
      fail("num_heads is ", heads.count, ", no multiple of kv_num_heads=", heads.kv_count);
    }
    return heads;
  }

  // Sets the sizes that follow from the width of the queries, heads · size.
  void set_sizes(int64_t q_width, Shapes& shapes) const {
    const int64_t size = q_width / count;
    if (size < 8 || size % 8 || q_width != size * count) {
      fail("queries of ", q_width, " numbers for ", count,
           " heads; a head has 8, 16, 24, … numbers");
    }
    shapes.set(Dim::heads, count, "num_heads");
    shapes.set(Dim::kv_heads, kv_count, "kv_num_heads");
    shapes.set(Dim::size, size, "head size");
    shapes.set(Dim::half_size, size / 2, "half of the head size");
    shapes.set(Dim::kv_width, kv_count * size, "kv_num_heads * head size");
  }
};

// Rows of `width` numbers; row r begins at data + r * stride.
struct Rows {
  const float* data;
  int64_t count, width, stride;

  static Rows of(const Tensor<const float>& x) {
    return {x.data, x.shape[0], x.shape[1], x.shape[1]};
  }
  const float* at(int64_t r) const { return data + r * stride; }
};

}  // namespace edgespec
