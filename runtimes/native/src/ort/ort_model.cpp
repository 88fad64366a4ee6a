#include "ort/ort_model.h"

#include <algorithm>
#include <new>

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {
namespace {

constexpr const char* kFeatures = "features";
constexpr size_t kMostCalls = 256;  // whose bindings are kept

// Positions of the cache. A block of masks is written after the last one of the text.
int64_t positions_of(const ModelGraphs& graphs, const Calls& calls) {
  const int64_t after = graphs.exported.block_rows.value_or(kSparePositions);
  return calls.capacity + calls.min_rows - 1 + after;
}

}  // namespace

CallMemory call_memory(const ModelGraphs& graphs, int64_t positions, int64_t rows,
                       int64_t sequences, bool keep_features) {
  const Graph& graph = graphs.decoder;
  const Exported& exported = graphs.exported;
  std::map<std::string, int64_t> widths;
  if (keep_features) widths[kFeatures] = graph.width_of(kFeatures);
  if (graphs.fusion) widths["fused_states"] = graphs.fusion->width_of("fused_states");
  if (exported.reads_target_cache()) widths["fused_states"] = exported.features;
  for (const char* state : {"hidden", "confidence", "slot_states"}) {  // of drafts with such
    if (const int64_t width = graph.width_of(state)) widths[state] = width;
  }
  if (keep_features && (widths[kFeatures] != exported.features || exported.features == 0)) {
    throw Error(graphs.variant.graphs.at("decoder") + " returns " + shown(widths[kFeatures]) +
                " features of each position and the manifest says " + shown(exported.features) +
                "; export the pair again");
  }
  std::vector<CacheBuffer> cache;
  if (!exported.reads_target_cache()) {
    cache = make_cache(graph.runtime(), exported, graphs.variant.cache_format, positions);
  }
  return {graph,
          std::move(cache),
          make_states(graph.runtime(), exported, sequences),
          exported.vocab_size,
          std::move(widths),
          LazyZeros(size_t(rows) * exported.vocab_size * sizeof(float))};
}

OrtModel::OrtModel(const ModelGraphs& graphs, const Calls& calls)
    : graphs_(graphs),
      exported_(graphs.exported),
      calls_(calls),
      most_rows_(kMaxRows + exported_.block_rows.value_or(0)),
      memory_(
          call_memory(graphs, positions_of(graphs, calls), most_rows_, 1, calls.keep_features)) {
  if (!memory_.states.empty()) states_.emplace(memory_.states);
  if (!calls.keep_features) return;
  features_ =
      std::make_unique<LazyZeros>(size_t(calls.capacity) * exported_.features * sizeof(float));
}

OrtModel::Timed::~Timed() {
  const auto spent = std::chrono::steady_clock::now() - began_;
  model_.seconds_ += std::chrono::duration<double>(spent).count();
}

Token OrtModel::prefill(const Tokens& prompt, const Answers& answers) {
  check_prompt(prompt);
  if (exported_.start_token) {
    rewind(0);
    check_cancelled();
    const int64_t count = std::ssize(prompt);
    report(0, count);
    source_tokens_ = prompt;
    source_ = encode(prompt);
    report(count, count);
    return *exported_.start_token;
  }
  const std::span known(prompt.data(), prompt.size() - 1);
  const std::vector<LongCall> plan = plan_prefill(
      std::ssize(known), answers.value_or(std::vector<Range>()), calls_.max_rows.has_value());
  std::vector<CachedPosition> wanted;
  for (int64_t i = 0; i < std::ssize(known); ++i) wanted.push_back({known[i], key_of(i), plan[i]});
  const int64_t kept = answers ? reusable_length(cached_, wanted) : 0;
  rewind(kept);
  while (length() < std::ssize(known)) {
    report(length() - kept, std::ssize(known) - kept);
    const int64_t first = length(), end = call_end(first, plan, calls_.max_rows.value_or(1));
    read(known.subspan(first, end - first));
    cached_.insert(cached_.end(), wanted.begin() + first, wanted.begin() + end);
  }
  report(length() - kept, length() - kept);
  return prompt.back();
}

void OrtModel::read(std::span<const Token> tokens) {
  const int64_t rows = std::max<int64_t>(std::ssize(tokens), calls_.min_rows);
  // Only the kernel can leave out all rows of logits.
  const int64_t skip = returns_best_tokens() ? rows : rows - 1;
  run(tokens, {}, {rows, 0, skip, Output::kLogits});
}

int64_t OrtModel::candidate_room(int64_t count) const {
  if (!scores_candidates() || count < calls_.min_rows) return 0;
  const int64_t most = std::min(calls_.max_rows.value_or(kMaxRows), calls_.capacity - length());
  return std::max<int64_t>(0, most - count);
}

Rows OrtModel::score(std::span<const Token> tokens, Candidates candidates) {
  const int64_t count = std::ssize(tokens) + std::ssize(candidates);
  check_room(count);
  const int64_t rows = std::max(count, calls_.min_rows);
  const Call& call = run(tokens, candidates, {rows, std::ssize(candidates), 0, Output::kLogits});
  append(tokens);
  return call.logits(count);
}

BestTokens OrtModel::best_tokens(std::span<const Token> tokens, Candidates candidates,
                                 int64_t skip) {
  const int64_t count = std::ssize(tokens) + std::ssize(candidates);
  check_room(count);
  const int64_t rows = std::max(count, calls_.min_rows);
  const Call& call = run(tokens, candidates, {rows, std::ssize(candidates), skip, Output::kBest});
  append(tokens);
  return call.best(count - skip);
}

LikelyTokens OrtModel::likely_tokens(std::span<const Token> tokens) {
  const int64_t count = std::ssize(tokens);
  check_room(count);
  const int64_t rows = std::max(count, calls_.min_rows);
  const Call& call = run(tokens, {}, {rows, 0, count - 1, Output::kTop});
  append(tokens);
  return call.likely(0);
}

void OrtModel::commit_candidate(size_t number) {
  const auto& [token, layout] = candidates_.at(number);
  copy_positions(memory_.cache, layout.index, layout.position, 1);
  if (features_ != nullptr) {
    const int64_t width = exported_.features;
    auto* all = static_cast<float*>(features_->data());
    std::copy_n(all + layout.index * width, width, all + layout.position * width);
  }
  append({&token, 1});
}

void OrtModel::rewind(int64_t length) {
  if (!(0 <= length && length <= this->length())) {
    throw Error("cannot rewind to " + shown(length) + " from " + shown(this->length()) +
                " positions");
  }
  cached_.resize(length);
  if (states_) states_->rewind(length);
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
              static_cast<float*>(features_->data()) + length() * width);
}

