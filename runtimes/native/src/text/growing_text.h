// The text of the tokens so far, released as soon as no later token can change it.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace edgespec {

// The beginning of a character, and what may be the beginning of a stop string, are held back.
class GrowingText {
 public:
  // stop: strings that end the text; they are not part of it. before: tokens of the prompt that the
  // text continues, so that both together are the decoding of all tokens. Without them the text
  // stands alone, and a decoder may drop its first space.
  GrowingText(const Tokenizer& tokenizer, std::vector<std::string> stop, const Tokens& before);

  // Appends the text that becomes final with this token, possibly none.
  void add(Token token, std::string& text);
  // Appends what was held back, once no token follows.
  void end(std::string& text);
  // A stop string came.
  bool stopped() const { return stopped_; }

 private:
  std::string decode_new(bool last);
  Tokens last_of(const Tokens& before) const;
  void release(const std::string& text, std::string& released);

  const Tokenizer& tokenizer_;
  std::vector<std::string> stop_;
  Tokens tokens_;
  size_t final_;         // number of tokens whose text is final
  size_t context_ = 0;   // index of the first token that is decoded again, for the spaces
  std::string pending_;  // final text that may begin a stop string
  bool stopped_ = false;
};

}  // namespace edgespec
