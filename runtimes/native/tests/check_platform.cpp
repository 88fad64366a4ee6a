// Runs the library where no Python runs it: emulated ARM64, Windows under Wine. Reads lines and
// prints one for each; tests/native/test_platforms.py compares them with Python's.
//
//   check_platform texts PAIR LIBONNXRUNTIME    PROMPT NAME=VALUE…  ->  TOKENS ENDING
//   check_platform batch PAIR LIBONNXRUNTIME    the same, three at once
//   check_platform decisions VOCABULARY GAMMA PROMPT-TOKENS    SEED NAME=VALUE…  ->  TOKENS
//
// PROMPT and TOKENS are ids with commas.
#include <edgespec.hpp>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

extern "C" EDGESPEC_API const char* edgespec_hook_decision(uint64_t, const edgespec_options*,
                                                           int64_t, int64_t, int64_t, int64_t*);

namespace {

using Tokens = std::vector<std::int64_t>;

const std::map<std::string, double edgespec_options::*> kReals = {
    {"temperature", &edgespec_options::temperature},
    {"top_p", &edgespec_options::top_p},
    {"min_p", &edgespec_options::min_p},
    {"top_n_sigma", &edgespec_options::top_n_sigma},
    {"xtc_probability", &edgespec_options::xtc_probability},
    {"xtc_threshold", &edgespec_options::xtc_threshold},
    {"repetition_penalty", &edgespec_options::repetition_penalty},
    {"presence_penalty", &edgespec_options::presence_penalty},
    {"frequency_penalty", &edgespec_options::frequency_penalty}};
const std::map<std::string, std::int64_t edgespec_options::*> kWholes = {
    {"top_k", &edgespec_options::top_k},
    {"min_tokens", &edgespec_options::min_tokens},
    {"max_new_tokens", &edgespec_options::max_new_tokens},
    {"gamma", &edgespec_options::gamma}};
const std::map<std::string, std::int32_t edgespec_options::*> kNumbers = {
    {"draft", &edgespec_options::draft},
    {"rule", &edgespec_options::rule},
    {"ignore_eos", &edgespec_options::ignore_eos}};

void set(edgespec_options& options, const std::string& name, const std::string& value) {
  if (const auto real = kReals.find(name); real != kReals.end()) {
    options.*(real->second) = std::stod(value);
  } else if (const auto whole = kWholes.find(name); whole != kWholes.end()) {
    options.*(whole->second) = std::stoll(value);
  } else if (const auto number = kNumbers.find(name); number != kNumbers.end()) {
    options.*(number->second) = std::stoi(value);
  } else if (name == "seed") {
    options.has_seed = 1;
    options.seed = std::stoull(value);
  } else {
    throw std::invalid_argument("no option " + name);
  }
}

edgespec::Options options_of(std::istream& words) {
  edgespec::Options options;
  for (std::string word; words >> word;) {
    const size_t is = word.find('=');
    set(options, word.substr(0, is), word.substr(is + 1));
  }
  return options;
}

Tokens tokens_of(const std::string& written) {
  Tokens tokens;
  std::istringstream parts(written);
  for (std::string part; std::getline(parts, part, ',');) tokens.push_back(std::stoll(part));
  return tokens;
}

std::string written(const Tokens& tokens) {
  std::string all;
  for (const std::int64_t token : tokens) all += (all.empty() ? "" : ",") + std::to_string(token);
  return all;
}

struct Asked {
  Tokens prompt;
  edgespec::Options options;
};

Asked asked_in(const std::string& line) {
  std::istringstream words(line);
  std::string prompt;
  words >> prompt;
  return {tokens_of(prompt), options_of(words)};
}

void texts(char** given) {
  edgespec::LoadOptions where;
  where.onnxruntime = given[1];
  where.threads = 1;
  where.allow_inexact = 1;  // row invariance was measured on another machine
  edgespec::Model model(given[0], where);
  edgespec::Session session = model.session();
  for (std::string line; std::getline(std::cin, line);) {
    const Asked asked = asked_in(line);
    Tokens tokens;
    edgespec::Text text = session.begin(asked.prompt, asked.options);
    for (const edgespec_piece& piece : text) {
      tokens.insert(tokens.end(), piece.tokens, piece.tokens + piece.count);
    }
    std::cout << written(tokens) << ' ' << text.ending() << std::endl;
  }
}

void batch(char** given) {
  edgespec::LoadOptions where;
  where.onnxruntime = given[1];
  where.threads = 1;
  const edgespec::Model model(given[0], where);
  edgespec::Batch batch = model.batch(3);
  std::vector<Tokens> made;
  std::vector<int> endings;
  int live = 0;
  const auto make_next = [&] {
    if (!batch.next()) throw std::runtime_error("no text is being made");
    const edgespec_piece& piece = batch.piece();
    Tokens& tokens = made[batch.text()];
    tokens.insert(tokens.end(), piece.tokens, piece.tokens + piece.count);
    endings[batch.text()] = piece.ending;
    if (piece.ending != EDGESPEC_GOES_ON) --live;
  };
  for (std::string line; std::getline(std::cin, line); ++live) {
    while (live == 3) make_next();
    const Asked asked = asked_in(line);
    batch.add(asked.prompt, asked.options);
    made.emplace_back();
    endings.push_back(EDGESPEC_GOES_ON);
  }
  while (live > 0) make_next();
  for (size_t i = 0; i < made.size(); ++i)
    std::cout << written(made[i]) << ' ' << endings[i] << '\n';
}

void decisions(char** given) {
  const std::int64_t vocabulary = std::stoll(given[0]), gamma = std::stoll(given[1]);
  const std::int64_t prompt_tokens = std::stoll(given[2]);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::uint64_t seed = 0;
    words >> seed;
    const edgespec::Options options = options_of(words);
    Tokens decision(gamma + 2);
    const char* failed =
        edgespec_hook_decision(seed, &options, vocabulary, gamma, prompt_tokens, decision.data());
    if (failed != nullptr) throw std::runtime_error(failed);
    std::cout << written(decision) << '\n';
  }
}

}  // namespace

int main(int count, char** given) try {
  const std::string what = count > 1 ? given[1] : "";
  if (what == "texts" && count == 4) {
    texts(given + 2);
  } else if (what == "batch" && count == 4) {
    batch(given + 2);
  } else if (what == "decisions" && count == 5) {
    decisions(given + 2);
  } else {
    std::cerr << "check_platform texts or batch PAIR LIBONNXRUNTIME, or decisions VOCABULARY GAMMA "
                 "TOKENS\n";
    return 2;
  }
} catch (const std::exception& failure) {
  std::cerr << failure.what() << '\n';
  return 1;
}
