#include "drafters/model_drafter.h"

#include <algorithm>

#include "core/error.h"

namespace edgespec {

ModelDrafter::ModelDrafter(Model& model, SamplingProcessor& process, const Vocabulary& vocabulary,
                           Tokens last_tokens, Answers answers, Decision should_continue)
    : model_(model),
      process_(process),
      vocabulary_(vocabulary),
      last_tokens_(std::move(last_tokens)),
      answers_(std::move(answers)),
      should_continue_(std::move(should_continue)) {}

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
  double probability = 1;  // that all drafted tokens are accepted, as the draft sees it
  while (std::ssize(proposal.tokens) < most) {
    std::optional<Prediction> prediction = co_await predict(unread);
    cached_.insert(cached_.end(), unread.begin(), unread.end());
    if (!prediction) break;
    const auto [token, chosen] = guess(*prediction, randomness, std::ssize(proposal.tokens));
    proposal.tokens.push_back(token);
    proposal.q.push_back(std::move(prediction->q));
    if (std::ranges::find(last_tokens_, token) != last_tokens_.end()) break;
    probability *= chosen;
    if (should_continue_ && !should_continue_(probability, 1 + std::ssize(proposal.tokens))) break;
    unread = {vocabulary_.to_draft(token)};
  }
  co_return proposal;
}

void ModelDrafter::archive(Archive& archive, const Tokens& sequence) {
  bool is_unread = unread_prompt_.has_value();
  archive(is_unread, start_, read_, cached_, confirmed_);
  archive.check(0 <= start_ && start_ <= model_.length() && 0 <= read_ &&
                read_ <= std::ssize(sequence));
  archive.check(0 <= confirmed_ && confirmed_ <= std::min<int64_t>(std::ssize(cached_), read_));
  if (!is_unread) unread_prompt_.reset();
  sequence_ = vocabulary_.to_draft(std::span(sequence).first(read_));
}

Requests<std::optional<ModelDrafter::Prediction>> ModelDrafter::predict(
    std::span<const Token> ids) {
  const int64_t last = std::ssize(ids) - 1;
  try {
    // Where the draft has tokens that the target lacks, its best one may be such.
    if (process_.greedy() && model_.returns_best_tokens() &&
        vocabulary_.covers(model_.vocab_size())) {
      co_return co_await from_best_token(ids);
    }
    const Rows rows = co_await Score{&model_, ids};
    co_return from_logits(rows[last]);
  } catch (const RefusedLogitsError&) {
    co_return std::nullopt;  // the draft's, on which no text depends
  }
}

Requests<ModelDrafter::Prediction> ModelDrafter::from_best_token(std::span<const Token> ids) {
  LikelyToken best;
  if (should_continue_) {
    best = co_await LikelyScore{&model_, ids};
  } else {
    const BestTokens found = co_await BestScore{&model_, ids, std::ssize(ids) - 1};
    best = {found.tokens[0], found.logits[0], 1};
  }
  co_return Prediction{arg_max_distribution(vocabulary_.to_target(best.token), best.logit),
                       best.probability};
}

ModelDrafter::Prediction ModelDrafter::from_logits(Row logits) {
  Distribution q = vocabulary_.distribution(process_, logits);
  const bool is_asked = should_continue_ && q.size() == 1;
  return {std::move(q), is_asked ? process_.best_probability(logits) : 1};
}

Guess ModelDrafter::guess(const Prediction& prediction, Randomness& randomness,
                          int64_t ahead) const {
  const auto& [q, probability] = prediction;
  if (q.size() == 1) return {q.tokens->front(), probability};
  if (should_continue_) return randomness.guess(q, ahead);
  return {randomness.categorical(q, ahead), 1};
}

void ModelDrafter::rewind_to_common_prefix() {
  const int64_t valid = model_.valid_length() - start_;
  // The last token is scored anew.
  const int64_t most = std::min<int64_t>({std::ssize(cached_), std::ssize(sequence_) - 1, valid});
  while (confirmed_ < most && cached_[confirmed_] == sequence_[confirmed_]) ++confirmed_;
  cached_.resize(confirmed_);
  model_.rewind(start_ + confirmed_);
}

}  // namespace edgespec
