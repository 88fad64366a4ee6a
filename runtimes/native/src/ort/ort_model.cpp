#include "ort/ort_model.h"

#include <algorithm>
#include <new>

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {
namespace {

constexpr const char* kFeatures = "features";
constexpr int64_t kSparePositions = 1;  // of the cache, which a call may overwrite after its own
// A longer prompt is split, which bounds the memory for attention scores.
constexpr int64_t kMaxPrefillRows = 256;

// Widths of the hidden states that a call binds.
std::map<std::string, int64_t> states_of(const Graph& graph, const Calls& calls) {
  std::map<std::string, int64_t> widths;
  if (calls.keep_features) widths[kFeatures] = graph.width_of(kFeatures);
  if (const int64_t width = graph.width_of("hidden")) {  // an EAGLE head: its states have one width
    widths["hidden"] = widths["fused_states"] = width;
  }
  return widths;
}

}  // namespace

OrtModel::OrtModel(const ModelGraphs& graphs, const Calls& calls)
    : graphs_(graphs),
      exported_(graphs.exported),
      calls_(calls),
      cache_(make_cache(graphs.decoder.runtime(), graphs.exported, graphs.variant.cache_format,
                        calls.capacity + calls.min_rows - 1 + kSparePositions)),
      state_widths_(states_of(graphs.decoder, calls)) {
  if (!calls.keep_features) return;
  const int64_t width = state_widths_.at(kFeatures);
  if (width != exported_.features || width == 0) {
    throw Error(graphs.variant.graphs.at("decoder") + " returns " + shown(width) +
                " features of each position and the manifest says " + shown(exported_.features) +
                "; export the pair again");
  }
  features_ = std::make_unique<LazyZeros>(size_t(calls.capacity) * width * sizeof(float));
}

Token OrtModel::prefill(const Tokens& prompt) {
  check_prompt(prompt);
  rewind(0);
  if (graphs_.encoder && exported_.start_token) {
    check_cancelled();
    source_ = encoded(*graphs_.encoder, prompt);
    return *exported_.start_token;
  }
  const std::span known(prompt.data(), prompt.size() - 1);
  while (length_ < std::ssize(known)) {
    const int64_t count = std::min(std::ssize(known) - length_, kMaxPrefillRows);
    const int64_t rows = std::max(count, calls_.min_rows);
    // Only the kernel can leave out all rows of logits.
    const int64_t skip = returns_best_tokens() ? rows : rows - 1;
    run(known.subspan(length_, count), rows, skip, Output::kLogits);
  }
  return prompt.back();
}

Rows OrtModel::score(std::span<const Token> tokens) {
  const int64_t count = std::ssize(tokens);
  check_room(count);
  return run(tokens, std::max(count, calls_.min_rows), 0, Output::kLogits).logits(count);
}

BestTokens OrtModel::best_tokens(std::span<const Token> tokens, int64_t skip) {
  const int64_t count = std::ssize(tokens);
  check_room(count);
  const int64_t rows = std::max(count, calls_.min_rows);
  return run(tokens, rows, skip, Output::kBest).best(count - skip);
}

void OrtModel::rewind(int64_t length) {
  if (!(0 <= length && length <= length_)) {
    throw Error("cannot rewind to " + shown(length) + " from " + shown(length_) + " positions");
  }
  length_ = length;
}

std::span<const float> OrtModel::features(int64_t first, int64_t end) const {
  const int64_t width = exported_.features;
  const auto* all = static_cast<const float*>(features_->data());
  return {all + first * width, static_cast<size_t>((end - first) * width)};
}

void OrtModel::store_states(Call& call, int64_t count) {
  if (features_ == nullptr) return;
  const int64_t width = exported_.features;
  const std::span<float> states = call.state(kFeatures);
  std::copy_n(states.begin(), count * width,
              static_cast<float*>(features_->data()) + length_ * width);
}

Call& OrtModel::run(std::span<const Token> tokens, int64_t rows, int64_t skip, Output output) {
  check_cancelled();
  const bool is_short = rows <= kMaxRows;
  std::unique_ptr<Call>& call = is_short ? kept_[{rows, skip, output}] : long_;
  if (call == nullptr || !is_short) {
    call = std::make_unique<Call>(graphs_.decoder, cache_, rows, skip, output, vocab_size(),
                                  state_widths_);
  }
  const int64_t count = std::ssize(tokens);
  call->set(tokens, length_, source_);
  set_states(*call, count);
  call->run();
  store_states(*call, count);
  length_ += count;
  return *call;
}

void OrtModel::check_cancelled() const {
  if (calls_.cancelled) {
    throw CancelledError("the text was cancelled; begin again when you want it");
  }
}

void OrtModel::check_prompt(const Tokens& prompt) const {
  if (prompt.empty()) throw UsageError("the prompt is empty; give at least one token");
  if (std::ssize(prompt) > calls_.capacity) {
    throw UsageError("the prompt has " + shown(std::ssize(prompt)) +
                     " tokens and the cache holds " + shown(calls_.capacity) +
                     "; shorten the prompt" + capacity_advice());
  }
  const auto [lowest, highest] = std::ranges::minmax(prompt);
  if (0 <= lowest && highest < exported_.read_tokens) return;
  throw UsageError("token " + shown(lowest < 0 ? lowest : highest) + " is outside the model's " +
                   shown(exported_.read_tokens) + " tokens");
}

void OrtModel::check_room(int64_t count) const {
  const int64_t room = calls_.capacity - length_;
  if (0 < count && count <= room) return;
  throw Error("asked to score " + shown(count) + " positions with room for " + shown(room) +
              " of " + shown(calls_.capacity) + capacity_advice());
}

std::string OrtModel::capacity_advice() const {
  if (exported_.positions == calls_.capacity) return "";
  const std::string limit = exported_.positions ? ", at most " + shown(*exported_.positions) : "";
  return " or give more capacity (--capacity" + limit + ")";
}

}  // namespace edgespec