Call& OrtModel::run(std::span<const Token> tokens, Candidates candidates, const CallShape& shape) {
  check_cancelled();
  const int64_t count = std::ssize(tokens);
  const std::optional<StateStep> step = state_step(shape.rows, count);
  candidates_ = laid_out(candidates, count, 0, length());
  Call& call = call_of(shape);
  call.set(tokens, candidates_, length(), source_);
  if (step) {
    call.set_step(*step);
    states_->begin(*step);
  }
  {
    const Timed timed(*this);
    set_states(call, count);
    call.run();
  }
  if (step) states_->end(*step);
  store_states(call, count + std::ssize(candidates));
  return call;
}

// How a call takes the states of recurrent layers; none without such. Where a rewind went further
// back than they are kept, positions are computed once more.
std::optional<StateStep> OrtModel::state_step(int64_t rows, int64_t count) {
  if (!states_) return std::nullopt;
  if (const auto step = states_->step(length(), rows, count)) return step;
  compute_again(states_->reach(length() - 1));
  return state_step(rows, count);
}

// By the calls that computed the positions before, so they have the same bits.
void OrtModel::compute_again(int64_t start) {
  const std::vector<CachedPosition> again(cached_.begin() + start, cached_.end());
  Tokens tokens;
  std::vector<LongCall> plan(start);
  for (const CachedPosition& position : again) {
    tokens.push_back(position.token);
    plan.push_back(position.call);
  }
  rewind(start);
  const int64_t count = std::ssize(plan);
  while (length() < count) {
    const int64_t first = length() - start;
    const int64_t end = std::min(call_end(length(), plan, calls_.max_rows.value_or(1)), count);
    read(std::span(tokens).subspan(first, end - length()));
    cached_.insert(cached_.end(), again.begin() + first, again.begin() + (end - start));
  }
}

