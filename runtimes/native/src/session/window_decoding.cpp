#include "session/window_decoding.h"

#include <chrono>
#include <memory>
#include <optional>

#include "core/decode.h"
#include "core/log_probability.h"
#include "speech/ruled_draft.h"
#include "speech/token_rules.h"

namespace edgespec {

DecodedText WindowDecoding::text(const TextStart& start) {
  Request request = request_;
  request.prompt = start.prompt;
  request.sampling.temperature = start.temperature;
  const bool by_clock = draft_ != nullptr && request.draft == DraftName::kBoth &&
                        request.gamma == kGammaAuto && keeps_text(request, pair_);
  if (!by_clock) return decoded(start, request);
  const bool drafts = windows_.drafts();
  if (!drafts) request.draft = DraftName::kNone;
  const auto began = std::chrono::steady_clock::now();
  DecodedText made = decoded(start, request);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - began;
  windows_.count(drafts, spent.count(), std::ssize(made.tokens));
  return made;
}

DecodedText WindowDecoding::decoded(const TextStart& start, const Request& request) {
  const SamplingTable& kernels = pair_.sampling();
  const Token end = pair_.speech().end;
  SamplingProcessor process(kernels, request.sampling);
  Coupled randomness(kernels, *request.seed, std::ssize(start.prompt) + emitted_);
  TokenRules rules(pair_.speech(), start.timestamps, kernels);
  std::optional<TokenRules> draft_rules;
  std::optional<RuledDraft> draft;
  if (uses_model(request) && draft_ != nullptr) {
    draft_rules.emplace(pair_.draft_speech(), start.timestamps, kernels);
    draft.emplace(*draft_, *draft_rules, start.draft_prompt);
  }
  Scoring score(target_, process, &rules, true);
  const Drafting drafting =
      drafting_of({request, pair_, target_, draft ? &*draft : nullptr, process, {end}, clock_});
  Decoding how{
      target_, start.prompt, std::nullopt, score, randomness, target_.capacity(), [&](Token token) {
        return token == end;
      }};
  std::unique_ptr<Loop> loop;
  if (drafting.drafter) {
    const Rule rule = request.sampling.greedy() ? token_rule : coupled_rule;
    loop = std::make_unique<Speculative>(std::move(how), *drafting.drafter, rule, *drafting.gamma,
                                         kernels);
  } else {
    loop = std::make_unique<Plain>(std::move(how));
  }
  computed(loop->begin());
  DecodedText made;
  while (const auto round = computed(loop->next())) {
    for (size_t i = 0; i < round->tokens.size(); ++i) {
      const Row row = rules(score.logits(round->rows[i]), made.tokens);
      made.logprob += log_probability(row, round->tokens[i], kernels);
      made.tokens.push_back(round->tokens[i]);
    }
    ++counts_.rounds;
    counts_.drafted += round->drafted;
    counts_.accepted += round->accepted;
  }
  emitted_ += std::ssize(made.tokens);
  return made;
}

}  // namespace edgespec
