// What a tokenizer makes of a text before it looks for tokens.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/parts.h"

namespace edgespec {

class Normalizer {
 public:
  // Of tokenizer.json's "normalizer"; null changes nothing. Throws Error: the name of what is not
  // known here.
  explicit Normalizer(const Json& part);

  bool changes_nothing() const { return steps_.empty(); }
  std::u32string operator()(std::u32string text) const;

 private:
  using Step = std::function<std::u32string(std::u32string)>;
  void add(const Json& part);

  std::vector<Step> steps_;
};

}  // namespace edgespec
