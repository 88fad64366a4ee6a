// The states of recurrent layers: at a few lengths of the text, so that it can be rewound.
//
// A call takes the states of one slot, goes once more through the positions that were kept since,
// and writes the states of `kept` positions into another slot. So a rewind drops the slots beyond
// it, and the next call starts at one before it (docs/decisions/0045-states.md). Sequences that
// share calls have slots in one memory. edgespec_runtimes/ort/recurrent_states.py is the same.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "artifact/manifest.h"
#include "core/archive.h"
#include "ort/memory.h"

namespace edgespec {

// What one recurrent layer of some sequences keeps: float32.
struct LayerStates {
  // Names of its inputs and outputs.
  std::string past_state, present_state, past_rows, present_rows;
  StateShape shape;
  LazyZeros states;                       // [slots, numbers]; slot 0 has those of no positions
  LazyZeros rows;                         // [sequences, recent rows, row]: of recent positions
  std::vector<OrtOwned<OrtValue>> slots;  // a tensor over each slot, [1, numbers]
  OrtOwned<OrtValue> all_states, all_rows;

  float* state(int64_t slot) const;
  float* recent(int64_t sequence) const;
  uint64_t state_bytes() const { return uint64_t(shape.state) * sizeof(float); }
  uint64_t recent_bytes() const;
};

// Bytes that the recurrent layers of one sequence keep.
uint64_t state_bytes(const Exported& exported);

// Of all recurrent layers; empty where there are none. Throws UsageError: there is no memory.
std::vector<LayerStates> make_states(const OrtRuntime& runtime, const Exported& exported,
                                     int64_t sequences);

// One sequence's part of a call: the slot it starts from, the one it writes, and what it does with
// the positions.
struct StateStep {
  int64_t start;           // index of the sequence's first position in the cache
  int64_t sequence;        // its number in the memory
  int64_t source, target;  // slots
  int64_t source_length;   // positions that the states of `source` are after
  int64_t length;          // positions before the call
  int64_t rows;            // of the sequence in the call, padding included
  int64_t count;           // of these, positions that stay unless they are rewound
  int64_t kept;            // positions after which the states are written; later rows are kept

  static constexpr int64_t kNumbers = 6;
  // The sequence's row of the input "state_steps".
  std::array<int64_t, kNumbers> numbers() const {
    return {start, sequence, source, target, source_length, kept};
  }
  bool keeps_rows() const { return kept < length + rows; }
};

// The slots of one sequence.
class RecurrentStates {
 public:
  // `layers` may be shared, and must outlive it. `number`: of the sequence there. `start`: index of
  // its first position in the cache.
  explicit RecurrentStates(std::vector<LayerStates>& layers, int64_t number = 0, int64_t start = 0);

  // Forgets every position from `length` on.
  void rewind(int64_t length);
  // How a call with so many rows after `length` positions is made; none if no slot has what it
  // needs (`reach`). `count`: rows that are no padding. `certain`: leading rows that stay, or go
  // together.
  std::optional<StateStep> step(int64_t length, int64_t rows, int64_t count,
                                int64_t certain = 0) const;
  // The last position up to `length` after which a call can start.
  int64_t reach(int64_t length) const;
  // Takes over what another sequence in the memory has of its first `length` positions.
  void copy(const RecurrentStates& other, int64_t length);
  // A call is about to be made: what it overwrites is lost, should it fail. Then: it was made.
  void begin(const StateStep& step);
  void end(const StateStep& step);
  void archive(Archive& archive, int64_t length);

 private:
  // The states of all layers after `length` positions. A long call made it: a prompt ends there.
  struct Slot {
    int64_t number;
    int64_t length = 0;
    bool is_long = false;

    void archive(Archive& archive) { archive(number, length, is_long); }
  };
  // Which positions' inputs are kept: start … end - 1.
  struct Recent {
    int64_t start = 0, end = 0;

    void rewind(int64_t length);
    // Positions first … stop - 1 are about to be written over the oldest.
    void overwrite(int64_t first, int64_t stop);
    void written(int64_t first, int64_t stop);
    bool has(int64_t first, int64_t stop) const { return start <= first && stop <= end; }
  };

  std::vector<Slot> known() const;
  int64_t free_slot(int64_t source) const;
  std::vector<Slot> by_worth() const;
  bool is_own(int64_t slot) const;

  std::vector<LayerStates>& layers_;
  int64_t number_, start_, first_slot_;
  std::vector<Slot> slots_;
  Recent recent_;
};

}  // namespace edgespec
