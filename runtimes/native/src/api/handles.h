// The handles that callers have: which of them are open.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/error.h"

namespace edgespec {

// Counts the objects of all kinds.
inline uintptr_t next_number() {
  static std::atomic<uintptr_t> latest = 0;
  return ++latest;
}

// The open objects of a kind, by the handles that callers have of them. The only state that the
// library keeps outside of objects: with it a closed handle is an error, not a crash, and an object
// that is closed while another thread uses it lives until that call returns. A handle is a number,
// not an address, which a later object might have again.
template <typename Object>
class Handles {
 public:
  static Handles& all() {
    static auto* all = new Handles;  // never deleted: threads may outlive the process's end
    return *all;
  }

  Object* add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    auto* handle = reinterpret_cast<Object*>(next_number());
    open_[handle] = std::move(object);
    return handle;
  }
  // Null if it is not open.
  std::shared_ptr<Object> find(const Object* handle) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(handle);
    return found == open_.end() ? nullptr : found->second;
  }
  // Throws UsageError: it is null or not open. `name` is the argument's.
  std::shared_ptr<Object> open(const Object* handle, const std::string& name) {
    if (handle == nullptr) throw UsageError(name + " is NULL; give an address");
    if (auto found = find(handle)) return found;
    throw UsageError("the " + name + " is not open; open another");
  }
  void close(const Object* handle) {
    std::shared_ptr<Object> last;  // is freed without the lock
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(handle);
    if (found == open_.end()) return;
    last = std::move(found->second);
    open_.erase(found);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const Object*, std::shared_ptr<Object>> open_;
};

}  // namespace edgespec
