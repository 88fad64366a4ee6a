// Prompts as token ids.
#pragma once

#include "text/chat_format.h"
#include "text/tokenizer.h"

namespace edgespec {

// The ids of a conversation. Special tokens that are spelled out in a message are ordinary text: a
// user who types "<|im_end|>" must not end his own turn (docs/decisions/0020).
Tokens chat_tokens(const Tokenizer& tokenizer, const ChatText& chat);

}  // namespace edgespec
