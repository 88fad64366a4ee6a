// The bindings of a decoder call: ONNX Runtime reads and writes memory of ours, without copies.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/model.h"
#include "ort/cache.h"
#include "ort/graph.h"
#include "ort/layout.h"
#include "ort/recurrent_states.h"
#include "ort/source.h"

namespace edgespec {

// What a call returns of each row: its logits, its best token alone, or its best three tokens with
// their probabilities. The numbers of the last two are the graph's.
enum class Output { kLogits = 0, kBest = 1, kTop = 2 };

// How a call is shaped.
struct CallShape {
  int64_t rows;       // positions, padding included
  int64_t described;  // of the last rows, which have a layout: candidates, or all of a shared call
  int64_t skip;       // leading rows without output
  Output output;
  int64_t ahead = 0;    // of the last rows: of a block draft, ahead of the text
  int64_t drafted = 0;  // of a block of masks: how many rows are returned instead

  int64_t returned() const { return drafted > 0 ? drafted : rows - skip; }
  auto operator<=>(const CallShape&) const = default;
};

// What all calls of a model share; it must outlive them.
struct CallMemory {
  const Graph& graph;
  std::vector<CacheBuffer> cache;
  std::vector<LayerStates> states;  // of recurrent layers
  int64_t vocab_size;
  // Widths of the hidden states that the graph takes or returns, by their names.
  std::map<std::string, int64_t> state_widths;
  LazyZeros logits;  // of all calls with so few rows: so they are valid until the next call
};

// Decoder calls with a given number of rows, bound once.
class Call {
 public:
  Call(CallMemory& memory, const CallShape& shape);
  virtual ~Call() = default;
  Call(const Call&) = delete;

  // Sets the inputs; without candidates, rows after the tokens are padding. The source must outlive
  // the run.
  void set(std::span<const Token> tokens, std::span<const LaidOut> candidates, int64_t past_length,
           const Source& source);
  // Makes all rows from `count` on repeat the token and the state of the one before them.
  void repeat_row(int64_t count);
  // Binds a source's keys and values, in the place of the one before.
  void set_source(const Source& source);
  // Sets which states of recurrent layers a call of one sequence takes, and which it makes.
  void set_step(const StateStep& step);
  void run();

  // The output of the first `count` rows that have any.
  Rows logits(int64_t count) const { return {logits_, count, memory_.vocab_size}; }
  BestTokens best(int64_t count) const;
  LikelyTokens likely(int64_t row) const;
  // The hidden states with a name, [rows, width]; "slot_states" are of drafted rows.
  std::span<float> state(const std::string& name) { return states_.at(name); }

 protected:
  // Binds numbers as an input.
  void take(const char* name, std::vector<int64_t>& numbers, const std::vector<int64_t>& shape);

  // The same for the sequences of a call.
  void set_steps(std::span<const StateStep> steps);

  // Writes where a described row stands; they are numbered from 0.
  void set_layout(int64_t number, const Layout& layout);

  std::vector<int64_t> tokens_, past_length_;

 private:
  void give(const char* name, OrtOwned<OrtValue> tensor);
  void give_logits(int64_t count);
  void give_best(int64_t count, Output output);
  void bind_states(const CallShape& shape);
  void bind_recurrent();
  void bind(const std::string& past, const std::string& present, const OrtOwned<OrtValue>& tensor);

  CallMemory& memory_;
  std::vector<int64_t> skip_, ahead_, layouts_, output_mode_, best_tokens_;
  std::optional<LazyZeros> own_logits_;  // of a call with more rows than the model's memory has
  float* logits_ = nullptr;
  std::vector<float> best_logits_, best_shares_;
  std::map<std::string, std::vector<float>> states_;
  std::vector<OrtOwned<OrtValue>> owned_;  // all tensors but the cache's
  std::vector<const char*> input_names_, output_names_;
  std::vector<const OrtValue*> inputs_;
  size_t own_inputs_ = 0;  // those of a source come after them
  std::vector<OrtValue*> outputs_;
  std::vector<int64_t> state_steps_;
  std::optional<OrtOwned<OrtValue>> steps_tensor_;
  // Of the steps, and of the first layer's states.
  size_t steps_input_ = 0, states_input_ = 0, states_output_ = 0;
};

}  // namespace edgespec
