// Walks every branch of the shipped loops on small tables: the distribution of the texts.
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "core/decode.h"
#include "core/sampling.h"
#include "costs/adaptive.h"
#include "device/kernels.h"
#include "drafters/alternating.h"
#include "drafters/model_drafter.h"
#include "drafters/suffix_lookup.h"
#include "edgespec.h"
#include "invariance/measure.h"

using namespace edgespec;

namespace {

// A model whose logits depend on the latest token alone: [vocabulary, vocabulary].
class TableModel : public Model {
 public:
  TableModel(const float* table, int64_t vocabulary) : table_(table), vocabulary_(vocabulary) {}

  int64_t vocab_size() const override { return vocabulary_; }
  int64_t capacity() const override { return 64; }
  int64_t length() const override { return length_; }
  Token prefill(const Tokens& prompt, const Answers&) override {
    length_ = std::ssize(prompt) - 1;
    return prompt.back();
  }
  bool scores_candidates() const override { return true; }
  int64_t candidate_room(int64_t) const override { return vocabulary_ * vocabulary_; }
  Rows score(std::span<const Token> tokens, Candidates candidates) override {
    rows_.clear();
    for (const Token token : tokens) add_row(token);
    for (const auto& [parent, token] : candidates) add_row(row_of_candidate(tokens[parent], token));
    length_ += std::ssize(tokens);
    return {rows_.data(), std::ssize(tokens) + std::ssize(candidates), vocabulary_};
  }
  BestTokens best_tokens(std::span<const Token>, Candidates, int64_t) override { return {}; }
  LikelyTokens likely_tokens(std::span<const Token>) override { return {}; }
  void commit_candidate(size_t) override { ++length_; }
  void rewind(int64_t length) override { length_ = length; }

 protected:
  // Of which token the row after a candidate is.
  virtual Token row_of_candidate(Token /*before*/, Token token) const { return token; }

 private:
  void add_row(Token token) {
    const float* row = table_ + token * vocabulary_;
    rows_.insert(rows_.end(), row, row + vocabulary_);
  }

  const float* table_;
  int64_t vocabulary_;
  int64_t length_ = 0;
  std::vector<float> rows_;
};

// A mistake: the row after a candidate is the one that it was drawn from.
class Misread : public TableModel {
 public:
  using TableModel::TableModel;

 protected:
  Token row_of_candidate(Token before, Token) const override { return before; }
};

// Both models have the same tokens.
class Same : public Vocabulary {
 public:
  Tokens to_draft(std::span<const Token> tokens) const override {
    return {tokens.begin(), tokens.end()};
  }
  Token to_target(Token token) const override { return token; }
  Distribution distribution(SamplingProcessor& process, Row logits) const override {
    return process(logits);
  }
  bool covers(int64_t) const override { return true; }
};

// Answers each draw with every outcome in turn, and multiplies the probabilities of a walk.
class Walker : public Randomness {
 public:
  double probability = 1;

  void begin_round(int64_t) override {}
  bool bernoulli(double yes) override {
    if (yes >= 1 || yes <= 0) return yes > 0;
    return choose({{1, yes}, {0, 1 - yes}}) == 1;
  }
  Token categorical(const Distribution& distribution, int64_t) override {
    std::vector<Outcome> outcomes;
    double total = 0;
    for (const float weight : distribution.probabilities) total += weight;
    for (int64_t i = 0; i < distribution.size(); ++i) {
      const double share = distribution.probabilities[i] / total;
      if (share > 0) outcomes.push_back({(*distribution.tokens)[i], share});
    }
    return choose(outcomes);
  }
  // Whether there is another walk, which it then begins.
  bool next() {
    while (!path_.empty() && ++path_.back().taken == path_.back().outcomes.size()) path_.pop_back();
    at_ = 0;
    probability = 1;
    return !path_.empty();
  }

 private:
  struct Outcome {
    Token value;
    double probability;
  };
  struct Branch {
    std::vector<Outcome> outcomes;
    size_t taken;
  };

  Token choose(const std::vector<Outcome>& outcomes) {
    if (at_ == path_.size()) path_.push_back({outcomes, 0});
    const Branch& branch = path_[at_++];
    probability *= branch.outcomes[branch.taken].probability;
    return branch.outcomes[branch.taken].value;
  }

  std::vector<Branch> path_;
  size_t at_ = 0;
};

// Proposes all other tokens as candidates for each drafted one.
class WithCandidates : public Drafter {
 public:
  WithCandidates(Drafter& draft, int64_t vocabulary) : draft_(draft), vocabulary_(vocabulary) {}

  void begin(const Tokens& prompt) override { draft_.begin(prompt); }
  Requests<Proposal> propose(const Tokens& sequence, int64_t gamma,
                             Randomness& randomness) override {
    Proposal proposal = co_await draft_.propose(sequence, gamma, randomness);
    for (int64_t index = 0; index < std::ssize(proposal.tokens); ++index) {
      for (Token other = 0; other < vocabulary_; ++other) {
        if (other != proposal.tokens[index]) proposal.candidates.push_back({index, other});
      }
    }
    co_return proposal;
  }

 private:
  Drafter& draft_;
  int64_t vocabulary_;
};

// A mistake: whether a drafted token stays depends on the token.
class Peeking : public Drafter {
 public:
  explicit Peeking(Drafter& draft) : draft_(draft) {}

