// The γ of texts that share calls: by how many there are and what calls take.
#pragma once

#include <memory>
#include <optional>

#include "costs/load_costs.h"
#include "session/cost_clock.h"
#include "session/pair.h"

namespace edgespec {

class LoadClock : public CostClock {
 public:
  explicit LoadClock(const Pair& pair);
  LoadClock(const LoadClock&) = delete;

  Gamma gamma(const Request& request, const Model& target, const Model* draft) override;
  Load& load() { return load_; }

 private:
  std::unique_ptr<Controller> after_first(std::unique_ptr<Controller> controller) const;

  const Pair& pair_;
  Load load_;
  FixedCosts guessed_lookup_;
  std::optional<FixedCosts> guessed_model_;
  LoadCosts lookup_, model_;
};

}  // namespace edgespec
