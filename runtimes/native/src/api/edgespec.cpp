#include "edgespec.h"

#include <algorithm>
#include <atomic>
#include <memory>

#include "api/guarded.h"
#include "api/structures.h"
#include "session/pair.h"
#include "session/session.h"

struct edgespec_model {
  std::shared_ptr<const edgespec::Pair> pair;
};

struct edgespec_session {
  explicit edgespec_session(const edgespec_model& model) : session(model.pair) {}

  edgespec::Session session;
  edgespec::Piece latest;  // owns the tokens that the caller was shown
  std::atomic_flag in_use = ATOMIC_FLAG_INIT;
};

namespace edgespec {
namespace {

// A session while one thread uses it. Throws UsageError: another one does.
class InUse {
 public:
  explicit InUse(edgespec_session* session) : session_(session) {
    require(session, "session");
    if (session->in_use.test_and_set(std::memory_order_acquire)) {
      throw UsageError("another thread is using this session; open one for each thread");
    }
  }
  ~InUse() { session_->in_use.clear(std::memory_order_release); }
  InUse(const InUse&) = delete;

 private:
  edgespec_session* session_;
};

void begin(edgespec_session* session, Request request, uint64_t* seed) {
  const uint64_t drawn = session->session.begin(std::move(request));
  if (seed != nullptr) *seed = drawn;
}

}  // namespace
}  // namespace edgespec

using edgespec::begin;
using edgespec::guarded;
using edgespec::require;

extern "C" {

uint32_t edgespec_abi() { return EDGESPEC_ABI; }

const char* edgespec_version() { return EDGESPEC_VERSION; }

const char* edgespec_message() { return edgespec::message_of_thread().c_str(); }

edgespec_status edgespec_load(const char* folder, const edgespec_load_options* options,
                              edgespec_model** model) {
  return guarded([&] {
    require(folder, "folder");
    require(model, "model");
    *model = nullptr;
    auto pair = std::make_shared<const edgespec::Pair>(folder, edgespec::load_options_of(options));
    *model = new edgespec_model{std::move(pair)};
  });
}

void edgespec_close(edgespec_model* model) { delete model; }

edgespec_status edgespec_open_session(edgespec_model* model, edgespec_session** session) {
  return guarded([&] {
    require(model, "model");
    require(session, "session");
    *session = nullptr;
    *session = new edgespec_session(*model);
  });
}

void edgespec_close_session(edgespec_session* session) { delete session; }

edgespec_status edgespec_begin(edgespec_session* session, const int64_t* prompt,
                               size_t prompt_count, const edgespec_options* options,
                               uint64_t* seed) {
  return guarded([&] {
    const edgespec::InUse in_use(session);
    if (prompt_count > 0) require(prompt, "prompt");
    begin(session, edgespec::request_of({prompt, prompt + prompt_count}, options), seed);
  });
}

edgespec_status edgespec_begin_text(edgespec_session* session, const char* prompt,
                                    const edgespec_options* options, uint64_t* seed) {
  return guarded([&] {
    const edgespec::InUse in_use(session);
    require(prompt, "prompt");
    auto request = edgespec::request_of(session->session.pair().text_prompt(prompt), options);
    request.text = edgespec::TextForm::kGoesOn;
    begin(session, std::move(request), seed);
  });
}

edgespec_status edgespec_begin_chat(edgespec_session* session, const edgespec_turn* turns,
                                    size_t turns_count, const edgespec_options* options,
                                    uint64_t* seed) {
  return guarded([&] {
    const edgespec::InUse in_use(session);
    const auto messages = edgespec::messages_of(turns, turns_count);
    auto request = edgespec::request_of(session->session.pair().chat_prompt(messages), options);
    request.text = edgespec::TextForm::kAlone;
    begin(session, std::move(request), seed);
  });
}

edgespec_status edgespec_next(edgespec_session* session, edgespec_piece* piece) {
  return guarded([&] {
    require(piece, "piece");
    const edgespec::InUse in_use(session);
    session->latest = session->session.next();
    edgespec::fill(piece, session->latest);
  });
}

void edgespec_cancel(edgespec_session* session) {
  if (session != nullptr) session->session.cancel();
}

edgespec_status edgespec_encode(const edgespec_model* model, const char* text, int64_t* tokens,
                                size_t room, size_t* count) {
  return guarded([&] {
    require(model, "model");
    require(text, "text");
    require(count, "count");
    if (room > 0) require(tokens, "tokens");
    const edgespec::Tokens found = model->pair->text_prompt(text);
    *count = found.size();
    std::copy_n(found.begin(), std::min(room, found.size()), tokens);
  });
}

edgespec_status edgespec_decode(const edgespec_model* model, const int64_t* tokens,
                                size_t tokens_count, char* text, size_t room, size_t* bytes) {
  return guarded([&] {
    require(model, "model");
    require(bytes, "bytes");
    if (room > 0) require(text, "text");
    const std::string found =
        model->pair->tokenizer().decode(edgespec::tokens_of(tokens, tokens_count));
    *bytes = found.size();
    std::copy_n(found.begin(), std::min(room, found.size()), text);
  });
}
}
