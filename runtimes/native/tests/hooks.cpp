// Functions of the core, for tests/native: what the interface does not show.
//
// A hook returns null, or why it failed.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "api/structures.h"
#include "artifact/canonical_json.h"
#include "artifact/sha256.h"
#include "core/error.h"
#include "core/options.h"
#include "core/randomness.h"
#include "core/sampling.h"
#include "core/shown.h"
#include "core/verification.h"
#include "costs/adaptive.h"
#include "costs/load_costs.h"
#include "device/kernels.h"
#include "device/machine.h"
#include "drafters/suffix_lookup.h"
#include "edgespec.h"
#include "ort/ort_batch.h"
#include "ort/prefill.h"

using namespace edgespec;

namespace {

// Rows of p that are all there.
class Given : public TargetDistributions {
 public:
  std::vector<Distribution> rows;
  const Distribution& at(int64_t row) override { return rows[row]; }
};

// The hash of edgespec/core/position_noise.py, of which the recorded logits are made.
uint32_t mixed(uint32_t token, uint32_t a, uint32_t b) {
  uint32_t h = token ^ a;
  h = (h ^ h >> 17) * 0xED5AD4BBu;
  h = (h ^ h >> 11) + b;
  h *= 0xAC4C1B51u;
  h = (h ^ h >> 15) * 0x31848BABu;
  return h ^ h >> 14;
}

using Logits = std::vector<float>;

// 0 to 8 in steps of 1/8: 6 bits of a hash each.
Logits logits_of(Seeded& numbers, int64_t vocabulary) {
  const auto key = uint32_t(std::floor(numbers.uniform() * 0x1p32));
  Logits row(vocabulary);
  for (int64_t token = 0; token < vocabulary; ++token) {
    row[token] = float(mixed(uint32_t(token), key, key) >> 26) / 8;
  }
  return row;
}

// Logits of a target that a draft often agrees with: a third of them are others.
Logits near(const Logits& row, Seeded& numbers) {
  Logits other = logits_of(numbers, std::ssize(row));
  for (size_t token = 0; token < row.size(); ++token) {
    if (token % 3 != 0) other[token] = row[token];
  }
  return other;
}

// The text is the thread's, until its next call.
const char* shown_to_python(const std::string& text) {
  thread_local std::string kept;
  kept = text;
  return kept.c_str();
}

template <typename Function>
const char* failure_of(Function function) {
  try {
    function();
    return nullptr;
  } catch (const std::exception& error) {
    return shown_to_python(error.what());
  }
}

}  // namespace

