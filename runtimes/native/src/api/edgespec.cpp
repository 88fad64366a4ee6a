#include "edgespec.h"

#include <algorithm>
#include <memory>

#include "api/guarded.h"
#include "api/objects.h"
#include "api/structures.h"
#include "core/paths.h"
#include "session/memory_estimate.h"
#include "session/saved_session.h"

namespace edgespec {
namespace {

using SessionInUse = InUse<edgespec_session>;

edgespec_session* opened_session(std::unique_ptr<Session> session) {
  return opened<edgespec_session>(std::move(session));
}

void begin(Session& session, Request request, uint64_t* seed) {
  const uint64_t drawn = session.begin(std::move(request));
  if (seed != nullptr) *seed = drawn;
}

}  // namespace
}  // namespace edgespec

using edgespec::begin;
using edgespec::guarded;
using edgespec::Models;
using edgespec::require;
using edgespec::SessionInUse;
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
    *session = edgespec::opened_session(std::make_unique<edgespec::Session>(pair));
  });
}

void edgespec_close_session(edgespec_session* session) { Sessions::all().close(session); }

edgespec_status edgespec_fork(edgespec_session* session, edgespec_session** fork) {
  return guarded([&] {
    require(fork, "fork");
    *fork = nullptr;
    const SessionInUse in_use(session, "session");
    *fork = edgespec::opened_session(in_use->fork());
  });
}

edgespec_status edgespec_save(edgespec_session* session, const char* file) {
  return guarded([&] {
    require(file, "file");
    const SessionInUse in_use(session, "session");
    edgespec::save(*in_use, edgespec::path_of(file));
  });
}

edgespec_status edgespec_load_session(edgespec_model* model, const char* file,
                                      edgespec_session** session) {
  return guarded([&] {
    require(file, "file");
    require(session, "session");
    *session = nullptr;
    const auto pair = Models::all().open(model, "model")->pair;
    *session = edgespec::opened_session(edgespec::load_session(pair, edgespec::path_of(file)));
  });
}

edgespec_status edgespec_begin(edgespec_session* session, const int64_t* prompt,
                               size_t prompt_count, const edgespec_options* options,
                               uint64_t* seed) {
  return guarded([&] {
    const SessionInUse in_use(session, "session");
    if (prompt_count > 0) require(prompt, "prompt");
    begin(*in_use, edgespec::request_of({prompt, prompt + prompt_count}, options), seed);
  });
}

edgespec_status edgespec_begin_text(edgespec_session* session, const char* prompt,
                                    const edgespec_options* options, uint64_t* seed) {
  return guarded([&] {
    const SessionInUse in_use(session, "session");
    require(prompt, "prompt");
    begin(*in_use, edgespec::text_request(in_use->pair(), prompt, options), seed);
  });
}

edgespec_status edgespec_begin_chat(edgespec_session* session, const edgespec_turn* turns,
                                    size_t turns_count, const edgespec_options* options,
                                    uint64_t* seed) {
  return guarded([&] {
    const SessionInUse in_use(session, "session");
    begin(*in_use, edgespec::chat_request(in_use->pair(), turns, turns_count, options), seed);
  });
}

edgespec_status edgespec_next(edgespec_session* session, edgespec_piece* piece) {
  return guarded([&] {
    require(piece, "piece");
    const SessionInUse in_use(session, "session");
    edgespec::check_size(*piece);
    edgespec::fill(piece, in_use.shown(in_use->next()));
  });
}

edgespec_status edgespec_begin_transcript(edgespec_session* session, const float* samples,
                                          size_t samples_count,
                                          const edgespec_transcript_options* options) {
  return guarded([&] {
    const SessionInUse in_use(session, "session");
    if (samples_count > 0) require(samples, "samples");
    edgespec::Sound sound{{samples, samples + samples_count},
                          edgespec::transcript_options_of(options)};
    in_use->begin_transcript(std::move(sound), edgespec::drafting_request(options));
  });
}

edgespec_status edgespec_next_segment(edgespec_session* session, edgespec_segment* segment) {
  return guarded([&] {
    require(segment, "segment");
    edgespec::check_size(*segment);
    const SessionInUse in_use(session, "session");
    edgespec::fill(segment, in_use.shown(in_use->next_segment()));
  });
}

edgespec_status edgespec_prompt_progress(edgespec_session* session, int64_t* read,
                                         int64_t* to_read) {
  return guarded([&] {
    require(read, "read");
    require(to_read, "to_read");
    const auto open = Sessions::all().open(session, "session");
    *to_read = open->object->signals().to_read;
    *read = open->object->signals().read;
  });
}

void edgespec_cancel(edgespec_session* session) {
  if (const auto open = Sessions::all().find(session)) open->object->cancel();
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
