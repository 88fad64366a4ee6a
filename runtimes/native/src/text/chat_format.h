// A model's chat format as texts around messages: no template language is needed.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "text/regex.h"

namespace edgespec {

struct Message {
  std::string role, content;
};

// What a model reads before its next answer.
struct ChatText {
  std::u32string text;         // with the format's special tokens; a tokenizer must not add its own
  std::vector<Span> contents;  // the texts of all messages, in order; the rest is the format's
  std::vector<Span> answers;   // those of the model's own messages
};

// docs/reference/folder-format.md describes the fields. In a text, a pattern of strftime between
// U+E000 and U+E001 stands for the date of the request.
struct ChatFormat {
  std::string before, after;
  std::optional<std::string> before_answer, between;
  std::optional<std::string> system, after_system;
  std::vector<std::string> trims, odd;
  std::string hides;
  bool hides_newlines = false;

  // messages: perhaps a system prompt, then user and assistant in turns; a user's is last.
  // Throws UsageError: a conversation that the format does not cover.
  ChatText text(const std::vector<Message>& messages, std::time_t now) const;
};

}  // namespace edgespec