extern "C" {

EDGESPEC_API double edgespec_hook_uniform(uint64_t seed, int64_t emitted) {
  Seeded numbers(kernels_here().sampling, seed);
  numbers.begin_round(emitted);
  return numbers.uniform();
}

EDGESPEC_API void edgespec_hook_noise_key(uint64_t seed, int64_t position, uint32_t* key) {
  const NoiseKey found = noise_key(seed, position);
  for (size_t i = 0; i < found.size(); ++i) key[i] = found[i];
}

EDGESPEC_API const char* edgespec_hook_target() { return kernels_here().target; }

EDGESPEC_API const char* edgespec_hook_shown_double(double value) {
  return shown_to_python(shown(value));
}

EDGESPEC_API const char* edgespec_hook_shown_text(const char* text) {
  return shown_to_python(shown(std::string_view(text)));
}

EDGESPEC_API const char* edgespec_hook_sha256(const char* bytes, size_t count) {
  return shown_to_python(sha256({bytes, count}));
}

EDGESPEC_API const char* edgespec_hook_canonical_json(const char* text) {
  return shown_to_python(canonical_json(text, "digest"));
}

EDGESPEC_API const char* edgespec_hook_machine(const char* onnxruntime, int threads) {
  return shown_to_python(machine_digest(onnxruntime, threads));
}

// How each position of a prompt is computed: begin, end and is_answer of its call, -1 for short
// ones.
EDGESPEC_API void edgespec_hook_plan(int64_t count, const edgespec_range* answers,
                                     size_t answers_count, int32_t short_answers, int64_t* plan) {
  std::vector<Range> ranges;
  for (size_t i = 0; i < answers_count; ++i) ranges.push_back({answers[i].begin, answers[i].end});
  for (const LongCall& call : plan_prefill(count, ranges, short_answers != 0)) {
    *plan++ = call.begin;
    *plan++ = call.end;
    *plan++ = call.is_answer ? 1 : 0;
  }
}

// Drafted tokens of each round by guesses (no times), or by a clock that these times move. `luck`
// of a round, 0 to 1: which share of its drafted tokens is accepted. `sureness` of a round: the
// draft's probability of each of its tokens, by which a round may end before γ; null: it has γ
// tokens.
EDGESPEC_API void edgespec_hook_gammas(const double* verify, int64_t rows, double draft,
                                       double overhead, double without_overhead, int64_t rounds,
                                       const double* luck, const double* times,
                                       const double* sureness, int64_t* drafted_tokens) {
  const Costs costs({verify, verify + rows}, draft, overhead);
  const Costs without({verify, verify + rows}, 0, without_overhead);
  FixedCosts fixed(costs);
  VerificationTimes verification(without);
  DraftingTimes drafting(costs, without);
  MeasuredCosts measured(costs, verification, &drafting);
  double now = 0, drafted = 0;
  int64_t length = 0;
  CostSource& source = times == nullptr ? static_cast<CostSource&>(fixed) : measured;
  std::shared_ptr<Controller> controller = std::make_shared<Adaptive>(source);
  const Confident* confident = nullptr;
  if (sureness != nullptr) {
    auto made = std::make_shared<Confident>(source);
    confident = made.get();
    controller = std::move(made);
  }
  if (times != nullptr) {
    controller = std::make_shared<Timed>(
        std::move(controller), [&] { return length; }, verification, &drafting,
        [&] { return drafted; }, [&] { return now; });
  }
  for (int64_t i = 0; i < rounds; ++i) {
    const int64_t most = controller->gamma();
    int64_t gamma = confident ? std::min<int64_t>(most, 1) : most;
    double probability = 1;
    while (confident && gamma < most) {
      probability *= sureness[i];
      if (!confident->should_continue(probability, 1 + gamma)) break;
      ++gamma;
    }
    drafted_tokens[i] = gamma;
    const auto accepted = int64_t(luck[i] * double(gamma + 1));
    if (times != nullptr) {
      drafted += double(gamma) * times[2 * i];
      now += double(gamma) * times[2 * i] + double(gamma + 8) * times[2 * i + 1];
    }
    controller->observe(gamma, std::min(accepted + 1, gamma), std::min(accepted, gamma), 0);
    length += accepted + 1;
  }
}

// What lookup proposes after each token of a text that follows a prompt, [count, gamma], filled up
// with -1. `least`: of the first token's probability. `per_row`: of a further token's, for each row
// of the verification; below 0: γ tokens.
EDGESPEC_API void edgespec_hook_lookup(const int64_t* prompt, size_t prompt_count,
                                       const int64_t* text, size_t count, int64_t gamma,
                                       double least, double per_row, int64_t* proposed) {
  Decision worth;
  if (per_row >= 0) {
    worth = [per_row](double probability, int64_t rows) {
      return probability > per_row * double(rows);
    };
  }
  SuffixLookup lookup(worth, least);
  lookup.begin(tokens_of(prompt, prompt_count));
  Seeded draws(kernels_here().sampling, 0);
  Tokens sequence = {prompt[prompt_count - 1]};
  for (size_t i = 0; i < count; ++i) {
    sequence.push_back(text[i]);
    Tokens tokens = computed(lookup.propose(sequence, gamma, draws)).tokens;
    tokens.resize(gamma, -1);
    proposed = std::copy(tokens.begin(), tokens.end(), proposed);
  }
}

// Costs of a text's rounds after each of `count` reports: v(1) … v(17) and c, 18 numbers each.
// `kinds`: 0, a call of the target; 1, of the draft; 2, a draft's reading, of a prompt where its
// number is odd; 3, a text that ended, of so many tokens. `lives`: texts that are being written.
EDGESPEC_API void edgespec_hook_load_costs(const double* verify, double draft, int64_t count,
                                           const int64_t* kinds, const int64_t* numbers,
                                           const double* seconds, const int64_t* lives,
                                           double* found) {
  Load load{CallTimes(Costs({verify, verify + kSharedRows}, 0, 0), draft)};
  LoadCosts costs(load, 16, draft > 0);
  for (int64_t i = 0; i < count; ++i) {
    if (kinds[i] < 2) load.times.add(numbers[i], seconds[i], kinds[i] == 1);
    if (kinds[i] == 2) load.times.add_draft_reading(seconds[i], numbers[i] % 2);
    if (kinds[i] == 3) load.times.add_text(numbers[i]);
    load.live = lives[i];
    const auto now = costs.now();
    found = std::copy(now->verify().begin(), now->verify().end(), found);
    *found++ = now->draft();
  }
}

EDGESPEC_API const char* edgespec_hook_check(const edgespec_options* options, int64_t vocabulary) {
  return failure_of([&] {
    const Request request = request_of({}, options);
    check(request.sampling);
    check(request.edits, vocabulary);
  });
}

// p of a row of logits: writes its tokens and probabilities, and their number.
EDGESPEC_API const char* edgespec_hook_process(const edgespec_options* options, const float* logits,
                                               int64_t vocabulary, int64_t* tokens,
                                               float* probabilities, int64_t* count) {
  return failure_of([&] {
    SamplingProcessor process(kernels_here().sampling, request_of({}, options).sampling);
    const Distribution p = process({logits, static_cast<size_t>(vocabulary)});
    *count = p.size();
    std::copy(p.tokens->begin(), p.tokens->end(), tokens);
    std::copy(p.probabilities.begin(), p.probabilities.end(), probabilities);
  });
}

// A row of logits, changed by the tokens before it.
EDGESPEC_API const char* edgespec_hook_edit(const edgespec_options* options, const int64_t* prompt,
                                            size_t prompt_count, const int64_t* generated,
                                            size_t generated_count, float* logits,
                                            int64_t vocabulary) {
  return failure_of([&] {
    const Request request = request_of(tokens_of(prompt, prompt_count), options);
    LogitEdit edit(request.edits, request.prompt, request.stop_tokens);
    const Row edited = edit({logits, static_cast<size_t>(vocabulary)},
                            Tokens(generated, generated + generated_count));
    std::copy(edited.begin(), edited.end(), logits);
  });
}

// A recorded round: drafted tokens, the number of accepted ones, and the token after them.
EDGESPEC_API const char* edgespec_hook_decision(uint64_t seed, const edgespec_options* options,
                                                int64_t vocabulary, int64_t gamma,
                                                int64_t prompt_tokens, int64_t* decision) {
  return failure_of([&] {
    const SamplingTable& kernels = kernels_here().sampling;
    const Request request = request_of({}, options);
    Seeded numbers(kernels, seed);
    SamplingProcessor process(kernels, request.sampling);
    const bool coupled = request.rule == RuleName::kCoupled;
    const std::unique_ptr<Seeded> draws =
        coupled ? std::make_unique<Coupled>(kernels, seed, prompt_tokens)
                : std::make_unique<Seeded>(kernels, seed);
    draws->begin_round(7);
    Proposal proposal;
    Given p;
    for (int64_t i = 0; i < gamma; ++i) {
      const Logits row = logits_of(numbers, vocabulary);
      proposal.q.push_back(process(row));
      p.rows.push_back(process(near(row, numbers)));
      proposal.tokens.push_back(draws->categorical(proposal.q.back(), i));
    }
    p.rows.push_back(process(logits_of(numbers, vocabulary)));
    const Rule rule = coupled                            ? coupled_rule
                      : request.rule == RuleName::kBlock ? block_rule
                                                         : token_rule;
    const VerificationResult result = rule(proposal, p, *draws, kernels);
    std::copy(proposal.tokens.begin(), proposal.tokens.end(), decision);
    decision[gamma] = result.accepted;
    decision[gamma + 1] = draws->categorical(result.next, result.accepted);
  });
}
}
