// What handles stand for.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "api/handles.h"
#include "batch/batch.h"
#include "edgespec.h"
#include "session/session.h"

struct edgespec_model {
  std::shared_ptr<const edgespec::Pair> pair;
};

struct edgespec_session {
  std::unique_ptr<edgespec::Session> object;
  edgespec::Piece latest;  // owns the tokens that the caller was shown
  edgespec::TranscriptPiece latest_segment;
  std::atomic_flag in_use = ATOMIC_FLAG_INIT;
};

struct edgespec_batch {
  std::unique_ptr<edgespec::Batch> object;
  edgespec::Piece latest;
  std::atomic_flag in_use = ATOMIC_FLAG_INIT;
};

namespace edgespec {

using Models = Handles<edgespec_model>;
using Sessions = Handles<edgespec_session>;
using Batches = Handles<edgespec_batch>;

// A session or a batch while one thread uses it.
template <typename Handle>
class InUse {
 public:
  // `name`: the argument's. Throws UsageError: another thread uses it, or it is not open.
  InUse(Handle* handle, const std::string& name)
      : handle_(Handles<Handle>::all().open(handle, name)) {
    if (handle_->in_use.test_and_set(std::memory_order_acquire)) {
      throw UsageError("another thread is using this " + name + "; open one for each thread");
    }
  }
  ~InUse() { handle_->in_use.clear(std::memory_order_release); }
  InUse(const InUse&) = delete;

  auto& operator*() const { return *handle_->object; }
  auto* operator->() const { return handle_->object.get(); }
  // Keeps a piece until the caller's next call.
  const Piece& shown(Piece piece) const { return handle_->latest = std::move(piece); }
  const TranscriptPiece& shown(TranscriptPiece piece) const {
    return handle_->latest_segment = std::move(piece);
  }

 private:
  std::shared_ptr<Handle> handle_;
};

// The handle of a new session or batch.
template <typename Handle, typename Object>
Handle* opened(std::unique_ptr<Object> object) {
  auto made = std::make_shared<Handle>();
  made->object = std::move(object);
  return Handles<Handle>::all().add(std::move(made));
}

}  // namespace edgespec
