// Gated delta rules, whose states go from call to call.
#pragma once

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/gated_delta.h"
#include "kernels/lanes/lanes.h"
#include "kernels/rows.h"
#include "ops/delta_sequence.h"
#include "ops/scratch.h"
#include "ort/op.h"

namespace edgespec {

template <typename Table>
class GatedDelta {
  using in = typename Table::in;
  using out = typename Table::out;

 public:
  using Schema = Table;

  explicit GatedDelta(const Setup& setup)
      : shape_{setup.attribute(Schema::attr::k_heads), setup.attribute(Schema::attr::v_heads),
               setup.attribute(Schema::attr::key_size), setup.attribute(Schema::attr::value_size),
               0} {}

  void compute(KernelContext& call) const {
    Shapes shapes;
    const DeltaRows rows{call.input(in::qkv, shapes).data, call.input(in::write, shapes).data,
                         call.input(in::forget, shapes).data};
    const DeltaWeights weights{call.input(in::convolution, shapes).data,
                               call.input(in::decay, shapes).data,
                               call.input(in::forget_bias, shapes).data};
    const float* past_state = call.input(in::past_state, shapes).data;
    const float* past_rows = call.input(in::past_rows, shapes).data;
    const auto steps = call.input(in::steps, shapes);
    const int64_t past_length = *call.input(in::past_length, shapes).data;
    const auto layouts = call.input(in::layouts, shapes);
    const DeltaShape shape = checked(shapes);
    const auto sequences = delta_sequences(steps, past_length, layouts, shapes);
    float* present_state = call.output(out::present_state, shapes);
    float* present_rows = call.output(out::present_rows, shapes);
    // The caller usually binds both to one memory; if not, the past is copied. A call writes all
    // of a single slot.
    const int64_t slots = shapes[Dim::slots];
    if (slots > 1) copy_past(past_state, slots * shapes[Dim::state], present_state);
    copy_past(past_rows, shapes[Dim::sequences] * shapes[Dim::recent] * shape.row(), present_rows);
    const DeltaMemory memory{shape,      rows,          shapes[Dim::recent],
                             past_state, present_state, present_rows};
    struct Inputs;
    float* inputs = scratch<Inputs>(positions_of(sequences) * shape.row());
    prepare(call, memory, weights, sequences, inputs);
    for (const DeltaSequence& sequence : sequences) memory.keep(sequence);
    go_through(call, memory, sequences, inputs, call.output(out::y, shapes));
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

  static void copy_past(const float* past, int64_t count, float* present) {
    if (present != past) std::copy_n(past, count, present);
  }

  static int64_t positions_of(const std::vector<DeltaSequence>& sequences) {
    int64_t count = 0;
    for (const DeltaSequence& sequence : sequences) count += sequence.steps().count;
    return count;
  }

  // What the positions bring, those of one sequence after those of the other.
  static void prepare(KernelContext& call, const DeltaMemory& memory, const DeltaWeights& weights,
                      const std::vector<DeltaSequence>& sequences, float* inputs) {
    const DeltaShape& shape = memory.shape;
    for (const DeltaSequence& sequence : sequences) {
      const int64_t count = sequence.steps().count;
      call.threads().each(count, count * shape.row() * shape.taps, [&](int64_t i) {
        struct Seen;
        const float** seen = scratch<Seen, const float*>(shape.taps);
        const int64_t position = sequence.state_length + i;
        for (int64_t tap = 0; tap < shape.taps; ++tap) {
          seen[tap] = memory.channels_at(sequence, position - (shape.taps - 1) + tap);
        }
        delta_inputs(shape, weights, seen, memory.write_at(sequence, position),
                     memory.forget_at(sequence, position), inputs + i * shape.row());
      });
      inputs += count * shape.row();
    }
  }

  static void go_through(KernelContext& call, const DeltaMemory& memory,
                         const std::vector<DeltaSequence>& sequences, const float* inputs,
                         float* y) {
    const DeltaShape& shape = memory.shape;
    const int64_t parts = (shape.value_size + kLanes - 1) / kLanes;
    const int64_t each = shape.v_heads * parts, count = static_cast<int64_t>(sequences.size());
    std::vector<const float*> inputs_of;
    for (const DeltaSequence& sequence : sequences) {
      inputs_of.push_back(inputs);
      inputs += sequence.steps().count * shape.row();
    }
    const int64_t cycles = positions_of(sequences) * shape.matrices() / kNumbersPerCycle;
    call.threads().each(count * each, cycles, [&](int64_t i) {
      struct State;
      float* state = scratch<State>(shape.key_size * kLanes);
      const int64_t number = i / each, part = i % each;
      const DeltaSequence& sequence = sequences[number];
      delta_columns(shape, sequence.steps(), part / parts, part % parts * kLanes, inputs_of[number],
                    memory.past_state + sequence.taken * memory.state_size(),
                    memory.present_state + sequence.made * memory.state_size(), y, state);
    });
  }

  DeltaShape shape_;
};

}  // namespace edgespec
