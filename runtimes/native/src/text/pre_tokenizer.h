// How a text is cut into the words that become tokens each on its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/parts.h"

namespace edgespec {

// A part of a text between added tokens.
struct Word {
  std::u32string text;
  bool is_first;  // it begins where the whole text does
};
using Words = std::vector<Word>;

class PreTokenizer {
 public:
  // Of tokenizer.json's "pre_tokenizer"; null leaves a text whole. Throws Error: the name of what
  // is not known here.
  explicit PreTokenizer(const Json& part);

  Words operator()(Word text) const;

 private:
  using Step = std::function<Words(Words)>;
  void add(const Json& part);
  void add_byte_level(const Json& part);
  void add_metaspace(const Json& part);

  std::vector<Step> steps_;
};

}  // namespace edgespec
