// The structures of edgespec.h: which part of them a caller has, and what they say.
#pragma once

#include "edgespec.h"
#include "session/session.h"

namespace edgespec {

LoadOptions load_options_of(const edgespec_load_options* given);
Request request_of(const int64_t* prompt, size_t count, const edgespec_options* given);
void fill(edgespec_piece* piece, const Piece& made);

}  // namespace edgespec
