// Gated delta rules, whose states go from call to call.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/gated_delta.h"
#include "kernels/lanes/lanes.h"
#include "kernels/rows.h"
#include "ops/scratch.h"
#include "ort/op.h"

namespace edgespec {

// Where a call finds the inputs of a position: of those before the state in the state, of those
// since in the rows that were kept, of its own in what it is given.
struct DeltaRows {
  const float* before;  // [taps - 1, channels]
  const float* recent;  // [kept rows, row]
  const float *qkv, *write, *forget;
  int64_t recent_count, state_length, past_length;

  const float* channels_at(int64_t position, const DeltaShape& shape) const {
    if (position >= past_length) return qkv + (position - past_length) * shape.channels();
    if (position >= state_length) return recent_at(position, shape);
    return before + (position - state_length + shape.taps - 1) * shape.channels();
  }
  const float* recent_at(int64_t position, const DeltaShape& shape) const {
    return recent + position % recent_count * shape.row();
  }
  const float* write_at(int64_t position, const DeltaShape& shape) const {
    if (position >= past_length) return write + (position - past_length) * shape.v_heads;
    return recent_at(position, shape) + shape.channels();
  }
  const float* forget_at(int64_t position, const DeltaShape& shape) const {
    if (position >= past_length) return forget + (position - past_length) * shape.v_heads;
    return recent_at(position, shape) + shape.channels() + shape.v_heads;
  }
};

template <typename Table>
class GatedDelta {
 public:
  using Schema = Table;

  explicit GatedDelta(const Setup& setup)
      : shape_{setup.attribute(Schema::attr::k_heads), setup.attribute(Schema::attr::v_heads),
               setup.attribute(Schema::attr::key_size), setup.attribute(Schema::attr::value_size),
               0} {}

  void compute(KernelContext& call) const {
    using in = typename Schema::in;
    using out = typename Schema::out;
    Shapes shapes;
    const auto qkv = call.input(in::qkv, shapes);
    const auto write = call.input(in::write, shapes), forget = call.input(in::forget, shapes);
    const auto convolution = call.input(in::convolution, shapes);
    const auto decay = call.input(in::decay, shapes), bias = call.input(in::forget_bias, shapes);
    const auto past_state = call.input(in::past_state, shapes);
    const auto past_rows = call.input(in::past_rows, shapes);
    const int64_t state_length = *call.input(in::state_length, shapes).data;
    const int64_t past_length = *call.input(in::past_length, shapes).data;
    const int64_t kept_length = *call.input(in::kept_length, shapes).data;
    const DeltaShape shape = checked(shapes);
    const int64_t m = shapes[Dim::m], recent = shapes[Dim::recent], end = past_length + m;
    const int64_t first_written = std::max(past_length, kept_length);
    if (state_length < 0 || state_length > past_length || kept_length < state_length ||
        kept_length > end || past_length - state_length > recent ||
        (first_written < end && end - state_length > recent)) {
      fail("states of ", state_length, " positions and of ", kept_length,
           " in a call of positions ", past_length, " to ", end - 1, " with ", recent, " kept");
    }
    const DeltaRows rows{past_state.data + shape.matrices(),
                         past_rows.data,
                         qkv.data,
                         write.data,
                         forget.data,
                         recent,
                         state_length,
                         past_length};
    const DeltaWeights weights{convolution.data, decay.data, bias.data};
    const DeltaSteps steps{end - state_length, past_length - state_length,
                           kept_length - state_length};
    struct Inputs;
    float* inputs = scratch<Inputs>(steps.count * shape.row());
    prepare(call, shape, weights, rows, steps.count, inputs);
    float* present_state = call.output(out::present_state, shapes);
    keep_before(shape, rows, kept_length, present_state + shape.matrices());
    keep_rows(shape, rows, past_rows.data, call.output(out::present_rows, shapes), first_written,
              end);
    go_through(call, shape, steps, inputs, past_state.data, present_state,
               call.output(out::y, shapes));
  }

 private:
  DeltaShape checked(Shapes& shapes) const {
    DeltaShape shape = shape_;
    shape.taps = shapes[Dim::taps];
    shapes.set(Dim::v_heads, shape.v_heads, "v_heads");
    shapes.set(Dim::channels, shape.channels(), "numbers of the heads");
    shapes.set(Dim::v_width, shape.v_width(), "numbers of the value heads");
    shapes.set(Dim::row, shape.row(), "numbers of a position");
    shapes.set(Dim::state, shape.matrices() + (shape.taps - 1) * shape.channels(),
               "numbers of a state");
    if (shape.k_heads < 1 || shape.v_heads % shape.k_heads) {
      fail(shape.v_heads, " value heads for ", shape.k_heads, " key heads");
    }
    return shape;
  }

  static void prepare(KernelContext& call, const DeltaShape& shape, const DeltaWeights& weights,
                      const DeltaRows& rows, int64_t count, float* inputs) {
    const int64_t cycles = count * shape.row() * shape.taps;
    call.threads().each(count, cycles, [&](int64_t i) {
      struct Seen;
      const float** seen = scratch<Seen, const float*>(shape.taps);
      const int64_t position = rows.state_length + i;
      for (int64_t tap = 0; tap < shape.taps; ++tap) {
        seen[tap] = rows.channels_at(position - (shape.taps - 1) + tap, shape);
      }
      delta_inputs(shape, weights, seen, rows.write_at(position, shape),
                   rows.forget_at(position, shape), inputs + i * shape.row());
    });
  }

  // The inputs of the convolution at the positions before `kept`.
  static void keep_before(const DeltaShape& shape, const DeltaRows& rows, int64_t kept, float* to) {
    for (int64_t i = 0; i < shape.taps - 1; ++i) {
      std::copy_n(rows.channels_at(kept - (shape.taps - 1) + i, shape), shape.channels(),
                  to + i * shape.channels());
    }
  }

  // The caller usually binds both to one memory; if not, the past is copied.
  static void keep_rows(const DeltaShape& shape, const DeltaRows& rows, const float* past,
                        float* present, int64_t first, int64_t end) {
    const int64_t width = shape.row();
    if (present != past) std::copy_n(past, rows.recent_count * width, present);
    for (int64_t position = first; position < end; ++position) {
      float* to = present + position % rows.recent_count * width;
      to = std::copy_n(rows.channels_at(position, shape), shape.channels(), to);
      to = std::copy_n(rows.write_at(position, shape), shape.v_heads, to);
      std::copy_n(rows.forget_at(position, shape), shape.v_heads, to);
    }
  }

  static void go_through(KernelContext& call, const DeltaShape& shape, const DeltaSteps& steps,
                         const float* inputs, const float* past, float* present, float* y) {
    const int64_t parts = (shape.value_size + kLanes - 1) / kLanes;
    const int64_t cycles = steps.count * shape.matrices() / kNumbersPerCycle;
    call.threads().each(shape.v_heads * parts, cycles, [&](int64_t i) {
      struct State;
      float* state = scratch<State>(shape.key_size * kLanes);
      delta_columns(shape, steps, i / parts, i % parts * kLanes, inputs, past, present, y, state);
    });
  }

  DeltaShape shape_;
};

}  // namespace edgespec
