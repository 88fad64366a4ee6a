// Merges what live texts wait for into calls of several sequences.
//
//     texts ── requests ──▶ one call of the draft, or of the target ── answers ──▶ texts
//
// A text waits while others draft, so that one call of the target verifies them all. Prompts are
// read in pieces beside the rows of texts that are being written, so that no text stalls.
// edgespec/scheduler/scheduler.py has the same plan.
#pragma once

#include <utility>
#include <vector>

#include "batch/live_text.h"
#include "costs/load_costs.h"
#include "ort/ort_batch.h"

namespace edgespec {

class Scheduler {
 public:
  // `target`, `draft`: whose calls are shared; the draft is null where none is a model. `load`
  // records how many texts are live, and how long calls take. All must outlive it.
  Scheduler(OrtBatch& target, OrtBatch* draft, Load& load)
      : target_(target), draft_(draft), load_(load) {}

  // A text that is made from the next step on, until it is removed.
  void add(LiveText& text) { live_.push_back(&text); }
  void remove(const LiveText& text);
  // Makes one call for the texts that draft, or else one for those that verify and read.
  void step();

 private:
  using Served = std::vector<std::pair<LiveText*, SharedRequest>>;

  void drop_ended();
  void begin_reading(LiveText& text);
  void call(const std::vector<LiveText*>& texts, bool is_draft);
  void compute(const Served& served, bool is_draft);

  OrtBatch& target_;
  OrtBatch* draft_;
  Load& load_;
  std::vector<LiveText*> live_;  // the one that waited longest first
};

}  // namespace edgespec
