#include "text/growing_text.h"

#include <algorithm>

#include "core/error.h"
#include "text/message_text.h"

namespace edgespec {
namespace {

const std::string kUnfinished = utf8_of({&kReplacement, 1});

// How many bytes at the end of a text may be the beginning of a stop string.
size_t overlap(std::string_view text, std::string_view stop) {
  size_t size = std::min(stop.size() - 1, text.size());
  while (size > 0 && !text.ends_with(stop.substr(0, size))) --size;
  return size;
}

Tokens part(const Tokens& tokens, size_t begin, size_t end) {
  return Tokens(tokens.begin() + begin, tokens.begin() + end);
}

}  // namespace

GrowingText::GrowingText(const Tokenizer& tokenizer, std::vector<std::string> stop,
                         const Tokens& before)
    : tokenizer_(tokenizer),
      stop_(std::move(stop)),
      tokens_(last_of(before)),
      final_(tokens_.size()) {}

void GrowingText::add(Token token, std::string& text) {
  tokens_.push_back(token);
  release(decode_new(false), text);
}

void GrowingText::end(std::string& text) {
  if (stopped_) return;
  release(decode_new(true), text);
  text += pending_;
  pending_.clear();
}

// The text after the final tokens. A decoder may treat the first token of a text differently (drop
// a space), so the previous final tokens are decoded again and their text is cut off.
std::string GrowingText::decode_new(bool last) {
  std::string context = tokenizer_.decode(part(tokens_, context_, final_));
  const std::string whole = tokenizer_.decode(part(tokens_, context_, tokens_.size()));
  if (!whole.starts_with(context)) {  // the prompt ends inside a character
    while (context.ends_with(kUnfinished)) context.resize(context.size() - kUnfinished.size());
  }
  const auto characters = [](const std::string& text) { return characters_of(text).size(); };
  const size_t known = characters(context);
  const bool unfinished = whole.ends_with(kUnfinished) || characters(whole) <= known;
  if (unfinished && !last) return "";
  context_ = final_;
  final_ = tokens_.size();
  const std::u32string all = characters_of(whole);
  return utf8_of(std::u32string_view(all).substr(std::min(known, all.size())));
}

// The last tokens of a prompt, as many as the text after them depends on: from a whole character
// on, and not spaces alone.
Tokens GrowingText::last_of(const Tokens& before) const {
  for (const size_t count : {16, 256}) {
    Tokens last = part(before, before.size() - std::min(count, before.size()), before.size());
    const std::string text = tokenizer_.decode(last);
    if (!trimmed(text).empty() && !text.starts_with(kUnfinished)) return last;
  }
  return before;
}

void GrowingText::release(const std::string& text, std::string& released) {
  pending_ += text;
  size_t first = std::string::npos, held = 0;
  for (const std::string& stop : stop_) {
    first = std::min(first, pending_.find(stop));
    held = std::max(held, overlap(pending_, stop));
  }
  stopped_ = first != std::string::npos;
  const size_t final = stopped_ ? first : pending_.size() - held;
  released += pending_.substr(0, final);
  pending_.erase(0, stopped_ ? std::string::npos : final);
}

}  // namespace edgespec
