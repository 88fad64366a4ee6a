// The bindings of a call whose rows are of several sequences.
#pragma once

#include <span>
#include <vector>

#include "ort/call.h"
#include "ort/shared_rows.h"

namespace edgespec {

class SharedCall : public Call {
 public:
  // `has_sources`: each row sees a part of the memory of sources.
  SharedCall(CallMemory& memory, const CallShape& shape, bool has_sources);

  // Sets the inputs; the source must outlive the run.
  void set_rows(std::span<const SharedRow> rows, const Source& sources);
  using Call::set_steps;

 private:
  std::vector<int64_t> sources_;
};

}  // namespace edgespec
