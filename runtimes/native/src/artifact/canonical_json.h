// Canonical JSON: all keys sorted, no white space, numbers spelled as in the file.
#pragma once

#include <string>
#include <string_view>

namespace edgespec {

// Of a JSON object, without its key `left_out`. Throws nlohmann's errors: it is no JSON object.
std::string canonical_json(std::string_view text, const std::string& left_out);

// A text as JSON writes it, in quotes.
std::string json_text(const std::string& text);

}  // namespace edgespec
