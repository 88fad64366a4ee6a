// The γ of texts that share calls: by how many there are and what calls take.
#pragma once

#include <memory>

#include "costs/load_costs.h"
#include "session/cost_clock.h"

namespace edgespec {

class LoadClock : public CostClock {
 public:
  explicit LoadClock(const Pair& pair);

  // Calls are timed, not rounds.
  std::shared_ptr<Controller> timed(std::shared_ptr<Controller> controller, const Model& target,
                                    const Model* draft) override;
  Load& load() { return load_; }

 protected:
  CostSource& measured(bool with_model) override { return with_model ? model_ : lookup_; }

 private:
  bool has_encoder_;
  Load load_;
  LoadCosts lookup_, model_;
};

}  // namespace edgespec
