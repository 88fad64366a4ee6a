// The border to C: no exception crosses it.
#pragma once

#include <new>
#include <string>

#include "core/error.h"
#include "edgespec.h"

namespace edgespec {

// Why the thread's latest call failed.
inline std::string& message_of_thread() {
  thread_local std::string message;
  return message;
}

// Runs a function; what it throws becomes a status and the thread's message.
template <typename Function>
edgespec_status guarded(Function function) noexcept {
  const auto failed = [](edgespec_status status, const char* why) {
    message_of_thread() = why;
    return status;
  };
  try {
    function();
    return EDGESPEC_OK;
  } catch (const CancelledError& error) {
    return failed(EDGESPEC_CANCELLED, error.what());
  } catch (const UsageError& error) {
    return failed(EDGESPEC_USAGE, error.what());
  } catch (const std::bad_alloc&) {
    return failed(EDGESPEC_ERROR,
                  "there is no memory left; close other programs or give less "
                  "capacity");
  } catch (const std::exception& error) {
    return failed(EDGESPEC_ERROR, error.what());
  }
}

// Throws UsageError if a pointer that a function needs is null.
inline void require(const void* pointer, const char* name) {
  if (pointer == nullptr) {
    throw UsageError(std::string(name) + " is NULL; give an address");
  }
}

}  // namespace edgespec
