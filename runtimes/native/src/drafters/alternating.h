// Several drafters for one text: in each round, the one with the largest expected speed-up.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/controller.h"
#include "core/draft.h"

namespace edgespec {

// A drafter and a γ controller in one; each drafter is judged by its own acceptance rate.
//
// Which one drafts depends only on the text so far and on earlier rounds, so the text keeps the
// target's distribution. Prompt lookup costs nothing but often has no proposal: it drafts where it
// has one and was right lately; elsewhere the model drafts.
class AlternatingDrafter : public Drafter, public Controller {
 public:
  struct Part {
    std::shared_ptr<Drafter> drafter;
    std::shared_ptr<Judged> gamma;
  };

  // Of equal expected speed-ups, the first wins.
  explicit AlternatingDrafter(std::vector<Part> parts) : parts_(std::move(parts)) {}

  void begin(const Tokens& prompt) override;
  Requests<Proposal> propose(const Tokens& sequence, int64_t gamma,
                             Randomness& randomness) override;
  void archive(Archive& archive, const Tokens& sequence) override;

  // The largest γ of any drafter.
  int64_t gamma() override;
  void observe(int64_t drafted, int64_t evaluated, int64_t accepted, int64_t candidates) override;
  void archive(Archive& archive) override;

 private:
  std::vector<Part> parts_;
  const Judged* proposer_ = nullptr;  // of the drafter that proposed in this round
};

}  // namespace edgespec
