// The files of an exported folder: recorded in its manifest, and compared with what is there.
#pragma once

#include <filesystem>
#include <string>

#include "artifact/manifest.h"

namespace edgespec {

// Compares a file with its record: graphs and tables by content, weights by size. Throws Error: it
// would be outside the folder, is missing, cut short or another file.
void check_file(const std::filesystem::path& folder, const std::string& name,
                const FileRecord& recorded);

}  // namespace edgespec
