// Where rows of a call stand in a cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/model.h"

namespace edgespec {

// A row sees cache positions start … start + position - 1 and then its own, which is written at
// index ("layouts" in docs/reference/folder-format.md).
struct Layout {
  int64_t start, position, index;
};

// A candidate of a call, and where its row stands.
struct LaidOut {
  Token token;
  Layout layout;
};

// Candidates of a call with `count` tokens in a sequence that begins at index `start` and has
// `length` positions before the call. Their rows come after the tokens'.
std::vector<LaidOut> laid_out(Candidates candidates, int64_t count, int64_t start, int64_t length);

}  // namespace edgespec