Call& OrtModel::call_of(const CallShape& shape) {
  if (shape.rows > most_rows_) return *(long_ = std::make_unique<Call>(memory_, shape));
  if (const auto found = kept_.find(shape); found != kept_.end()) return *found->second;
  if (kept_.size() >= kMostCalls) kept_.clear();
  return *kept_.emplace(shape, std::make_unique<Call>(memory_, shape)).first->second;
}

void OrtModel::append(std::span<const Token> tokens) {
  for (const Token token : tokens) cached_.push_back({token});
}

Source OrtModel::encode(const Tokens& prompt) { return encoded(*graphs_.encoder, prompt); }

void OrtModel::forget_source() {
  rewind(0);
  source_tokens_.clear();
  source_ = {};
}

void OrtModel::report(int64_t read, int64_t to_read) const {
  if (signals_ == nullptr) return;
  signals_->read = read;
  signals_->to_read = to_read;
}

void OrtModel::archive(Archive& archive) {
  archive(source_tokens_, cached_);
  if (archive.reads()) check_read(archive);
  archive_cache(archive);
  if (states_) states_->archive(archive, length());
  if (features_ == nullptr) return;
  archive.bytes(features_->data(), uint64_t(length()) * exported_.features * sizeof(float));
}

// The positions of each head lie together, with room for all of the capacity.
void OrtModel::archive_cache(Archive& archive) {
  for (const CacheBuffer& buffer : memory_.cache) {
    for (int64_t head = 0; head < buffer.heads; ++head) {
      char* first = static_cast<char*>(buffer.memory.data()) + head * buffer.head_bytes;
      archive.bytes(first, length() * buffer.position_bytes);
    }
  }
}

void OrtModel::check_read(const Archive& archive) {
  archive.check(length() <= calls_.capacity);
  for (int64_t i = 0; i < length(); ++i) {
    const auto& [token, target_token, call] = cached_[i];
    archive.check(0 <= token && token < exported_.read_tokens);
    archive.check(call == kShortCall || (0 <= call.begin && call.begin <= i && i < call.end));
  }
  if (!exported_.start_token) return archive.check(source_tokens_.empty());
  if (source_tokens_.empty()) return archive.check(cached_.empty());
  check_prompt(source_tokens_);
  source_ = encode(source_tokens_);
}

void OrtModel::check_cancelled() const {
  if (calls_.cancelled) {
    throw CancelledError("the text was cancelled; begin again when you want it");
  }
}

void OrtModel::check_prompt(const Tokens& prompt) const {
  if (prompt.empty()) throw UsageError("the prompt is empty; give at least one token");
  if (std::ssize(prompt) > calls_.capacity) {
    throw UsageError("the prompt has " + shown(int64_t(std::ssize(prompt))) +
                     " tokens and the cache holds " + shown(calls_.capacity) +
                     "; shorten the prompt" + capacity_advice());
  }
  const auto [lowest, highest] = std::ranges::minmax(prompt);
  if (0 <= lowest && highest < exported_.read_tokens) return;
  throw UsageError("token " + shown(lowest < 0 ? lowest : highest) + " is outside the model's " +
                   shown(exported_.read_tokens) + " tokens");
}

void OrtModel::check_room(int64_t count) const {
  const int64_t room = calls_.capacity - length();
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
