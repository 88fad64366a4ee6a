// Texts that callers give: prompts, messages, stop strings.
#pragma once

#include <string>
#include <string_view>

namespace edgespec {

// Throws UsageError: it is empty or no UTF-8. `what` names it: "the prompt".
void check_text(std::string_view text, const std::string& what);

// Without spaces around it, as Python's str.strip() leaves it.
std::string trimmed(std::string_view text);

}  // namespace edgespec
