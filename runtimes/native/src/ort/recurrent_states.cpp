#include "ort/recurrent_states.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <set>
#include <stdexcept>

#include "core/error.h"
#include "core/model.h"

namespace edgespec {
namespace {

constexpr int64_t kMostSlots = 5;    // of a sequence
constexpr int64_t kRecentRows = 64;  // positions whose inputs are kept
// One slot is kept for each of the latest so many positions: a draft rewinds by as many one-row
// calls as tokens were rejected.
constexpr int64_t kBlock = kMaxRows - 1;

// After how many rows of a call its states are written. A long call's rows are not kept but the
// states after those that are not rewound in part.
int64_t certain_rows(int64_t rows, int64_t count, int64_t certain) {
  if (rows <= kMaxRows) return 0;
  return rows - certain <= kMaxRows ? certain : count;
}

LayerStates layer_states(const OrtRuntime& runtime, const StateShape& shape, size_t layer,
                         int64_t sequences) {
  const int64_t slots = 1 + sequences * kMostSlots;
  const std::string number = "." + std::to_string(layer);
  LazyZeros states(size_t(slots * shape.state) * sizeof(float));
  LazyZeros rows(size_t(sequences * kRecentRows * shape.row) * sizeof(float));
  const auto tensor = [&](const LazyZeros& memory, const std::vector<int64_t>& sizes) {
    return tensor_over(runtime, memory.data(), memory.bytes(), sizes,
                       ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  };
  auto all_states = tensor(states, {slots, shape.state});
  auto all_rows = tensor(rows, {sequences, kRecentRows, shape.row});
  LayerStates made{.past_state = "past_state" + number,
                   .present_state = "present_state" + number,
                   .past_rows = "past_rows" + number,
                   .present_rows = "present_rows" + number,
                   .shape = shape,
                   .states = std::move(states),
                   .rows = std::move(rows),
                   .slots = {},
                   .all_states = std::move(all_states),
                   .all_rows = std::move(all_rows)};
  for (int64_t slot = 0; slot < slots; ++slot) {
    made.slots.push_back(tensor_over(runtime, made.state(slot), made.state_bytes(),
                                     {1, shape.state}, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT));
  }
  return made;
}

}  // namespace

float* LayerStates::state(int64_t slot) const {
  return static_cast<float*>(states.data()) + slot * shape.state;
}

float* LayerStates::recent(int64_t sequence) const {
  return static_cast<float*>(rows.data()) + sequence * kRecentRows * shape.row;
}

uint64_t LayerStates::recent_bytes() const {
  return uint64_t(kRecentRows) * shape.row * sizeof(float);
}

uint64_t state_bytes(const Exported& exported) {
  uint64_t numbers = 0;
  for (const auto& [state, row] : exported.states) {
    numbers += (1 + kMostSlots) * state + kRecentRows * row;
  }
  return numbers * sizeof(float);
}

std::vector<LayerStates> make_states(const OrtRuntime& runtime, const Exported& exported,
                                     int64_t sequences) {
  std::vector<LayerStates> layers;
  try {
    for (const StateShape& shape : exported.states) {
      layers.push_back(layer_states(runtime, shape, layers.size(), sequences));
    }
  } catch (const std::bad_alloc&) {
    throw UsageError("there is no memory for the states of recurrent layers; take a smaller model");
  }
  return layers;
}

void RecurrentStates::Recent::rewind(int64_t length) {
  if (length < start) start = end = length;
  end = std::min(end, length);
}

void RecurrentStates::Recent::overwrite(int64_t first, int64_t stop) {
  rewind(first);
  start = std::max(start, stop - kRecentRows);
  end = std::max(end, start);
}

void RecurrentStates::Recent::written(int64_t first, int64_t stop) {
  if (end < first) start = first;
  end = stop;
}

RecurrentStates::RecurrentStates(std::vector<LayerStates>& layers, int64_t number, int64_t start)
    : layers_(layers), number_(number), start_(start), first_slot_(1 + number * kMostSlots) {}

void RecurrentStates::rewind(int64_t length) {
  std::erase_if(slots_, [&](const Slot& slot) { return slot.length > length; });
  recent_.rewind(length);
}

std::optional<StateStep> RecurrentStates::step(int64_t length, int64_t rows, int64_t count,
                                               int64_t certain) const {
  const int64_t kept = length + certain_rows(rows, count, certain);
  const int64_t most = kRecentRows - (length + rows - kept);
  std::vector<Slot> sources = known();
  std::ranges::stable_sort(sources, std::ranges::greater(), &Slot::length);
  for (const Slot& source : sources) {
    const int64_t again = length - source.length;
    if (again != 0 && !(again <= most && recent_.has(source.length, length))) continue;
    return StateStep{start_,        number_, source.number, free_slot(source.number),
                     source.length, length,  rows,          count,
                     kept};
  }
  return std::nullopt;
}

int64_t RecurrentStates::reach(int64_t length) const {
  int64_t furthest = 0;
  for (const Slot& slot : known()) {
    int64_t reach = slot.length;
    if (recent_.has(reach, reach)) {
      reach = std::min(recent_.end, reach + kRecentRows - kMaxRows);
    }
    furthest = std::max(furthest, std::min(reach, length));
  }
  return furthest;
}

void RecurrentStates::copy(const RecurrentStates& other, int64_t length) {
  rewind(0);
  const Slot* source = nullptr;
  for (const Slot& slot : other.slots_) {
    if (slot.length <= length && (source == nullptr || source->length < slot.length)) {
      source = &slot;
    }
  }
  if (source == nullptr) return;
  const int64_t target = free_slot(0);
  for (const LayerStates& layer : layers_) {
    std::memcpy(layer.state(target), layer.state(source->number), layer.state_bytes());
    std::memcpy(layer.recent(number_), layer.recent(other.number_), layer.recent_bytes());
  }
  slots_.push_back({target, source->length, source->is_long});
  recent_ = other.recent_;
  recent_.rewind(length);
}

void RecurrentStates::begin(const StateStep& step) {
  std::erase_if(slots_, [&](const Slot& slot) { return slot.number == step.target; });
  if (step.keeps_rows()) recent_.overwrite(step.kept, step.length + step.rows);
}

void RecurrentStates::end(const StateStep& step) {
  slots_.push_back({step.target, step.kept, step.kept > step.length});
  if (step.keeps_rows()) recent_.written(step.kept, step.length + step.count);
}

void RecurrentStates::archive(Archive& archive, int64_t length) {
  archive(slots_, recent_.start, recent_.end);
  if (archive.reads()) {
    std::set<int64_t> numbers;
    for (const Slot& slot : slots_) {
      numbers.insert(slot.number);
      archive.check(is_own(slot.number) && 0 <= slot.length && slot.length <= length);
    }
    archive.check(numbers.size() == slots_.size());
    archive.check(0 <= recent_.start && recent_.start <= recent_.end && recent_.end <= length &&
                  recent_.end - recent_.start <= kRecentRows);
  }
  for (const LayerStates& layer : layers_) {
    for (const Slot& slot : slots_) archive.bytes(layer.state(slot.number), layer.state_bytes());
    archive.bytes(layer.recent(number_), layer.recent_bytes());
  }
}

std::vector<RecurrentStates::Slot> RecurrentStates::known() const {
  std::vector<Slot> all = {{0}};
  all.insert(all.end(), slots_.begin(), slots_.end());
  return all;
}

// A slot to write, other than `source`.
int64_t RecurrentStates::free_slot(int64_t source) const {
  for (int64_t number = first_slot_; is_own(number); ++number) {
    if (std::ranges::find(slots_, number, &Slot::number) == slots_.end()) return number;
  }
  for (const Slot& slot : by_worth()) {
    if (slot.number != source) return slot.number;
  }
  throw std::logic_error("a sequence has more than one slot");
}

// The slots, those first that are missed least: a block's second, older ends of prompts.
std::vector<RecurrentStates::Slot> RecurrentStates::by_worth() const {
  std::vector<Slot> all = slots_, ordered, is_short, is_long;
  std::ranges::stable_sort(all, std::ranges::less(), &Slot::length);
  for (const Slot& slot : all) (slot.is_long ? is_long : is_short).push_back(slot);
  std::set<int64_t> blocks;
  for (const Slot& slot : is_short) {
    if (!blocks.insert(slot.length / kBlock).second) ordered.push_back(slot);
  }
  if (!is_long.empty()) ordered.insert(ordered.end(), is_long.begin(), is_long.end() - 1);
  ordered.insert(ordered.end(), is_short.begin(), is_short.end());
  ordered.insert(ordered.end(), all.begin(), all.end());
  return ordered;
}

bool RecurrentStates::is_own(int64_t slot) const {
  return first_slot_ <= slot && slot < first_slot_ + kMostSlots;
}

}  // namespace edgespec
