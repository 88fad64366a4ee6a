// How a text is generated, and the checks of what a caller asks for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/options.h"
#include "session/pair.h"

namespace edgespec {

// Who drafts: none; the draft model; lookup of what the text and its prompt have said before; or in
// each round the one of both that is expected to bring more.
enum class DraftName { kNone, kModel, kLookup, kBoth };

// As many drafted tokens as pay, by what rounds take.
constexpr int64_t kGammaAuto = -1;

enum class RuleName { kDefault, kCoupled, kToken, kBlock };

enum class TextForm { kNone, kGoesOn, kAlone };

// How a text is generated.
struct Request {
  Tokens prompt;
  Answers answers;  // in a prompt that is a conversation
  Sampling sampling;
  LogitEdits edits;
  // What the tokens are decoded to: no text, one that goes on from the prompt's, or one alone.
  TextForm text = TextForm::kNone;
  std::vector<std::string> stop;       // strings that end the text; they are no part of it
  Tokens stop_tokens;                  // end the text, as the model's own do
  bool ignore_eos = false;             // go on after an end-of-text token
  int64_t max_new_tokens = -1;         // -1: up to the end of the text or of the cache
  bool logprobs = false;               // report the target's log-probability of each token
  std::optional<uint64_t> seed;        // none: a new one
  DraftName draft = DraftName::kBoth;  // lookup, where the pair has no draft model
  int64_t gamma = kGammaAuto;          // or a number of tokens drafted a round
  RuleName rule = RuleName::kDefault;

  void archive(Archive& archive);
};

// Whether the pair's draft model may run.
bool uses_model(const Request& request);

// The rule that decides a text's tokens. Without a draft only the coupled rule's noise has a say.
RuleName rule_of(const Request& request);

// Whether the text is the same whatever γ is, so that γ may go by the clock.
bool keeps_text(const Request& request, const Pair& pair);

// The request with its checks done, and what follows from it filled in. Throws UsageError: an
// option is out of its range. Error: drafts might change the text.
Request checked(Request request, const Pair& pair);

}  // namespace edgespec
