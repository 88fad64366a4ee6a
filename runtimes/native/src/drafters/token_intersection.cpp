#include "drafters/token_intersection.h"

#include <algorithm>
#include <functional>
#include <set>
#include <stdexcept>

namespace edgespec {

TokenIntersection::TokenIntersection(Tokens targets, Tokens drafts, std::vector<Tokens> spellings,
                                     Tokens begin, int64_t draft_size)
    : targets_(std::make_shared<const Tokens>(std::move(targets))),
      drafts_(std::move(drafts)),
      spellings_(std::move(spellings)),
      begin_(std::move(begin)),
      draft_size_(draft_size),
      target_ids_(draft_size, -1) {
  check();
  for (size_t i = 0; i < drafts_.size(); ++i) target_ids_[drafts_[i]] = (*targets_)[i];
}

void TokenIntersection::check() const {
  const auto refuse = [](const char* why) { throw std::runtime_error(why); };
  const Tokens& targets = *targets_;
  if (targets.empty() || drafts_.size() != targets.size() ||
      std::ranges::adjacent_find(targets, std::greater_equal()) != targets.end()) {
    refuse("common target ids do not increase, or draft ids are missing");
  }
  if (targets.front() < 0 || targets.back() >= std::ssize(spellings_)) {
    refuse("common names tokens that the target lacks");
  }
  if (std::set(drafts_.begin(), drafts_.end()).size() != drafts_.size()) {
    refuse("common names a token of the draft twice");
  }
  const auto are_drafts = [&](const Tokens& tokens) {
    return std::ranges::all_of(tokens,
                               [&](Token token) { return 0 <= token && token < draft_size_; });
  };
  if (!are_drafts(drafts_) || !std::ranges::all_of(spellings_, are_drafts) || !are_drafts(begin_)) {
    refuse("it names tokens that the draft lacks");
  }
  if (!std::ranges::all_of(spellings_, [](const Tokens& one) { return !one.empty(); })) {
    refuse("a token of the target has no spelling");
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (spellings_[targets[i]] != Tokens{drafts_[i]}) {
      refuse("a common token is spelled with others");
    }
  }
}

Tokens TokenIntersection::to_draft(std::span<const Token> tokens) const {
  Tokens ids;
  for (const Token token : tokens) {
    const Tokens& spelled = spellings_[token];
    ids.insert(ids.end(), spelled.begin(), spelled.end());
  }
  return ids;
}

DraftPrompt TokenIntersection::prompt(const Tokens& tokens, const Answers& answers) const {
  DraftPrompt made{begin_, answers};
  std::vector<int64_t> starts;  // of each token's spelling, and the end of the last
  for (const Token token : tokens) {
    starts.push_back(std::ssize(made.tokens));
    made.tokens.insert(made.tokens.end(), spellings_[token].begin(), spellings_[token].end());
  }
  starts.push_back(std::ssize(made.tokens));
  if (!made.answers) return made;
  for (auto& [begin, end] : *made.answers) {
    begin = starts.at(begin);
    end = starts.at(end);
  }
  return made;
}

Distribution TokenIntersection::distribution(SamplingProcessor& process, Row logits) const {
  std::vector<float> common(drafts_.size());
  std::ranges::transform(drafts_, common.begin(), [&](Token token) { return logits[token]; });
  Distribution q = process(common);
  if (q.size() == std::ssize(*targets_)) {
    q.tokens = targets_;
    return q;
  }
  Tokens tokens(q.tokens->size());
  std::ranges::transform(*q.tokens, tokens.begin(), [&](Token at) { return (*targets_)[at]; });
  q.tokens = std::make_shared<const Tokens>(std::move(tokens));
  return q;
}

bool TokenIntersection::covers(int64_t size) const {
  return size == std::ssize(*targets_) && size == draft_size_;
}

}  // namespace edgespec
