// How small zlib makes a text.
#pragma once

#include <cstdint>
#include <string_view>

namespace edgespec {

// The bytes that zlib makes of a text of less than 64 KB at its usual level.
int64_t deflated_size(std::string_view text);

}  // namespace edgespec
