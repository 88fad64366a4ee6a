#include "drafters/model_drafter.h"

#include <algorithm>

#include "core/error.h"

namespace edgespec {

ModelDrafter::ModelDrafter(Model& model, SamplingProcessor& process, const Vocabulary& vocabulary,
                           Tokens last_tokens, Answers answers)
    : model_(model),
      process_(process),
      vocabulary_(vocabulary),
      last_tokens_(std::move(last_tokens)),
      answers_(std::move(answers)) {}

void ModelDrafter::begin(const Tokens& prompt) {
  unread_prompt_ = prompt;
  sequence_.clear();
  cached_.clear();
  read_ = confirmed_ = 0;
}

Requests<Proposal> ModelDrafter::propose(const Tokens& sequence, int64_t gamma,
                                         Randomness& randomness) {
  if (unread_prompt_) {
    const Tokens prompt = vocabulary_.to_draft(*unread_prompt_);
    co_await Prefill{&model_, &prompt, &answers_};
    start_ = model_.length();
    unread_prompt_.reset();
  }
  for (; read_ < std::ssize(sequence); ++read_) {
    sequence_.push_back(vocabulary_.to_draft(sequence[read_]));
  }
  rewind_to_common_prefix();
  Tokens unread(sequence_.begin() + confirmed_, sequence_.end());
  const int64_t room = model_.capacity() - model_.length() - std::ssize(unread) + 1;
  const int64_t most = std::min(gamma, room);
  Proposal proposal;
  while (std::ssize(proposal.tokens) < most) {
    std::optional<Distribution> q = co_await predict(unread);
    cached_.insert(cached_.end(), unread.begin(), unread.end());
    if (!q) break;
    const Token token = randomness.categorical(*q, std::ssize(proposal.tokens));
    proposal.tokens.push_back(token);
    proposal.q.push_back(*std::move(q));
    if (std::ranges::find(last_tokens_, token) != last_tokens_.end()) break;
    unread = {vocabulary_.to_draft(token)};
  }
  co_return proposal;
}

void ModelDrafter::archive(Archive& archive, const Tokens& sequence) {
  bool is_unread = unread_prompt_.has_value();
  archive(is_unread, start_, read_, cached_, confirmed_);
  archive.check(0 <= start_ && start_ <= model_.length() && 0 <= read_ &&
                read_ <= std::ssize(sequence));
  archive.check(0 <= confirmed_ && confirmed_ <= std::min(std::ssize(cached_), read_));
  if (!is_unread) unread_prompt_.reset();
  sequence_ = vocabulary_.to_draft(std::span(sequence).first(read_));
}

Requests<std::optional<Distribution>> ModelDrafter::predict(std::span<const Token> ids) {
  const int64_t last = std::ssize(ids) - 1;
  try {
    // Where the draft has tokens that the target lacks, its best one may be such.
    if (process_.greedy() && model_.returns_best_tokens() &&
        vocabulary_.covers(model_.vocab_size())) {
      const BestTokens best = co_await BestScore{&model_, ids, last};
      co_return arg_max_distribution(vocabulary_.to_target(best.tokens[0]), best.logits[0]);
    }
    const Rows rows = co_await Score{&model_, ids};
    co_return vocabulary_.distribution(process_, rows[last]);
  } catch (const RefusedLogitsError&) {
    co_return std::nullopt;  // the draft's, on which no text depends
  }
}

void ModelDrafter::rewind_to_common_prefix() {
  const int64_t valid = model_.valid_length() - start_;
  // The last token is scored anew.
  const int64_t most = std::min({std::ssize(cached_), std::ssize(sequence_) - 1, valid});
  while (confirmed_ < most && cached_[confirmed_] == sequence_[confirmed_]) ++confirmed_;
  cached_.resize(confirmed_);
  model_.rewind(start_ + confirmed_);
}

}  // namespace edgespec
