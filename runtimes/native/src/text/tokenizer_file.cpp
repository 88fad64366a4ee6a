#include "text/tokenizer_file.h"

#include <fstream>
#include <string>
#include <vector>

#include "core/whole_numbers.h"

namespace edgespec {
namespace {

constexpr size_t kMostDepth = 100;

// Takes the parser's events. Those of model.vocab and model.merges go to tables.
class Reader : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(TokenizerFile& file) : file_(file) {}

  bool null() override { return value(nullptr); }
  bool boolean(bool is) override { return value(is); }
  bool number_integer(int64_t number) override { return value(number); }
  bool number_unsigned(uint64_t number) override { return value(number); }
  bool number_float(double number, const std::string&) override {
    const bool is_score = table_depth_ == 2;
    if (!is_score) check_holdable(number);
    return value(number);
  }
  bool string(std::string& text) override {
    if (!table_depth_) return value(std::move(text));
    if (table_ == Table::kVocabulary) {
      piece_ = std::move(text);
    } else {
      add_merge_text(text);
    }
    return true;
  }
  bool binary(Json::binary_t&) override { return false; }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    (table_depth_ ? piece_ : key_) = std::move(name);
    return true;
  }
  bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
    throw Error("no JSON at byte " + std::to_string(at));
  }

 private:
  enum class Table { kVocabulary, kMerges };

  // A value that is no object or array.
  bool value(Json one) {
    if (!table_depth_) {
      add(std::move(one));
      return true;
    }
    if (table_ != Table::kVocabulary) throw Error("a merge that is no text");
    ModelTables& tables = file_.tables;
    if (table_depth_ == 1) {  // {"piece": id}
      tables.vocabulary.add(piece_, one.get<int64_t>());
    } else {  // [["piece", score]]
      tables.vocabulary.add(piece_, std::ssize(tables.scores));
      tables.scores.push_back(one.get<double>());
    }
    return true;
  }

  // "a b", or one of ["a", "b"].
  void add_merge_text(const std::string& text) {
    ModelTables& tables = file_.tables;
    if (table_depth_ > 1) {
      tables.merges += text;
      tables.merge_ends.push_back(tables.merges.size());
      return;
    }
    const size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      throw Error("a merge that is no pair");
    }
    tables.merge_ends.push_back(tables.merges.size() + space);
    tables.merges += text.substr(0, space) + text.substr(space + 1);
    tables.merge_ends.push_back(tables.merges.size());
  }

  bool open(Json empty) {
    if (table_depth_) {
      if (++table_depth_ > 2) throw Error("a table that is too deep");
      return true;
    }
    const bool in_model = open_.size() == 2 && open_names_[1] == "model";
    if (in_model && (key_ == "vocab" || key_ == "merges")) {
      table_ = key_ == "vocab" ? Table::kVocabulary : Table::kMerges;
      table_depth_ = 1;
      return true;
    }
    if (open_.size() > kMostDepth) throw Error("parts inside others without end");
    open_names_.push_back(key_);
    open_.push_back(add(std::move(empty)));
    return true;
  }

  bool close() {
    if (table_depth_) {
      if (--table_depth_ == 1 && table_ == Table::kMerges && file_.tables.merge_ends.size() % 2) {
        throw Error("a merge that is no pair");
      }
      return true;
    }
    open_.pop_back();
    open_names_.pop_back();
    return true;
  }

  Json* add(Json one) {
    if (open_.empty()) return &(file_.parts = std::move(one));
    Json& around = *open_.back();
    if (!around.is_array()) return &(around[key_] = std::move(one));
    around.push_back(std::move(one));
    return &around.back();
  }

  TokenizerFile& file_;
  std::vector<Json*> open_;  // the objects and arrays around the next value
  std::vector<std::string> open_names_;
  std::string key_, piece_;
  Table table_ = Table::kVocabulary;
  int table_depth_ = 0;  // 0: outside of tables
};

}  // namespace

TokenizerFile read_tokenizer_file(const std::filesystem::path& path) {
  TokenizerFile file;
  Reader reader(file);
  std::ifstream content(path, std::ios::binary);
  if (!content) throw Error("it cannot be read");
  Json::sax_parse(content, &reader);
  return file;
}

}  // namespace edgespec
