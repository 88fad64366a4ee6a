// Sessions in files: whole or not at all, and for the folder, formats and kernels that they are of.
#pragma once

#include <filesystem>
#include <memory>

#include "session/session.h"

namespace edgespec {

// Writes a session to a file, which is replaced if it is there. Throws Error: it cannot be written;
// then there is no part of it.
void save(Session& session, const std::filesystem::path& given);

// The session of a file. Throws Error: it cannot be read, is damaged, or is of another folder,
// format or version.
std::unique_ptr<Session> load_session(std::shared_ptr<const Pair> pair,
                                      const std::filesystem::path& file);

}  // namespace edgespec
