// Changes of rows of logits by the text so far.
#pragma once

#include "core/model.h"

namespace edgespec {

// A change that is part of a text's distribution.
class RowEdit {
 public:
  virtual ~RowEdit() = default;
  // The row that is sampled from, after the tokens generated before it. Valid until the next call.
  virtual Row operator()(Row logits, const Tokens& generated) = 0;
};

}  // namespace edgespec
