// One text after the other, in caches of its own, each pulled round by round.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/decode.h"
#include "core/options.h"
#include "session/pair.h"

namespace edgespec {

// Who drafts: the draft model, what the text and its prompt have said before, or none.
enum class DraftName { kNone, kModel, kLookup };

enum class RuleName { kDefault, kCoupled, kToken, kBlock };

enum class TextForm { kNone, kGoesOn, kAlone };

// How a text is generated.
struct Request {
  Tokens prompt;
  Sampling sampling;
  LogitEdits edits;
  // What the tokens are decoded to: no text, one that goes on from the prompt's, or one alone.
  TextForm text = TextForm::kNone;
  std::vector<std::string> stop;  // strings that end the text; they are no part of it
  Tokens stop_tokens;             // end the text, as the model's own do
  bool ignore_eos = false;        // go on after an end-of-text token
  int64_t max_new_tokens = -1;    // -1: up to the end of the text or of the cache
  bool logprobs = false;          // report the target's log-probability of each token
  std::optional<uint64_t> seed;   // none: a new one
  // The model where the pair has one, else lookup; none decodes plainly.
  DraftName draft = DraftName::kModel;
  int64_t gamma = 4;  // tokens drafted a round
  RuleName rule = RuleName::kDefault;
};

// Why a text ended.
enum class Ending { kNone, kEos, kStop, kMaxTokens, kCapacity };

// A piece of a text: one round, or its end.
struct Piece {
  Round round;
  std::vector<double> logprobs;   // of its tokens, if asked for
  Ending ending = Ending::kNone;  // kNone: the text goes on
  std::string text;               // what became final with it, if a text is wanted
};

// A text that is being made in a session's caches.
class Text;

// Used by one thread at a time; `cancel` by any.
class Session {
 public:
  explicit Session(std::shared_ptr<const Pair> pair);
  ~Session();

  const Pair& pair() const { return *pair_; }
  // Begins a text; one that has not ended is dropped. Returns its seed. Throws UsageError: an
  // option is out of its range, or the prompt is empty or too long.
  uint64_t begin(Request request);
  // The next round, then the end. Throws UsageError: no text was begun. CancelledError.
  Piece next();
  // Ends the text that is being made, at its next call of a model. Another may begin.
  void cancel() { cancelled_ = true; }

 private:
  std::shared_ptr<const Pair> pair_;
  std::atomic<bool> cancelled_ = false;
  std::unique_ptr<OrtModel> target_;
  std::unique_ptr<OrtModel> draft_;  // made when a text first drafts
  std::unique_ptr<Text> text_;
};

}  // namespace edgespec
