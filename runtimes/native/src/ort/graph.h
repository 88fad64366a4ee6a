// A graph that is loaded once, however many caches use it.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "device/kernels.h"
#include "ort/runtime.h"

namespace edgespec {

// The file of a graph, and the digest of its content.
struct GraphFile {
  std::filesystem::path path;
  std::string sha256;
};

// A session of an exported graph, and what it says about itself. Several threads may run it.
class Graph {
 public:
  // `threads`: 0 is the runtime's choice. Throws Error: the file is not a graph that it can run.
  Graph(const OrtRuntime& runtime, const Kernels& kernels, const GraphFile& file, int threads);

  const OrtRuntime& runtime() const { return runtime_; }
  OrtSession* session() const { return session_.get(); }
  const std::vector<std::string>& outputs() const { return outputs_; }
  // Whether an input may be left out.
  bool has_optional(const std::string& input) const { return optional_inputs_.contains(input); }
  bool takes(const std::string& input) const { return inputs_.contains(input); }
  bool returns(const std::string& output) const { return shapes_.contains(output); }
  // One or more whole numbers, each at least so large, that the file says about itself, with commas
  // between them. Throws Error: it does not.
  std::vector<int64_t> said(const char* name, int64_t least) const;
  // The shape of an output; -1 where it depends on the call, empty if there is no such output.
  std::vector<int64_t> shape_of(const std::string& output) const;
  // The width of an output [rows, width]; 0 if there is none, or it is not known.
  int64_t width_of(const std::string& output) const;

 private:
  void read_names();
  void add_shape(size_t output, const std::string& name);

  const OrtRuntime& runtime_;
  std::filesystem::path path_;
  OrtOwned<OrtSession> session_;
  std::set<std::string> inputs_, optional_inputs_;
  std::vector<std::string> outputs_;
  std::map<std::string, std::vector<int64_t>> shapes_;
};

}  // namespace edgespec
