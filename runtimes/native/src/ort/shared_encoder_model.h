// Runs a draft that reads its target's encoder.
#pragma once

#include "ort/ort_model.h"

namespace edgespec {

// A decoder whose cross-attention reads what the target's encoder said of the same source.
class SharedEncoderModel : public OrtModel {
 public:
  // `target`: whose encoder it reads; it must have started the same text before.
  SharedEncoderModel(const ModelGraphs& graphs, const Calls& calls, const OrtModel& target);

  void archive(Archive& archive) override;

 protected:
  Source encode(const Tokens& prompt) override;

 private:
  const OrtModel& target_;
  Tokens target_tokens_;  // the target's source that was read
};

}  // namespace edgespec
