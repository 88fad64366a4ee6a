#include "batch/scheduler.h"

#include <algorithm>
#include <chrono>

namespace edgespec {
namespace {

constexpr int64_t kReadRows = 64;  // of a call for prompts, while other texts are being written
constexpr int64_t kShared = 16;    // positions of a prompt that are worth waiting for, and copying

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

OrtSequence& sequence_of(const Prefill& prompt) { return static_cast<OrtSequence&>(*prompt.model); }

int64_t rows_of(const SharedRequest& request) {
  return std::ssize(request.sequence->unread()) + std::ssize(request.tokens) +
         std::ssize(request.candidates);
}

bool is_piece(const SharedRequest& request) { return request.wanted == Wanted::kNothing; }

// Whether another text is about to have more of a newcomer's prompt than the newcomer's own cache,
// which has `own` positions of it: enough to wait.
bool reads_more(const LiveText& other, const Prefill& newcomer,
                const std::vector<CachedPosition>& keys, int64_t own) {
  const auto has_enough = [&](const OrtSequence& reader, int64_t wanted) {
    return &reader.batch() == &sequence_of(newcomer).batch() &&
           wanted - std::max(own, reader.computed_length()) >= kShared;
  };
  if (other.is_reading()) {
    const Prefill& prompt = *other.wanted_prompt();
    const auto same = std::ranges::mismatch(*prompt.prompt, *newcomer.prompt).in1;
    return has_enough(sequence_of(prompt), same - prompt.prompt->begin());
  }
  const auto request = other.request();  // its next call computes what is unread
  return request && has_enough(*request->sequence, request->sequence->promised(keys));
}

// The texts of one call and what each gets of it: rows of those that are being written first, then
// rows of prompts.
std::vector<std::pair<LiveText*, SharedRequest>> chosen(const std::vector<LiveText*>& texts) {
  std::vector<std::pair<LiveText*, SharedRequest>> served;
  int64_t room = kSharedRows;
  for (LiveText* text : texts) {
    const SharedRequest request = *text->request();
    if (is_piece(request) || !request.sequence->unread().empty()) continue;
    const int64_t rows = rows_of(request);
    if (rows > room && !served.empty()) continue;
    served.emplace_back(text, request);  // one that has more than a call may have gets its own
    room = std::max<int64_t>(0, room - rows);
  }
  if (!served.empty()) room = std::min(room, kReadRows);
  for (LiveText* text : texts) {
    SharedRequest request = *text->request();
    const int64_t unread = std::ssize(request.sequence->unread());
    if (!is_piece(request) && unread == 0) continue;
    if (!served.empty() && (room == 0 || unread > room)) continue;
    if (is_piece(request)) {
      const int64_t most = std::max<int64_t>(0, room - unread);
      request.tokens = request.tokens.first(std::min<size_t>(request.tokens.size(), most));
      room -= std::ssize(request.tokens);
    }
    room -= unread;
    served.emplace_back(text, request);
  }
  return served;
}

}  // namespace

void Scheduler::remove(const LiveText& text) { std::erase(live_, &text); }

void Scheduler::step() {
  for (LiveText* text : live_) {
    if (text->is_new()) text->start();
    begin_reading(*text);
  }
  std::vector<LiveText*> target, drafts;
  bool is_drafting = false;
  int64_t written = 0;
  for (LiveText* text : live_) {
    const auto request = text->request();
    if (!request) continue;
    const bool is_draft = &request->sequence->batch() != &target_;
    (is_draft ? drafts : target).push_back(text);
    if (!text->is_reading()) {
      ++written;
      is_drafting |= is_draft;
    }
  }
  load_.live = std::max<int64_t>(1, written);
  if (!target.empty() && !is_drafting) call(target, false);
  if (!drafts.empty()) call(drafts, true);
  drop_ended();
}

void Scheduler::drop_ended() {
  for (const LiveText* text : live_) {
    if (text->has_ended()) load_.times.add_text(text->tokens());
  }
  std::erase_if(live_, [](const LiveText* text) { return text->has_ended(); });
}

// Lets a text read its prompt, after what another one has of it was copied. It waits while another
// one is still reading the same.
void Scheduler::begin_reading(LiveText& text) {
  const Prefill* prompt = text.wanted_prompt();
  if (prompt == nullptr || text.is_reading()) return;
  OrtSequence& sequence = sequence_of(*prompt);
  OrtBatch& batch = &sequence.batch() == &target_ ? target_ : *draft_;
  const std::vector<CachedPosition> keys = sequence.position_keys(*prompt->prompt);
  const int64_t own = sequence.kept(keys);
  for (const LiveText* other : live_) {
    if (other != &text && reads_more(*other, *prompt, keys, own)) return;
  }
  OrtSequence* donor = &sequence;
  int64_t length = own;
  for (int64_t number = 0; number < batch.count(); ++number) {
    const int64_t kept = batch.sequence(number).kept(keys);
    if (kept <= length) continue;
    donor = &batch.sequence(number);
    length = kept;
  }
  if (length - own >= kShared) sequence.copy(*donor, length);
  const double began = now();
  text.begin_reading();
  if (&batch != &target_) load_.times.add_draft_reading(now() - began, 1);
}

// One call for as many of the texts as it has rows for.
void Scheduler::call(const std::vector<LiveText*>& texts, bool is_draft) {
  const Served served = chosen(texts);
  compute(served, is_draft);
  std::stable_partition(live_.begin(), live_.end(), [&](const LiveText* text) {
    return std::ranges::none_of(served, [&](const auto& one) { return one.first == text; });
  });
}

void Scheduler::compute(const Served& served, bool is_draft) {
  OrtBatch& batch = is_draft ? *draft_ : target_;
  std::vector<SharedRequest> requests;
  for (const auto& [_, request] : served) requests.push_back(request);
  const int64_t rows = batch.rows(), calls = batch.calls();
  const auto reads = std::ranges::count_if(requests, is_piece);
  const double began = now();
  std::vector<SharedAnswer> answers;
  try {
    answers = batch.compute(requests);
  } catch (...) {
    for (const auto& [text, _] : served) text->fail(std::current_exception());
    return;
  }
  for (size_t i = 0; i < served.size(); ++i) served[i].first->answer(answers[i]);
  const double seconds = now() - began;
  if (reads == 0 && batch.calls() - calls == 1) {
    load_.times.add(batch.rows() - rows, seconds, is_draft);
  } else if (is_draft && reads > 0 && reads == std::ssize(requests)) {
    load_.times.add_draft_reading(seconds, 0);
  }
}

}  // namespace edgespec
