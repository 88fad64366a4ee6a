// Maps token ids between a target and its draft.
//
// A draft may know only some of its target's tokens. It never proposes the others, which does not
// change the text's distribution.
#pragma once

#include <memory>
#include <span>

#include "artifact/manifest.h"
#include "core/sampling.h"

namespace edgespec {

class Vocabulary {
 public:
  virtual ~Vocabulary() = default;
  // The draft's token for one of the target's. A token that the draft lacks is replaced by another:
  // the prediction gets worse, not the text.
  virtual Token to_draft(Token token) const = 0;
  // The target's token for one of the draft's.
  virtual Token to_target(Token token) const = 0;
  // q over token ids of the target, from one row of the draft's logits.
  virtual Distribution distribution(SamplingProcessor& process, Row logits) const = 0;
  // Whether all `size` tokens of the draft are tokens of the target.
  virtual bool covers(int64_t size) const = 0;

  Tokens to_draft(std::span<const Token> tokens) const;
};

// That of an exported pair's draft. Throws Error: its file is damaged, or of a kind that this
// library does not read.
std::unique_ptr<Vocabulary> open_vocabulary(const Manifest& manifest);

}  // namespace edgespec
