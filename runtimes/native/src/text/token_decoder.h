// How the texts of tokens become the text that they stand for.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "text/parts.h"

namespace edgespec {

class TokenDecoder {
 public:
  // Of tokenizer.json's "decoder"; null puts spaces between tokens. Throws Error: the name of what
  // is not known here.
  explicit TokenDecoder(const Json& part);

  std::string operator()(std::vector<std::string> tokens) const;

 private:
  using Step = std::function<void(std::vector<std::string>&)>;
  void add(const Json& part);

  bool is_none_ = false;
  std::vector<Step> steps_;
};

}  // namespace edgespec
