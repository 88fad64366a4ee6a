// What the library of one target shows: its operators, for a session, and its sampling arithmetic.
#include <map>
#include <mutex>
#include <string>

#include "kernels/sampling.h"
#include "ops/attention_ops.h"
#include "ops/convolution_ops.h"
#include "ops/delta_op.h"
#include "ops/fused_blocks.h"
#include "ops/half_ops.h"
#include "ops/head_op.h"
#include "ops/norm_op.h"
#include "ops/product_ops.h"
#include "ops/row_ops.h"
#include "ort/export.h"
#include "ort/op.h"
#include "schema/operators.h"

namespace edgespec {
namespace {

template <typename Kernel>
OrtStatus* add(const OrtApi* api, OrtCustomOpDomain* domain) {
  static const CustomOp<Kernel> op;
  return api->CustomOpDomain_Add(domain, &op);
}

// Adds the kernel of each operator of the table.
OrtStatus* add_all(const OrtApi* api, OrtCustomOpDomain* domain) {
  OrtStatus* status = nullptr;
#define OPERATOR(kernel, name, ...) \
  if (status == nullptr) status = add<kernel<schema::name>>(api, domain);
#include "schema/operators.inc"
  return status;
}

// The domain with all kernels; sessions of one runtime share it. Returns the runtime's error if it
// refuses one.
OrtStatus* domain_of(const OrtApi* api, OrtCustomOpDomain** domain) {
  static std::map<const OrtApi*, OrtCustomOpDomain*> domains;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const auto found = domains.find(api); found != domains.end()) {
    *domain = found->second;
    return nullptr;
  }
  OrtStatus* status = api->CreateCustomOpDomain(schema::kDomain, domain);
  if (status == nullptr) status = add_all(api, *domain);
  if (status == nullptr) domains[api] = *domain;
  return status;
}

OrtStatus* refuse(const OrtApiBase* base) {
  constexpr uint32_t kFirstVersion = 1;
  const std::string message = "these kernels need ONNX Runtime 1." +
                              std::to_string(ORT_API_VERSION) + " or newer, and this is " +
                              base->GetVersionString();
  return base->GetApi(kFirstVersion)->CreateStatus(ORT_FAIL, message.c_str());
}

}  // namespace
}  // namespace edgespec

extern "C" {

// ONNX Runtime calls this when a session is given this library.
EDGESPEC_EXPORT OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  using namespace edgespec;
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (api == nullptr) return refuse(base);
  OrtCustomOpDomain* domain = nullptr;
  OrtStatus* status = domain_of(api, &domain);
  return status ? status : api->AddCustomOpDomain(options, domain);
}

EDGESPEC_EXPORT const edgespec::SamplingTable* edgespec_sampling() {
  using namespace edgespec;
  static const SamplingTable table{largest, weigh, nucleus, draw, excess, race};
  return &table;
}
}
