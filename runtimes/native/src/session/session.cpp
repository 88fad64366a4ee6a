#include "session/session.h"

#include <utility>

#include "core/archive.h"
#include "core/error.h"

namespace edgespec {

Session::Session(std::shared_ptr<const Pair> pair) : pair_(std::move(pair)), clock_(*pair_) {
  if (pair_->is_speech()) {
    transcriber_ = std::make_unique<Transcriber>(*pair_, signals_);
    return;
  }
  target_ = pair_->make_target(signals_.cancelled);
  target_->report_to(signals_);
}

uint64_t Session::begin(Request request) {
  pair_->check_continues_texts();
  request = checked(std::move(request), *pair_);
  text_.reset();
  signals_.cancelled = false;
  const uint64_t seed = *request.seed;
  OrtModel* draft = draft_for(request);
  auto text = std::make_unique<Text>(std::move(request), *pair_, *target_, draft, clock_);
  computed(text->begin());
  text_ = std::move(text);
  return seed;
}

Piece Session::next() {
  if (text_ == nullptr) throw UsageError("no text is being made in this session; begin one first");
  try {
    return computed(text_->next());
  } catch (const Error&) {
    text_.reset();  // it cannot go on
    throw;
  }
}

void Session::begin_transcript(Sound sound, Request request) {
  pair_->check_transcribes();
  signals_.cancelled = false;
  transcriber_->begin(std::move(sound), std::move(request));
}

TranscriptPiece Session::next_segment() {
  pair_->check_transcribes();
  return transcriber_->next();
}

OrtModel* Session::draft_for(const Request& request) {
  if (!uses_model(request)) return nullptr;
  if (draft_ == nullptr) draft_ = pair_->make_draft(*target_, signals_.cancelled);
  return draft_.get();
}

std::unique_ptr<Session> Session::fork() {
  MemoryWriter writer;
  archive(writer);
  auto session = std::make_unique<Session>(pair_);
  MemoryReader reader(writer.written);
  session->archive(reader);
  return session;
}

void Session::check_is_kept() const {
  if (!pair_->is_speech()) return;
  throw UsageError("a session that transcribes cannot be forked or saved; transcribe again");
}

void Session::archive(Archive& archive) {
  check_is_kept();
  target_->archive(archive);
  bool has_draft = draft_ != nullptr, has_text = text_ != nullptr;
  archive(has_draft, has_text);
  if (has_draft) {
    archive.check(pair_->has_draft());
    if (draft_ == nullptr) draft_ = pair_->make_draft(*target_, signals_.cancelled);
    draft_->archive(archive);
  }
  if (!has_text) return;
  Request request = text_ ? text_->request() : Request{};
  archive(request);
  if (archive.reads()) {
    request = checked(std::move(request), *pair_);
    OrtModel* draft = draft_for(request);
    text_ = std::make_unique<Text>(std::move(request), *pair_, *target_, draft, clock_);
  }
  text_->archive(archive);
}

}  // namespace edgespec
