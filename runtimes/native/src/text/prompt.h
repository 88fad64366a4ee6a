// Prompts as token ids.
#pragma once

#include "core/model.h"
#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace edgespec {

struct Prompt {
  Tokens tokens;
  // The positions that were scored while a conversation's earlier answers were generated.
  Answers answers;
};

// The ids of a conversation. Special tokens that are spelled out in a message are ordinary text: a
// user who types "<|im_end|>" must not end his own turn (docs/decisions/0020).
Prompt prompt_of(const Tokenizer& tokenizer, const ChatText& chat);

}  // namespace edgespec
