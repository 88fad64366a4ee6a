#include "ort/ort_batch.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {
namespace {

constexpr size_t kMostCalls = 256;  // whose bindings are kept

int64_t positions_of(const SharedCache& shared) {
  return shared.count * shared.capacity + kSparePositions;
}

// The numbers of the requests of each call. Logits, and the likely tokens with their probabilities,
// have the best tokens in them; a request that wants nothing takes any call.
std::map<Output, std::vector<size_t>> by_output(const std::vector<SharedRequest>& requests) {
  const auto is_wanted = [&](Wanted wanted) {
    return std::ranges::find(requests, wanted, &SharedRequest::wanted) != requests.end();
  };
  Output best = Output::kBest;
  if (is_wanted(Wanted::kLikely)) best = Output::kTop;
  if (is_wanted(Wanted::kLogits)) best = Output::kLogits;
  const Output any = is_wanted(Wanted::kBest) || best != Output::kBest ? best : Output::kLogits;
  const std::map<Wanted, Output> outputs = {{Wanted::kNothing, any},
                                            {Wanted::kLogits, Output::kLogits},
                                            {Wanted::kBest, best},
                                            {Wanted::kLikely, Output::kTop}};
  std::map<Output, std::vector<size_t>> numbers;
  for (size_t i = 0; i < requests.size(); ++i) {
    numbers[outputs.at(requests[i].wanted)].push_back(i);
  }
  return numbers;
}

}  // namespace

bool shares_calls(const ModelGraphs& graphs) {
  return graphs.decoder.has_optional("layouts") &&
         (!graphs.encoder || graphs.decoder.has_optional("sources"));
}

OrtBatch::OrtBatch(const ModelGraphs& graphs, const SamplingTable& sampling,
                   const SharedCache& shared)
    : graphs_(graphs),
      sampling_(sampling),
      shared_(shared),
      memory_(call_memory(graphs, positions_of(shared), kSharedRows, shared.count,
                          shared.keep_features)) {
  const int64_t positions = positions_of(shared);
  try {
    if (shared.keep_features) {
      features_ =
          std::make_unique<LazyZeros>(size_t(positions) * exported().features * sizeof(float));
    }
    if (graphs.encoder) make_cross_memory(positions);
  } catch (const std::bad_alloc&) {
    throw UsageError("there is no memory for a cache of " + shown(positions) +
                     " positions; give less capacity");
  }
  for (int64_t number = 0; number < shared.count; ++number) {
    sequences_.push_back(std::make_unique<OrtSequence>(*this, number * shared.capacity));
    if (!memory_.states.empty()) sequences_.back()->keep_states(memory_.states, number);
  }
}

