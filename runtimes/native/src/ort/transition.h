// What each token adds to a block draft's logits of the token after it.
#pragma once

#include <vector>

#include "core/model.h"
#include "ort/graph.h"

namespace edgespec {

class Transition {
 public:
  Transition(const Graph& graph, int64_t vocab_size);

  // A row of logits after this token; valid until the next call.
  Rows added_to(Row logits, Token token);

 private:
  const Graph& graph_;
  std::vector<float> added_, sum_;
};

}  // namespace edgespec