  void begin(const Tokens& prompt) override { draft_.begin(prompt); }
  Requests<Proposal> propose(const Tokens& sequence, int64_t gamma,
                             Randomness& randomness) override {
    Proposal proposal = co_await draft_.propose(sequence, gamma, randomness);
    while (!proposal.tokens.empty() && is_unlikely(proposal)) {
      proposal.tokens.pop_back();
      proposal.q.pop_back();
    }
    co_return proposal;
  }

 private:
  static bool is_unlikely(const Proposal& proposal) {
    return proposal.q.back().of(proposal.tokens.back()) < 0.4;
  }

  Drafter& draft_;
};

// Mistakes that the walk must find.
VerificationResult accepts_all(const Proposal& proposal, TargetDistributions& p, Randomness&,
                               const SamplingTable&) {
  const int64_t drafted = std::ssize(proposal.tokens);
  return {drafted, drafted, p.at(drafted)};
}

VerificationResult corrects_from_p(const Proposal& proposal, TargetDistributions& p,
                                   Randomness& randomness, const SamplingTable& kernels) {
  VerificationResult result = token_rule(proposal, p, randomness, kernels);
  result.next = p.at(result.accepted);
  return result;
}

VerificationResult takes_the_row_before(const Proposal& proposal, TargetDistributions& p,
                                        Randomness& randomness, const SamplingTable& kernels) {
  VerificationResult result = token_rule(proposal, p, randomness, kernels);
  if (result.accepted > 0 && result.accepted == std::ssize(proposal.tokens)) {
    result.next = p.at(result.accepted - 1);
  }
  return result;
}

VerificationResult keeps_one_less(const Proposal& proposal, TargetDistributions& p,
                                  Randomness& randomness, const SamplingTable& kernels) {
  VerificationResult result = block_rule(proposal, p, randomness, kernels);
  if (result.accepted > 1) --result.accepted;
  return result;
}

Rule rule_named(const char* name) {
  constexpr std::pair<const char*, Rule> kRules[] = {{"token", token_rule},
                                                     {"block", block_rule},
                                                     {"accepts all", accepts_all},
                                                     {"corrects from p", corrects_from_p},
                                                     {"takes the row before", takes_the_row_before},
                                                     {"keeps one less", keeps_one_less}};
  for (const auto& [known, rule] : kRules) {
    if (std::strcmp(known, name) == 0) return rule;
  }
  return nullptr;
}

}  // namespace

// Whether measuring finds the candidates of a table model to be exact; those of a misread one are
// not.
extern "C" EDGESPEC_API int32_t edgespec_hook_exact_candidates(const float* table,
                                                               int64_t vocabulary,
                                                               int32_t misread) {
  TableModel right(table, vocabulary);
  Misread wrong(table, vocabulary);
  return measure_row_invariance(misread != 0 ? wrong : right).candidates ? 1 : 0;
}

// The probability of each text of `tokens` tokens, [vocabulary^tokens]; one that ends before, with
// the token `end`, is filled up with it. `rule`: null decodes plainly. Returns the number of walks.
extern "C" EDGESPEC_API int64_t edgespec_hook_walk(const char* rule, const char* drafter,
                                                   int64_t gamma, int64_t tokens,
                                                   int64_t vocabulary, int64_t end,
                                                   const float* target_table,
                                                   const float* draft_table, double* texts) {
  const SamplingTable& kernels = kernels_here().sampling;
  const Tokens prompt = {1, 0, 1, 0};
  Walker walker;
  int64_t walks = 0;
  do {
    TableModel right(target_table, vocabulary), draft(draft_table, vocabulary);
    Misread misread(target_table, vocabulary);
    TableModel& target = std::string_view(drafter) == "misread candidates" ? misread : right;
    SamplingProcessor process(kernels, {.temperature = 1});
    Scoring scoring(target, process, nullptr, false);
    const Decoding how{
        target, prompt, {}, scoring, walker, tokens, [end](Token token) { return token == end; }};
    const Same same;
    const auto model = std::make_shared<ModelDrafter>(draft, process, same, Tokens{end}, Answers{},
                                                      Decision{}, Decision{});
    const auto lookup = std::make_shared<SuffixLookup>(Decision{}, 0.2);
    const auto fixed = std::make_shared<Fixed>(gamma);
    ModelDrafter confident(draft, process, same, {end}, {},
                           [](double probability, int64_t) { return probability > 0.4; }, {});
    Peeking peeking(*model);
    WithCandidates candidates(*model, vocabulary);
    FixedCosts free(Costs(std::vector<double>(gamma + 1, 1), 0, 0));
    AlternatingDrafter both({{lookup, std::make_shared<Adaptive>(free)}, {model, fixed}});
    const std::map<std::string_view, Drafter*> drafters = {{"model", model.get()},
                                                           {"confident model", &confident},
                                                           {"peeking model", &peeking},
                                                           {"candidates", &candidates},
                                                           {"misread candidates", &candidates},
                                                           {"lookup", lookup.get()},
                                                           {"both", &both}};
    Drafter& drafts = *drafters.at(drafter);
    Controller& gammas = &drafts == &both ? static_cast<Controller&>(both) : *fixed;
    std::unique_ptr<Loop> loop;
    if (rule == nullptr) {
      loop = std::make_unique<Plain>(how);
    } else {
      loop = std::make_unique<Speculative>(how, drafts, rule_named(rule), gammas, kernels);
    }
    computed(loop->begin());
    Tokens text;
    while (const auto round = computed(loop->next())) {
      text.insert(text.end(), round->tokens.begin(), round->tokens.end());
    }
    text.resize(tokens, end);
    int64_t index = 0;
    for (const Token token : text) index = index * vocabulary + token;
    texts[index] += walker.probability;
    ++walks;
  } while (walker.next());
  return walks;
}