void OrtBatch::make_cross_memory(int64_t positions) {
  const Graph& encoder = *graphs_.encoder;
  for (const std::string& name : encoder.outputs()) {
    if (!is_cross(name)) continue;
    const auto& shape = encoder.shape_of(name);  // [1, heads, source length, width]
    const std::vector<int64_t> own = {1, shape.at(1), positions, shape.at(3)};
    LazyZeros& memory =
        cross_memory_.emplace_back(size_t(own[1] * own[2] * own[3]) * sizeof(float));
    cross_.names.push_back(name);
    cross_.tensors.push_back(tensor_over(encoder.runtime(), memory.data(), memory.bytes(), own,
                                         ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  }
}

std::vector<SharedAnswer> OrtBatch::compute(const std::vector<SharedRequest>& requests) {
  std::vector<SharedAnswer> answers(requests.size());
  for (const auto& [output, numbers] : by_output(requests)) {
    SharedRows rows;
    for (const size_t number : numbers) rows.add(number, requests[number]);
    const Call& call = run(output, rows);
    if (output != Output::kBest) find_best(call, output, rows);
    for (const RowsOfSequence& part : rows.parts()) {
      part.sequence->computed(part.tokens, part.candidates);
      answers[part.request] = answer(call, output, part);
    }
  }
  return answers;
}

const Call& OrtBatch::run(Output output, const SharedRows& rows) {
  // Only the kernel of a head can leave out all rows of logits.
  const int64_t least = returns_best_tokens() ? 0 : 1;
  const int64_t skip = std::min(rows.skip(), rows.count() - least);
  SharedCall& call = call_of({rows.count(), rows.count(), skip, output});
  call.set_rows(rows.ordered(), cross_);
  set_states(call, rows);
  if (!memory_.states.empty()) call.set_steps(begun_steps(rows));
  call.run();
  store_states(call, rows);
  calls_ += 1;
  rows_ += rows.count();
  return call;
}

// What the call does with the states of recurrent layers.
std::vector<StateStep> OrtBatch::begun_steps(const SharedRows& rows) {
  std::vector<StateStep> steps;
  for (const RowsOfSequence& part : rows.parts()) {
    steps.push_back(part.sequence->begin_step(part.skip + part.outputs, part.wanted));
  }
  return steps;
}

SharedCall& OrtBatch::call_of(const CallShape& shape) {
  if (const auto found = kept_.find(shape); found != kept_.end()) return *found->second;
  if (kept_.size() >= kMostCalls) kept_.clear();
  auto made = std::make_unique<SharedCall>(memory_, shape, !cross_.names.empty());
  return *kept_.emplace(shape, std::move(made)).first->second;
}

SharedAnswer OrtBatch::answer(const Call& call, Output output, const RowsOfSequence& part) const {
  const auto first = static_cast<size_t>(part.first), count = static_cast<size_t>(part.outputs);
  if (part.wanted == Wanted::kNothing) return {};
  if (part.wanted == Wanted::kLogits) {
    const Rows all = call.logits(part.first + part.outputs);
    return Rows{all.logits + part.first * all.width, part.outputs, all.width};
  }
  if (part.wanted == Wanted::kLikely) return call.likely(part.first + part.outputs - 1);
  if (output != Output::kBest) {
    return BestTokens{std::span(best_tokens_).subspan(first, count),
                      std::span(best_logits_).subspan(first, count)};
  }
  const BestTokens all = call.best(part.first + part.outputs);
  return BestTokens{all.tokens.subspan(first, count), all.logits.subspan(first, count)};
}

// The best tokens where a call returns others, too, as the graph alone would return them.
void OrtBatch::find_best(const Call& call, Output output, const SharedRows& rows) {
  const auto wants_best = [](const RowsOfSequence& part) { return part.wanted == Wanted::kBest; };
  if (std::ranges::none_of(rows.parts(), wants_best)) return;
  best_tokens_.assign(rows.count() - rows.skip(), 0);
  best_logits_.assign(best_tokens_.size(), 0);
  for (const RowsOfSequence& part : rows.parts()) {
    if (!wants_best(part)) continue;
    for (int64_t row = part.first; row < part.first + part.outputs; ++row) {
      if (output == Output::kTop) {
        const LikelyTokens likely = call.likely(row);
        best_tokens_[row] = likely.tokens[0];
        best_logits_[row] = likely.logits[0];
      } else {
        const Row logits = call.logits(row + 1)[row];
        best_tokens_[row] = sampling_.largest(logits.data(), std::ssize(logits));
        best_logits_[row] = logits[best_tokens_[row]];
      }
    }
  }
}

void OrtBatch::store_states(Call& call, const SharedRows& rows) {
  if (features_ == nullptr) return;
  const int64_t width = exported().features;
  const std::span<const float> states = call.state("features");
  auto* memory = static_cast<float*>(features_->data());
  int64_t number = 0;
  for (const SharedRow& row : rows.ordered()) {
    std::copy_n(states.begin() + number * width, width, memory + row.layout.index * width);
    ++number;
  }
}

std::span<const float> OrtBatch::features(int64_t index) const {
  const int64_t width = exported().features;
  return {static_cast<const float*>(features_->data()) + index * width, static_cast<size_t>(width)};
}

SourcePart OrtBatch::encode(const Tokens& source, int64_t start) {
  const int64_t count = std::ssize(source);
  const auto same = std::ranges::find(sources_, source, [](const auto& one) { return one.second; });
  const Graph& encoder = *graphs_.encoder;
  const Source made = same == sources_.end() ? encoded(encoder, source) : Source{};
  for (size_t i = 0; i < cross_memory_.size(); ++i) {
    const auto& shape = encoder.shape_of(cross_.names[i]);
    const int64_t heads = shape[1], width = shape[3];
    auto* memory = static_cast<float*>(cross_memory_[i].data());
    const int64_t positions = cross_memory_[i].bytes() / sizeof(float) / (heads * width);
    const float* from = same == sources_.end() ? numbers_of(encoder.runtime(), made.tensors[i])
                                               : memory + same->first * width;
    const int64_t stride = same == sources_.end() ? count * width : positions * width;
    for (int64_t head = 0; head < heads; ++head) {
      std::memmove(memory + (head * positions + start) * width, from + head * stride,
                   size_t(count * width) * sizeof(float));
    }
  }
  sources_[start] = source;
  return {start, count};
}

void OrtBatch::copy_positions(int64_t source, int64_t destination, int64_t count) {
  edgespec::copy_positions(memory_.cache, source, destination, count);
  if (features_ == nullptr) return;
  const int64_t width = exported().features;
  auto* memory = static_cast<float*>(features_->data());
  std::memmove(memory + destination * width, memory + source * width,
               size_t(count * width) * sizeof(float));
}

}  // namespace edgespec
