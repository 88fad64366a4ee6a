// Values in messages, as Python's repr writes them: the same sentences in every language.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace edgespec {

std::string shown(double value);
std::string shown(int64_t value);

// In quotes, cut to 60 characters.
std::string shown(std::string_view text);
// The same, whole.
std::string repr(std::string_view text);
// A text cut to 60 characters.
std::string shortened(const std::string& text);

}  // namespace edgespec
