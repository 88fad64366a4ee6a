// Costs of rounds while other texts share the calls, by the clock.
//
// With k texts, a row more for each makes a call of k rows more. So verification costs more than
// for a text alone, drafting costs less, and γ falls by itself as texts come.
// edgespec/scheduler/load_costs.py has the same.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/controller.h"
#include "costs/costs.h"
#include "costs/time_curve.h"

namespace edgespec {

// What calls took, by their number of rows; guesses until then.
class CallTimes {
 public:
  // What calls of 1, 2, … rows take, and what reading its prompt takes a draft for each token of
  // the text, in one unit.
  struct Times {
    std::vector<double> target, draft;
    double reading;
  };

  // `lookup`: guessed costs of rounds without a draft model, for as many rows as calls may have.
  // `draft`: of a drafted token; 0 without a draft model.
  CallTimes(const Costs& lookup, double draft);

  // Reports a call.
  void add(int64_t rows, double seconds, bool is_draft);
  // Reports what it took a draft to read prompts, or pieces of prompts that count as 0.
  void add_draft_reading(double seconds, int64_t prompts);
  // Reports the length of a text at its end.
  void add_text(int64_t tokens);
  // The times, and a number that grows when they change.
  const Times& now();
  int64_t edition() const { return edition_; }

 private:
  double draft_reading() const;

  Times times_;
  TimeCurve target_curve_;
  std::optional<TimeCurve> draft_curve_;
  int64_t calls_ = 0, next_ = 0, edition_ = 0;
  int64_t tokens_ = 0, texts_ = 0, readings_ = 0;
  double reading_seconds_ = 0;
};

// How many texts share calls, and what calls take.
struct Load {
  CallTimes times;
  int64_t live = 1;  // texts that are being written
};

// Costs of a text's rounds with one drafter, in plain steps of all live texts. A drafted token of a
// model also costs its share of reading the prompt.
class LoadCosts : public CostSource {
 public:
  // `longest`: the largest γ. `load` must outlive it.
  LoadCosts(Load& load, int64_t longest, bool uses_model)
      : load_(load), longest_(longest), uses_model_(uses_model) {}

  bool may_change() const override { return true; }
  std::shared_ptr<const Costs> now() override;

 private:
  Load& load_;
  int64_t longest_;
  bool uses_model_;
  std::shared_ptr<const Costs> known_;
  int64_t live_ = 0, edition_ = -1;  // that they are of
};

// Drafts nothing in a text's first round: the first token then comes with the call that reads the
// end of the prompt, where drafting would need a call of the target before it.
class AfterFirst : public Controller {
 public:
  explicit AfterFirst(std::shared_ptr<Controller> controller)
      : controller_(std::move(controller)) {}

  int64_t gamma() override { return is_first_ ? 0 : controller_->gamma(); }
  void observe(int64_t drafted, int64_t evaluated, int64_t accepted, int64_t candidates) override;

 private:
  std::shared_ptr<Controller> controller_;
  bool is_first_ = true;
};

}  // namespace edgespec
