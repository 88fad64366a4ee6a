// Decodes the texts of windows of sound, plainly or with a draft.
#pragma once

#include <cstdint>

#include "session/cost_clock.h"
#include "session/drafting.h"
#include "session/request.h"
#include "speech/window_drafting.h"

namespace edgespec {

// The beginning of a window's text.
struct TextStart {
  Tokens prompt;        // token ids of the target
  Tokens draft_prompt;  // of the draft, if there is one
  double temperature;
  bool timestamps;  // the text has some
};

// A window's tokens, the one that ends them included, and the sum of their log-probabilities.
struct DecodedText {
  Tokens tokens;
  double logprob = 0;
};

// How often a model was called, and what was drafted.
struct Counts {
  int64_t rounds = 0, drafted = 0, accepted = 0;
};

class WindowDecoding {
 public:
  // `request`: a checked one, of a draft, γ and seed. `draft`: null where no model drafts.
  // `windows`: what windows took with the draft model and without it. All must outlive it.
  WindowDecoding(Request request, const Pair& pair, Model& target, Model* draft, CostClock& clock,
                 WindowDrafting& windows)
      : request_(std::move(request)),
        pair_(pair),
        target_(target),
        draft_(draft),
        clock_(clock),
        windows_(windows) {}

  // A text about the window that the models have heard. Texts of windows share no noise. Throws
  // CancelledError. Error: a model failed, or no token may come.
  DecodedText text(const TextStart& start);
  const Counts& counts() const { return counts_; }

 private:
  DecodedText decoded(const TextStart& start, const Request& request);

  Request request_;
  const Pair& pair_;
  Model& target_;
  Model* draft_;
  CostClock& clock_;
  WindowDrafting& windows_;
  int64_t emitted_ = 0;  // tokens, in other windows or at other temperatures
  Counts counts_;
};

}  // namespace edgespec
