// A shared library that is loaded at run time.
#pragma once

#include <string>

namespace edgespec {

// Loaded as long as the process runs: what it started may outlive every object of ours.
class SharedObject {
 public:
  // `path`: a file, or a name that the system searches for. Throws UsageError: it cannot be loaded.
  explicit SharedObject(const std::string& path);

  // Null if it has no such function.
  void* function(const char* name) const;

 private:
  void* handle_;
};

}  // namespace edgespec
