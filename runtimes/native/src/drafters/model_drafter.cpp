#include "drafters/model_drafter.h"

#include <algorithm>

#include "core/error.h"

namespace edgespec {
namespace {

constexpr int64_t kGuesses = 3;  // tokens that may be proposed for a position

int64_t rows_of(const Proposal& proposal) {
  return 1 + std::ssize(proposal.tokens) + std::ssize(proposal.candidates);
}

}  // namespace

ModelDrafter::ModelDrafter(Model& model, SamplingProcessor& process, const Vocabulary& vocabulary,
                           Tokens last_tokens, Answers answers, Decision should_continue,
                           Decision worth_candidate)
    : model_(model),
      process_(process),
      vocabulary_(vocabulary),
      last_tokens_(std::move(last_tokens)),
      answers_(std::move(answers)),
      should_continue_(std::move(should_continue)),
      worth_candidate_(std::move(worth_candidate)) {}

void ModelDrafter::begin(const Tokens& prompt) {
  unread_prompt_ = prompt;
  sequence_.clear();
  cached_.clear();
  read_ = confirmed_ = 0;
}

Requests<Proposal> ModelDrafter::propose(const Tokens& sequence, int64_t gamma,
                                         Randomness& randomness) {
  if (unread_prompt_) {
    const auto [prompt, answers] = vocabulary_.prompt(*unread_prompt_, answers_);
    co_await Prefill{&model_, &prompt, &answers};
    start_ = model_.length();
    unread_prompt_.reset();
  }
  const Tokens unread_tokens = vocabulary_.to_draft(std::span(sequence).subspan(read_));
  sequence_.insert(sequence_.end(), unread_tokens.begin(), unread_tokens.end());
  read_ = std::ssize(sequence);
  rewind_to_common_prefix();
  Tokens unread(sequence_.begin() + confirmed_, sequence_.end());
  const int64_t room = model_.capacity() - model_.length() - std::ssize(unread) + 1;
  const int64_t most = std::min({gamma, room, model_.block().value_or(gamma)});
  Proposal proposal;
  double probability = 1;  // that all drafted tokens are accepted, as the draft sees it
  while (std::ssize(proposal.tokens) < most) {
    std::optional<Prediction> prediction = co_await predict(unread);
    cached_.insert(cached_.end(), unread.begin(), unread.end());
    if (!prediction) break;
    const auto likely = guesses(*prediction, randomness, std::ssize(proposal.tokens));
    const auto [token, chosen] = likely.front();
    proposal.tokens.push_back(token);
    proposal.q.push_back(std::move(prediction->q));
    add_candidates(proposal, std::span(likely).subspan(1), probability);
    if (std::ranges::find(last_tokens_, token) != last_tokens_.end()) break;
    probability *= chosen;
    unread = vocabulary_.to_draft({&token, 1});
    if (!should_continue_) continue;
    const double confidence = model_.confidence_after(unread.back());
    if (!should_continue_(probability * confidence, rows_of(proposal))) break;
  }
  co_return proposal;
}

void ModelDrafter::add_candidates(Proposal& proposal, std::span<const Guess> others,
                                  double reached) const {
  if (!worth_candidate_) return;
  for (const auto& [token, chosen] : others) {
    if (!worth_candidate_(reached * chosen, rows_of(proposal))) return;  // the rest is less likely
    proposal.candidates.push_back({std::ssize(proposal.tokens) - 1, token});
  }
}

void ModelDrafter::archive(Archive& archive, const Tokens& sequence) {
  bool is_unread = unread_prompt_.has_value();
  archive(is_unread, start_, read_, cached_, confirmed_);
  archive.check(0 <= start_ && start_ <= model_.length() && 0 <= read_ &&
                read_ <= std::ssize(sequence));
  sequence_ = vocabulary_.to_draft(std::span(sequence).first(read_));
  archive.check(0 <= confirmed_ &&
                confirmed_ <= std::min(std::ssize(cached_), std::ssize(sequence_)));
  if (!is_unread) unread_prompt_.reset();
}

Requests<std::optional<ModelDrafter::Prediction>> ModelDrafter::predict(
    std::span<const Token> ids) {
  const int64_t last = std::ssize(ids) - 1;
  try {
    // Where the draft has tokens that the target lacks, its best one may be such.
    if (process_.greedy() && model_.returns_best_tokens() &&
        vocabulary_.covers(model_.vocab_size())) {
      co_return co_await from_best_tokens(ids);
    }
    const Rows rows = co_await Score{&model_, ids};
    co_return from_logits(rows[last]);
  } catch (const RefusedLogitsError&) {
    co_return std::nullopt;  // the draft's, on which no text depends
  }
}

Requests<ModelDrafter::Prediction> ModelDrafter::from_best_tokens(std::span<const Token> ids) {
  std::vector<Guess> best;
  float logit = 0;
  if (needs_probability()) {
    const auto [tokens, logits, probabilities] = co_await LikelyScore{&model_, ids};
    for (size_t i = 0; i < tokens.size(); ++i) {
      best.push_back({vocabulary_.to_target(tokens[i]), probabilities[i]});
    }
    logit = logits[0];
  } else {
    const BestTokens found = co_await BestScore{&model_, ids, {}, std::ssize(ids) - 1};
    best = {{vocabulary_.to_target(found.tokens[0]), 1}};
    logit = found.logits[0];
  }
  const Token token = best.front().token;
  co_return Prediction{arg_max_distribution(token, logit), std::move(best)};
}

ModelDrafter::Prediction ModelDrafter::from_logits(Row logits) {
  Distribution q = vocabulary_.distribution(process_, logits);
  if (q.size() > 1 || !needs_probability()) return {std::move(q), {}};
  // Where the draft has tokens that the target lacks, its best ones may be such.
  const bool covers = vocabulary_.covers(model_.vocab_size());
  std::vector<Guess> best = process_.best(logits, covers ? kGuesses : 1);
  for (Guess& guess : best) guess.token = covers ? vocabulary_.to_target(guess.token) : guess.token;
  best.front().token = q.tokens->front();
  return {std::move(q), std::move(best)};
}

std::vector<Guess> ModelDrafter::guesses(const Prediction& prediction, Randomness& randomness,
                                         int64_t ahead) const {
  const auto& [q, best] = prediction;
  if (!needs_probability()) return {{randomness.categorical(q, ahead), 1}};
  if (q.size() == 1) return best;
  std::vector<Guess> guesses = randomness.guesses(q, ahead);
  if (std::ssize(guesses) > kGuesses) guesses.resize(kGuesses);
  return guesses;
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
