// A text that is being made in a session's caches, and why it ended.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/decode.h"
#include "core/logit_edit.h"
#include "core/sampling.h"
#include "session/cost_clock.h"
#include "session/drafting.h"
#include "session/request.h"
#include "text/growing_text.h"

namespace edgespec {

// Why a text ended.
enum class Ending { kNone, kEos, kStop, kMaxTokens, kCapacity };

// A piece of a text: one round, or its end.
struct Piece {
  Round round;
  std::vector<double> logprobs;   // of its tokens, if asked for
  Ending ending = Ending::kNone;  // kNone: the text goes on
  std::string text;               // what became final with it, if a text is wanted
};

class Text {
 public:
  // `request`: a checked one. `draft`: null where no model drafts. Both models and the clock must
  // outlive it.
  Text(Request request, const Pair& pair, Model& target, Model* draft, CostClock& clock);

  // Reads the prompt. Either this or `archive` comes first.
  Requests<int64_t> begin();
  Requests<Piece> next();
  Request& request() { return request_; }
  // Where the text is; its models' caches are not part of it, and come before it. Throws Error:
  // what was read does not fit them.
  void archive(Archive& archive);

 private:
  void make_loop(std::optional<Made> made);
  void resume(const Archive& archive, Made made);
  Decoding decoding();
  std::unique_ptr<Randomness> randomness() const;
  Tokens repeated() const;
  Tokens last_tokens() const;
  bool ends(Token token);
  Ending ending() const;

  Request request_;
  const Pair& pair_;
  Model& target_;
  Tokens eos_;
  SamplingProcessor process_;
  std::unique_ptr<Randomness> randomness_;
  LogitEdit edit_;
  Scoring score_;
  Drafting drafting_;
  std::unique_ptr<Loop> loop_;
  std::optional<GrowingText> growing_;
  std::string new_text_;         // became final since the last piece
  Ending last_ = Ending::kNone;  // by the last token
  bool has_ended_ = false;       // the caller has the end
};

}  // namespace edgespec
