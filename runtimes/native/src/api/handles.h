// The handles that callers have: which of them are open.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/error.h"

namespace edgespec {

// The open objects of a kind, by the handles that callers have of them. The only state that the
// library keeps outside of objects: with it a closed handle is an error, not a crash, and an object
// that is closed while another thread uses it lives until that call returns.
template <typename Object>
class Handles {
 public:
  static Handles& all() {
    static auto* all = new Handles;  // never deleted: threads may outlive the process's end
    return *all;
  }

  Object* add(std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    Object* handle = object.get();
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
