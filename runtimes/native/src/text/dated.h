// Dates in texts of a chat format.
#pragma once

#include <ctime>
#include <string>

namespace edgespec {

// The text with its dates: patterns of strftime between U+E000 and U+E001, in English and local
// time. Throws UsageError: a pattern has a part that is not known here.
std::string dated(const std::string& text, std::time_t now);

}  // namespace edgespec
