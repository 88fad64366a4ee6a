#include "edgespec.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "api/guarded.h"
#include "api/handles.h"
#include "api/structures.h"
#include "session/pair.h"
#include "session/saved_session.h"
#include "session/session.h"

struct edgespec_model {
  std::shared_ptr<const edgespec::Pair> pair;
};

struct edgespec_session {
  std::unique_ptr<edgespec::Session> session;
  edgespec::Piece latest;  // owns the tokens that the caller was shown
  std::atomic_flag in_use = ATOMIC_FLAG_INIT;
};

namespace edgespec {
namespace {

using Models = Handles<edgespec_model>;
using Sessions = Handles<edgespec_session>;

// A session while one thread uses it. Throws UsageError: another one does, or it is not open.
class InUse {
 public:
  explicit InUse(edgespec_session* session) : session_(Sessions::all().open(session, "session")) {
    if (session_->in_use.test_and_set(std::memory_order_acquire)) {
      throw UsageError("another thread is using this session; open one for each thread");
    }
  }
  ~InUse() { session_->in_use.clear(std::memory_order_release); }
  InUse(const InUse&) = delete;

  Session& operator*() const { return *session_->session; }
  Session* operator->() const { return session_->session.get(); }
  void show(Piece piece) const { session_->latest = std::move(piece); }
  const Piece& shown() const { return session_->latest; }

 private:
  std::shared_ptr<edgespec_session> session_;
};

edgespec_session* opened(std::unique_ptr<Session> session) {
  auto made = std::make_shared<edgespec_session>();
  made->session = std::move(session);
  return Sessions::all().add(std::move(made));
}

void begin(Session& session, Request request, uint64_t* seed) {
  const uint64_t drawn = session.begin(std::move(request));
  if (seed != nullptr) *seed = drawn;
}

}  // namespace
}  // namespace edgespec

using edgespec::begin;
using edgespec::guarded;
using edgespec::InUse;
using edgespec::Models;
using edgespec::require;
using edgespec::Sessions;

extern "C" {

uint32_t edgespec_abi() { return EDGESPEC_ABI; }

const char* edgespec_version() { return EDGESPEC_VERSION; }

const char* edgespec_message() { return edgespec::message_of_thread().c_str(); }

edgespec_status edgespec_estimate(const char* folder, const edgespec_load_options* options,
                                  edgespec_memory* memory) {
  return guarded([&] {
    require(folder, "folder");
    require(memory, "memory");
    edgespec::fill(memory, edgespec::estimated_memory(folder, edgespec::load_options_of(options)));
  });
}

edgespec_status edgespec_load(const char* folder, const edgespec_load_options* options,
                              edgespec_model** model) {
  return guarded([&] {
    require(folder, "folder");
    require(model, "model");
    *model = nullptr;
    auto pair = std::make_shared<const edgespec::Pair>(folder, edgespec::load_options_of(options));
    *model = Models::all().add(std::make_shared<edgespec_model>(edgespec_model{std::move(pair)}));
  });
}

void edgespec_close(edgespec_model* model) { Models::all().close(model); }

edgespec_status edgespec_open_session(edgespec_model* model, edgespec_session** session) {
  return guarded([&] {
    require(session, "session");
    *session = nullptr;
    const auto pair = Models::all().open(model, "model")->pair;
    *session = edgespec::opened(std::make_unique<edgespec::Session>(pair));
  });
}

void edgespec_close_session(edgespec_session* session) { Sessions::all().close(session); }

edgespec_status edgespec_fork(edgespec_session* session, edgespec_session** fork) {
  return guarded([&] {
    require(fork, "fork");
    *fork = nullptr;
    const InUse in_use(session);
    *fork = edgespec::opened(in_use->fork());
  });
}

edgespec_status edgespec_save(edgespec_session* session, const char* file) {
  return guarded([&] {
    require(file, "file");
    const InUse in_use(session);
    edgespec::save(*in_use, file);
  });
}

edgespec_status edgespec_load_session(edgespec_model* model, const char* file,
                                      edgespec_session** session) {
  return guarded([&] {
    require(file, "file");
    require(session, "session");
    *session = nullptr;
    const auto pair = Models::all().open(model, "model")->pair;
    *session = edgespec::opened(edgespec::load_session(pair, file));
  });
}

edgespec_status edgespec_begin(edgespec_session* session, const int64_t* prompt,
                               size_t prompt_count, const edgespec_options* options,
                               uint64_t* seed) {
  return guarded([&] {
    const InUse in_use(session);
    if (prompt_count > 0) require(prompt, "prompt");
    begin(*in_use, edgespec::request_of({prompt, prompt + prompt_count}, options), seed);
  });
}

edgespec_status edgespec_begin_text(edgespec_session* session, const char* prompt,
                                    const edgespec_options* options, uint64_t* seed) {
  return guarded([&] {
    const InUse in_use(session);
    require(prompt, "prompt");
    auto request = edgespec::request_of(in_use->pair().text_prompt(prompt), options);
    request.text = edgespec::TextForm::kGoesOn;
    begin(*in_use, std::move(request), seed);
  });
}

edgespec_status edgespec_begin_chat(edgespec_session* session, const edgespec_turn* turns,
                                    size_t turns_count, const edgespec_options* options,
                                    uint64_t* seed) {
  return guarded([&] {
    const InUse in_use(session);
    const auto messages = edgespec::messages_of(turns, turns_count);
    edgespec::Prompt prompt = in_use->pair().chat_prompt(messages);
    auto request = edgespec::request_of(std::move(prompt.tokens), options);
    request.answers = std::move(prompt.answers);
    request.text = edgespec::TextForm::kAlone;
    begin(*in_use, std::move(request), seed);
  });
}

edgespec_status edgespec_next(edgespec_session* session, edgespec_piece* piece) {
  return guarded([&] {
    require(piece, "piece");
    const InUse in_use(session);
    in_use.show(in_use->next());
    edgespec::fill(piece, in_use.shown());
  });
}

edgespec_status edgespec_prompt_progress(edgespec_session* session, int64_t* read,
                                         int64_t* to_read) {
  return guarded([&] {
    require(read, "read");
    require(to_read, "to_read");
    const auto open = Sessions::all().open(session, "session");
    *to_read = open->session->signals().to_read;
    *read = open->session->signals().read;
  });
}

void edgespec_cancel(edgespec_session* session) {
  if (const auto open = Sessions::all().find(session)) open->session->cancel();
}

edgespec_status edgespec_encode(const edgespec_model* model, const char* text, int64_t* tokens,
                                size_t room, size_t* count) {
  return guarded([&] {
    require(text, "text");
    require(count, "count");
    if (room > 0) require(tokens, "tokens");
    const edgespec::Tokens found = Models::all().open(model, "model")->pair->text_prompt(text);
    *count = found.size();
    std::copy_n(found.begin(), std::min(room, found.size()), tokens);
  });
}

edgespec_status edgespec_decode(const edgespec_model* model, const int64_t* tokens,
                                size_t tokens_count, char* text, size_t room, size_t* bytes) {
  return guarded([&] {
    require(bytes, "bytes");
    if (room > 0) require(text, "text");
    const auto open = Models::all().open(model, "model");
    const std::string found =
        open->pair->tokenizer().decode(edgespec::tokens_of(tokens, tokens_count));
    *bytes = found.size();
    std::copy_n(found.begin(), std::min(room, found.size()), text);
  });
}
}
