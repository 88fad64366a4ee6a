#include "batch/batch.h"

#include <algorithm>

#include "core/error.h"
#include "core/shown.h"

namespace edgespec {
namespace {

constexpr int64_t kMostTexts = 1024;
constexpr int64_t kWorthKeeping = 16;  // positions of a prompt that decide between caches

std::unique_ptr<OrtBatch> targets_of(const Pair& pair, int64_t texts) {
  if (texts < 1 || texts > kMostTexts) {
    throw UsageError("texts is " + shown(texts) + "; give a whole number from 1 to " +
                     shown(kMostTexts));
  }
  pair.check_may_share();
  return pair.make_targets(texts);
}

}  // namespace

Batch::Batch(std::shared_ptr<const Pair> pair, int64_t texts)
    : pair_(std::move(pair)),
      targets_(targets_of(*pair_, texts)),
      drafts_(pair_->has_draft() ? pair_->make_drafts(*targets_) : nullptr),
      clock_(*pair_),
      scheduler_(*targets_, drafts_.get(), clock_.load()) {
  for (int64_t i = 0; i < texts; ++i) {
    OrtSequence* draft = drafts_ ? &drafts_->sequence(i) : nullptr;
    slots_.push_back(std::make_unique<Slot>(targets_->sequence(i), draft));
  }
}

std::pair<int64_t, uint64_t> Batch::add(Request request) {
  request = checked(std::move(request), *pair_);
  slots_.front()->target.check_prompt(request.prompt);
  Slot& slot = free_slot(request.prompt);
  const uint64_t seed = *request.seed;
  OrtSequence* draft = uses_model(request) ? slot.draft : nullptr;
  slot.text = std::make_unique<LiveText>(std::move(request), *pair_, slot.target, draft, clock_,
                                         slot.signals);
  scheduler_.add(*slot.text);
  const std::lock_guard lock(numbers_);
  slot.signals.cancelled = false;
  slot.signals.read = slot.signals.to_read = 0;
  slot.number = added_++;
  return {slot.number, seed};
}

// A free place whose caches hold most of a prompt, or the one that was not used for the longest
// time.
Batch::Slot& Batch::free_slot(const Tokens& prompt) {
  std::unique_ptr<Slot>* best = nullptr;
  int64_t most = kWorthKeeping - 1;
  for (auto& slot : slots_) {
    if (slot->text != nullptr) continue;
    if (best == nullptr) best = &slot;
    const int64_t kept = slot->target.kept(slot->target.position_keys(prompt));
    if (kept <= most) continue;
    best = &slot;
    most = kept;
  }
  if (best == nullptr) {
    const int64_t count = std::ssize(slots_);
    throw UsageError((count == 1 ? "1 text is" : shown(count) + " texts are") +
                     " being made, as many as there are caches; finish or cancel one first, or "
                     "open a batch for more texts");
  }
  const std::lock_guard lock(numbers_);
  const auto first = slots_.begin() + (best - slots_.data());
  std::rotate(first, first + 1, slots_.end());
  return *slots_.back();
}

std::optional<TextEvent> Batch::next() {
  while (std::ranges::any_of(slots_, [](const auto& slot) { return slot->text != nullptr; })) {
    if (auto event = ready()) return event;
    scheduler_.step();
  }
  return std::nullopt;
}

std::optional<TextEvent> Batch::ready() {
  for (const auto& slot : slots_) {
    if (slot->text == nullptr) continue;
    if (auto event = ready_of(*slot)) return event;
  }
  return std::nullopt;
}

std::optional<TextEvent> Batch::ready_of(Slot& slot) {
  const int64_t number = slot.number;
  try {
    if (slot.signals.cancelled) {
      throw CancelledError("the text was cancelled; begin again when you want it");
    }
    auto piece = slot.text->next_piece();
    if (!piece) return std::nullopt;
    if (piece->ending != Ending::kNone) release(slot);
    return TextEvent{number, *std::move(piece)};
  } catch (...) {
    release(slot);
    return TextEvent{number, std::current_exception()};
  }
}

void Batch::release(Slot& slot) {
  scheduler_.remove(*slot.text);
  slot.text.reset();
  const std::lock_guard lock(numbers_);
  slot.number = -1;
}

void Batch::cancel(int64_t text) {
  const std::lock_guard lock(numbers_);
  for (const auto& slot : slots_) {
    if (slot->number == text && text >= 0) slot->signals.cancelled = true;
  }
}

std::pair<int64_t, int64_t> Batch::progress(int64_t text) {
  const std::lock_guard lock(numbers_);
  for (const auto& slot : slots_) {
    if (slot->number == text && text >= 0) return {slot->signals.read, slot->signals.to_read};
  }
  return {0, 0};
}

}  // namespace edgespec
