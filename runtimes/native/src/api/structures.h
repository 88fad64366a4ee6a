// The structures of edgespec.h: which part of them a caller has, and what they say.
#pragma once

#include "edgespec.h"
#include "session/memory_estimate.h"
#include "session/session.h"

namespace edgespec {

LoadOptions load_options_of(const edgespec_load_options* given);
Request request_of(Tokens prompt, const edgespec_options* given);
// The same for a text, and for a conversation.
Request text_request(const Pair& pair, const char* prompt, const edgespec_options* given);
Request chat_request(const Pair& pair, const edgespec_turn* turns, size_t count,
                     const edgespec_options* given);
// What is asked of a transcript, and who drafts for it, with which seed.
TranscriptOptions transcript_options_of(const edgespec_transcript_options* given);
Request drafting_request(const edgespec_transcript_options* given);
Tokens tokens_of(const int64_t* tokens, size_t count);
std::vector<Message> messages_of(const edgespec_turn* turns, size_t count);
void fill(edgespec_memory* memory, const MemoryEstimate& estimate);
// Throws UsageError: the size is none that this library knows. Before anything is made, since it
// would be lost.
void check_size(const edgespec_piece& piece);
void check_size(const edgespec_segment& segment);
void fill(edgespec_piece* piece, const Piece& made);
void fill(edgespec_segment* segment, const TranscriptPiece& made);

}  // namespace edgespec
