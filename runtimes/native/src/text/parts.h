// What the parts of a tokenizer.json are read with.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "text/regex.h"
#include "text/utf8.h"

namespace edgespec {

using Json = nlohmann::ordered_json;

inline std::u32string characters_in(const Json& part, const char* name) {
  return characters_of(part.at(name).get<std::string>());
}

inline std::string type_of(const Json& part) { return part.at("type").get<std::string>(); }

// A missing flag has its default; null has it, too.
inline bool flag_in(const Json& part, const char* name, bool usually) {
  const auto found = part.find(name);
  return found == part.end() || found->is_null() ? usually : found->get<bool>();
}

// {"String": …} or {"Regex": …}.
inline Regex pattern_in(const Json& part) {
  const Json& pattern = part.at("pattern");
  if (pattern.contains("Regex")) return Regex(characters_in(pattern, "Regex"));
  const std::u32string text = characters_in(pattern, "String");
  if (text.empty()) throw Error("a pattern that is empty");
  return Regex::of_text(text);
}

}  // namespace edgespec
