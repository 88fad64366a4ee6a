// What the library of one target shows: its operators, for a session, and its sampling arithmetic.
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "kernels/packed_file.h"
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

// Sessions that this thread makes until `edgespec_packed_end` take packed weights from a file;
// where it is missing, or not of this identity, what they pack is recorded. Returns whether it is
// mapped.
EDGESPEC_EXPORT int edgespec_packed_begin(const char* path, const char* identity) {
  auto& file = edgespec::packed_file_of_thread();
  try {
    file = std::make_shared<edgespec::PackedFile>(path, identity);
    return file->is_mapped() ? 1 : 0;
  } catch (const std::exception&) {
    file = nullptr;
    return 0;
  }
}

// Writes what was recorded to a file; null writes nothing. Returns whether all went well.
EDGESPEC_EXPORT int edgespec_packed_end(const char* path) {
  const auto file = std::exchange(edgespec::packed_file_of_thread(), nullptr);
  try {
    return path == nullptr || (file != nullptr && file->write(path)) ? 1 : 0;
  } catch (const std::exception&) {
    return 0;
  }
}

EDGESPEC_EXPORT const edgespec::SamplingTable* edgespec_sampling() {
  using namespace edgespec;
  static const SamplingTable table{largest, weigh, nucleus, draw, excess, race};
  return &table;
}
}
