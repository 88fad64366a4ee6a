#include "session/saved_session.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <utility>

#include "artifact/sha256.h"
#include "core/archive.h"
#include "core/paths.h"
#include "core/shown.h"

namespace edgespec {
namespace {

// A file is: this line, the version, what it is of, the session, and the SHA-256 of all before.
constexpr std::string_view kFirstLine = "edgespec session\n";
constexpr int64_t kVersion = 3;
constexpr size_t kDigestBytes = 64;
constexpr size_t kBlock = 1 << 20;

// What a session can be used with.
struct Origin {
  std::string folder, target, draft, kernels;
  int64_t capacity = 0;

  void archive(Archive& archive) { archive(folder, target, draft, kernels, capacity); }
};

Origin origin_of(const Pair& pair) {
  return {pair.manifest().digest, pair.target_format(), pair.draft_format(),
          EDGESPEC_KERNELS_VERSION, pair.capacity()};
}

class FileWriter : public Archive {
 public:
  explicit FileWriter(const std::filesystem::path& file) : stream_(file, std::ios::binary) {}

  bool reads() const override { return false; }
  void bytes(void* data, uint64_t count) override {
    digest_.add({static_cast<const char*>(data), count});
    stream_.write(static_cast<const char*>(data), std::streamsize(count));
    if (!stream_) throw Error("it takes no more bytes");
  }
  uint64_t left() const override { return 0; }
  void end() {
    std::string digest = digest_.hex();
    stream_.write(digest.data(), std::streamsize(digest.size()));
    stream_.close();
    if (!stream_) throw Error("it takes no more bytes");
  }

 private:
  std::ofstream stream_;
  Sha256 digest_;
};

class FileReader : public Archive {
 public:
  explicit FileReader(const std::filesystem::path& file) : stream_(file, std::ios::binary) {
    stream_.seekg(0, std::ios::end);
    const auto size = static_cast<int64_t>(stream_.tellg());
    stream_.seekg(0);
    left_ = size < int64_t(kDigestBytes) ? 0 : size - kDigestBytes;
  }

  bool reads() const override { return true; }
  void bytes(void* data, uint64_t count) override {
    if (count > left_) throw Error("it is cut short");
    stream_.read(static_cast<char*>(data), std::streamsize(count));
    if (!stream_) throw Error("it cannot be read");
    left_ -= count;
  }
  uint64_t left() const override { return left_; }
  // Reads all of it. Throws Error where its digest is not that of its bytes.
  void check_digest() {
    Sha256 digest;
    std::string block(kBlock, '\0');
    while (left_ > 0) {
      const auto count = std::min<uint64_t>(left_, block.size());
      bytes(block.data(), count);
      digest.add({block.data(), count});
    }
    std::string written(kDigestBytes, '\0');
    left_ = kDigestBytes;
    bytes(written.data(), written.size());
    if (digest.hex() != written) throw Error("its digest is another");
  }

 private:
  std::ifstream stream_;
  uint64_t left_ = 0;
};

// Beside the file, so that it can take its place.
std::filesystem::path part_of(std::filesystem::path file) {
  return file += ".part" + std::to_string(std::random_device()());
}

void check_origin(const Origin& found, const Pair& pair, const std::string& file) {
  const Origin here = origin_of(pair);
  const auto refuse = [&](const std::string& what, const std::string& way_out) {
    throw UsageError(file + " was saved with " + what + "; " + way_out);
  };
  if (found.folder != here.folder) {
    refuse("another folder than " + name_of(pair.manifest().folder),
           "load the folder that it was saved with");
  }
  const auto compare = [&](const std::string& role, std::string_view was, std::string_view is) {
    if (was != is) {
      refuse("the " + role + "'s format " + shown(was) + " and this model has " + shown(is),
             "load the model with the same formats");
    }
  };
  compare("target", found.target, here.target);
  compare("draft", found.draft, here.draft);
  if (found.kernels != here.kernels) {
    refuse("kernels " + shown(std::string_view(found.kernels)) + " and these are " +
               shown(std::string_view(here.kernels)),
           "begin the text again");
  }
  if (found.capacity != here.capacity) {
    refuse("a capacity of " + shown(found.capacity) + " positions and this model has " +
               shown(here.capacity),
           "load the model with the same capacity");
  }
}

// Throws UsageError: the file is no session, or of another version.
void check_kind(FileReader& reader, const std::string& file) {
  std::string first_line(kFirstLine.size(), '\0');
  int64_t version = 0;
  if (reader.left() >= first_line.size() + sizeof version) {
    reader.bytes(first_line.data(), first_line.size());
    reader(version);
  }
  if (first_line != kFirstLine) {
    throw UsageError(file + " is no saved session; give a file that edgespec_save wrote");
  }
  if (version == kVersion) return;
  throw UsageError(file + " has session format " + shown(version) + " and this edgespec reads " +
                   shown(kVersion) + "; begin the text again");
}

// The file that a name stands for: a link stays one. Throws Error: it has no folder, or something
// else than a file has the name, such as a folder or a device.
std::filesystem::path replaced_file(const std::filesystem::path& given) {
  const auto refuse = [&](const char* why) {
    throw Error("the session cannot be written to " + name_of(given) + " (" + why +
                "); give another file");
  };
  std::error_code failed;
  const std::filesystem::path file =
      std::filesystem::weakly_canonical(std::filesystem::absolute(given, failed), failed);
  if (failed || !std::filesystem::is_directory(file.parent_path(), failed)) {
    refuse("there is no such folder");
  }
  if (std::filesystem::exists(file, failed) && !std::filesystem::is_regular_file(file, failed)) {
    refuse("it is no ordinary file");
  }
  return file;
}

}  // namespace

void save(Session& session, const std::filesystem::path& given) {
  session.check_is_kept();
  const std::filesystem::path file = replaced_file(given);
  const std::filesystem::path part = part_of(file);
  std::string first_line(kFirstLine);
  int64_t version = kVersion;
  Origin origin = origin_of(session.pair());
  try {
    FileWriter writer(part);
    writer.bytes(first_line.data(), first_line.size());
    writer(version, origin, session);
    writer.end();
    std::filesystem::rename(part, file);
  } catch (const std::exception& error) {
    std::error_code ignored;
    std::filesystem::remove(part, ignored);
    throw Error("the session cannot be written to " + name_of(given) + " (" + error.what() +
                "); make room, or give another file");
  }
}

std::unique_ptr<Session> load_session(std::shared_ptr<const Pair> pair,
                                      const std::filesystem::path& file) {
  const std::string name = name_of(file);
  if (!std::filesystem::is_regular_file(file)) {
    throw UsageError(name + " is no file; give one that edgespec_save wrote");
  }
  FileReader reader(file);
  check_kind(reader, name);
  Origin origin;
  auto session = std::make_unique<Session>(pair);
  try {
    FileReader(file).check_digest();
    reader(origin);
  } catch (const Error& error) {
    throw Error(name + " is damaged (" + error.what() + "); save the session again");
  }
  check_origin(origin, *pair, name);
  try {
    reader(*session);
    reader.check(reader.left() == 0);
  } catch (const Error& error) {
    throw Error(name + " is damaged (" + error.what() + "); save the session again");
  }
  return session;
}

}  // namespace edgespec
