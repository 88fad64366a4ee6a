// The sequences of a call of a gated delta rule: their rows, and what is kept of each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/gated_delta.h"
#include "ops/call_rows.h"
#include "ort/op.h"

namespace edgespec {

// What a call does with the states of a sequence: the numbers of graph_io.STATE_STEPS.
struct DeltaSequence {
  int64_t start, recent;  // of its rows' layouts; which of the kept rows are its own
  int64_t taken, made;    // slots
  int64_t state_length, kept_length;
  int64_t past_length;
  std::vector<int64_t> rows;  // of the call, in order of their positions

  int64_t end() const { return past_length + static_cast<int64_t>(rows.size()); }
  int64_t first_written() const { return std::max(past_length, kept_length); }
  DeltaSteps steps() const {
    return {end() - state_length, past_length - state_length, kept_length - state_length,
            rows.data()};
  }

  void check(const Shapes& shapes) const {
    const int64_t kept = shapes[Dim::recent];
    if (state_length < 0 || state_length > past_length || kept_length < state_length ||
        kept_length > end() || past_length - state_length > kept ||
        end() - first_written() > kept) {
      fail("states of ", state_length, " positions and of ", kept_length,
           " in a call of positions ", past_length, " to ", end() - 1, " with ", kept, " kept");
    }
    const int64_t slots = shapes[Dim::slots], sequences = shapes[Dim::sequences];
    if (std::min({taken, made, recent}) < 0 || std::max(taken, made) >= slots ||
        recent >= sequences) {
      fail("states ", taken, " and ", made, " of ", slots, " slots, rows ", recent, " of ",
           sequences, " sequences");
    }
  }
};

// The sequences of a call, each with its rows. Rows without layouts are of the sequence at 0.
inline std::vector<DeltaSequence> delta_sequences(const Tensor<const int64_t>& steps,
                                                  int64_t past_length,
                                                  const Tensor<const int64_t>& layouts,
                                                  const Shapes& shapes) {
  constexpr int64_t kNumbers = 6;
  const int64_t count = shapes[Dim::m], described = layouts.shape[0];
  const RowLayout* layout = layouts_of(layouts, count);
  if (steps.shape[1] != kNumbers) fail("steps of ", steps.shape[1], " numbers, not ", kNumbers);
  std::vector<DeltaSequence> sequences;
  for (int64_t i = 0; i < steps.shape[0]; ++i) {
    const int64_t* step = steps.data + i * kNumbers;
    sequences.push_back({step[0], step[1], step[2], step[3], step[4], step[5], past_length, {}});
  }
  for (int64_t row = 0; row < count; ++row) {
    const int64_t number = row - (count - described);
    const int64_t start = number < 0 ? 0 : layout[number].start;
    const int64_t position = number < 0 ? past_length + row : layout[number].position;
    const auto own = std::find_if(sequences.begin(), sequences.end(),
                                  [&](const DeltaSequence& each) { return each.start == start; });
    if (own == sequences.end()) fail("row ", row, " of a sequence at ", start, " without a step");
    if (own->rows.empty()) own->past_length = position;
    if (position != own->end()) {
      fail("row ", row, " at position ", position, " does not follow ", own->end() - 1);
    }
    own->rows.push_back(row);
  }
  for (const DeltaSequence& sequence : sequences) sequence.check(shapes);
  return sequences;
}

// The rows of a call, [m, …] each.
struct DeltaRows {
  const float *qkv, *write, *forget;
};

// Where a call finds the inputs of a position: of those before the state in the state, of those
// since in the rows that were kept, of its own in what it is given.
struct DeltaMemory {
  DeltaShape shape;
  DeltaRows rows;
  int64_t recent_count;
  const float* past_state;  // [slots, state_size]
  float *present_state, *recent;

  // The matrices, then the inputs [taps - 1, channels] at the positions before.
  int64_t state_size() const { return shape.matrices() + (shape.taps - 1) * shape.channels(); }

  float* recent_at(const DeltaSequence& of, int64_t position) const {
    return recent + (of.recent * recent_count + position % recent_count) * shape.row();
  }
  const float* channels_at(const DeltaSequence& of, int64_t position) const {
    if (position >= of.past_length) return rows.qkv + row(of, position) * shape.channels();
    if (position >= of.state_length) return recent_at(of, position);
    const float* before = past_state + of.taken * state_size() + shape.matrices();
    return before + (position - of.state_length + shape.taps - 1) * shape.channels();
  }
  const float* write_at(const DeltaSequence& of, int64_t position) const {
    if (position >= of.past_length) return rows.write + row(of, position) * shape.v_heads;
    return recent_at(of, position) + shape.channels();
  }
  const float* forget_at(const DeltaSequence& of, int64_t position) const {
    if (position >= of.past_length) return rows.forget + row(of, position) * shape.v_heads;
    return recent_at(of, position) + shape.channels() + shape.v_heads;
  }

  // Keeps the inputs of the convolution at the positions before the state that is made, then the
  // rows from there on, over the oldest.
  void keep(const DeltaSequence& of) const {
    float* before = present_state + of.made * state_size() + shape.matrices();
    for (int64_t i = 0; i < shape.taps - 1; ++i) {
      const float* from = channels_at(of, of.kept_length - (shape.taps - 1) + i);
      if (from != before) std::copy_n(from, shape.channels(), before);
      before += shape.channels();
    }
    for (int64_t position = of.first_written(); position < of.end(); ++position) {
      float* to = recent_at(of, position);
      to = std::copy_n(channels_at(of, position), shape.channels(), to);
      to = std::copy_n(write_at(of, position), shape.v_heads, to);
      std::copy_n(forget_at(of, position), shape.v_heads, to);
    }
  }

 private:
  static int64_t row(const DeltaSequence& of, int64_t position) {
    return of.rows[position - of.past_length];
  }
};

}  // namespace edgespec
