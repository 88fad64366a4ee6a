#include "text/prompt.h"

#include <algorithm>

#include "core/error.h"
#include "text/utf8.h"

namespace edgespec {
namespace {

std::string part(const ChatText& chat, Span span) {
  return utf8_of(std::u32string_view(chat.text).substr(span.begin, span.end - span.begin));
}

// The special tokens that the chat format itself writes: those between the messages.
std::vector<ControlToken> control_tokens(const Tokenizer& tokenizer, const ChatText& chat) {
  std::vector<ControlToken> found;
  size_t begin = 0;
  for (size_t i = 0; i <= chat.contents.size(); ++i) {
    const size_t end = i < chat.contents.size() ? chat.contents[i].begin : chat.text.size();
    const auto text = std::u32string_view(chat.text).substr(begin, end - begin);
    for (const auto& [token, span] : tokenizer.control_tokens(text)) {
      found.push_back({token, {begin + span.begin, begin + span.end}});
    }
    if (i < chat.contents.size()) begin = chat.contents[i].end;
  }
  return found;
}

Tokens chat_tokens(const Tokenizer& tokenizer, const ChatText& chat) {
  const auto in_message = [&](const ControlToken& control) {
    return std::ranges::any_of(chat.contents, [&](const Span& content) {
      return control.span.begin < content.end && content.begin < control.span.end;
    });
  };
  Tokens tokens;
  if (!std::ranges::any_of(tokenizer.control_tokens(chat.text), in_message)) {
    tokens = tokenizer.encode(utf8_of(chat.text), Tokenizer::Special::kSpelled);
  } else {
    size_t at = 0;
    for (const auto& [token, span] : control_tokens(tokenizer, chat)) {
      const Tokens before =
          tokenizer.encode(part(chat, {at, span.begin}), Tokenizer::Special::kText);
      tokens.insert(tokens.end(), before.begin(), before.end());
      tokens.push_back(token);
      at = span.end;
    }
    const Tokens rest =
        tokenizer.encode(part(chat, {at, chat.text.size()}), Tokenizer::Special::kText);
    tokens.insert(tokens.end(), rest.begin(), rest.end());
  }
  return tokens;
}

// A conversation's first characters.
ChatText first(const ChatText& chat, size_t count) {
  ChatText begin;
  begin.text = chat.text.substr(0, count);
  for (const Span& content : chat.contents) {
    if (content.begin >= count) break;
    begin.contents.push_back({content.begin, std::min(content.end, count)});
  }
  return begin;
}

// How many of the tokens are those of the first characters alone.
int64_t tokens_before(const Tokenizer& tokenizer, const ChatText& chat, size_t count,
                      const Tokens& tokens) {
  const Tokens begin = chat_tokens(tokenizer, first(chat, count));
  return std::ranges::mismatch(begin, tokens).in1 - begin.begin();
}

// They begin one before an answer's first token: the prompt's last token was scored to draw that
// one, even if the answer is empty.
std::vector<Range> positions_of_answers(const Tokenizer& tokenizer, const ChatText& chat,
                                        const Tokens& tokens) {
  std::vector<Range> positions;
  int64_t free = 0;
  for (const Span& answer : chat.answers) {
    const int64_t first = std::max(tokens_before(tokenizer, chat, answer.begin, tokens), free + 1);
    const int64_t end = tokens_before(tokenizer, chat, answer.end, tokens);
    positions.push_back({first - 1, std::max(first, end)});
    free = positions.back().end;
  }
  return positions;
}

}  // namespace

Prompt prompt_of(const Tokenizer& tokenizer, const ChatText& chat) {
  const Tokens tokens = chat_tokens(tokenizer, chat);
  if (tokens.empty()) {
    throw UsageError("the chat format writes nothing for these messages; give others");
  }
  return {tokens, positions_of_answers(tokenizer, chat, tokens)};
}

}  // namespace edgespec
