// Runs the library where no Python runs it: emulated ARM64, Windows under Wine. Reads lines and
// prints one for each; tests/native/test_platforms.py compares them with Python's.
//
//   check_platform texts PAIR LIBONNXRUNTIME    PROMPT NAME=VALUE…  ->  a text
//   check_platform saved PAIR LIBONNXRUNTIME FILE    the same, saved and loaded before each piece
//   check_platform batch PAIR LIBONNXRUNTIME    the same, three at once
//   check_platform transcripts PAIR LIBONNXRUNTIME    SOUND NAME=VALUE…  ->  a transcript
//   check_platform decisions VOCABULARY GAMMA PROMPT-TOKENS    SEED NAME=VALUE…  ->  TOKENS
//
// A text is TOKENS ENDING ROUNDS DRAFTED ACCEPTED CHARACTERS. A transcript is LANGUAGE SECONDS
// CALLS DRAFTED ACCEPTED and, for each segment, START END TEMPERATURE LOGPROB COMPRESSION NO-SPEECH
// TOKENS CHARACTERS. PROMPT and TOKENS are ids with commas, CHARACTERS bytes in hexadecimal; either
// is - if it is empty. SOUND is a file of samples.
#include <cstring>
#include <edgespec.hpp>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
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

void set(edgespec_transcript_options& options, const std::string& name, const std::string& value) {
  if (name == "draft") {
    options.draft = std::stoi(value);
  } else if (name == "gamma") {
    options.gamma = std::stoll(value);
  } else if (name == "seed") {
    options.seed = std::stoull(value);
  } else if (name == "use_previous") {
    options.use_previous = std::stoi(value);
  } else if (name == "min_logprob") {
    options.min_logprob = std::stod(value);
  } else if (name == "max_compression") {
    options.max_compression = std::stod(value);
  } else {
    throw std::invalid_argument("no option " + name);
  }
}

// `temperatures` has to live as long as the options.
edgespec::TranscriptOptions transcript_options_of(std::istream& words,
                                                  std::vector<double>& temperatures) {
  edgespec::TranscriptOptions options;
  for (std::string word; words >> word;) {
    const size_t is = word.find('=');
    const std::string name = word.substr(0, is), value = word.substr(is + 1);
    if (name == "temperature") {
      temperatures.push_back(std::stod(value));
    } else {
      set(options, name, value);
    }
  }
  options.temperatures = temperatures.data();
  options.temperatures_count = temperatures.size();
  return options;
}

std::string bytes_of(const std::string& hexadecimal) {
  std::string bytes;
  for (size_t i = 0; i < hexadecimal.size(); i += 2) {
    bytes += char(std::stoi(hexadecimal.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

std::vector<float> samples_in(const std::string& file) {
  const std::u8string name(file.begin(), file.end());
  std::ifstream stream(std::filesystem::path(name), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(stream), {});
  std::vector<float> samples(bytes.size() / sizeof(float));
  std::memcpy(samples.data(), bytes.data(), samples.size() * sizeof(float));
  return samples;
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
  return all.empty() ? "-" : all;
}

std::string written(const std::string& bytes) {
  std::ostringstream all;
  all << std::hex << std::setfill('0');
  for (const unsigned char byte : bytes) all << std::setw(2) << int(byte);
  return bytes.empty() ? "-" : all.str();
}

struct Asked {
  std::string prompt;
  edgespec::Options options;

  edgespec::Text begun_in(edgespec::Session& session) const {
    if (prompt[0] == 'x') return session.begin_text(bytes_of(prompt.substr(1)), options);
    return session.begin(tokens_of(prompt), options);
  }
};

Asked asked_in(const std::string& line) {
  std::istringstream words(line);
  std::string prompt;
  words >> prompt;
  return {prompt, options_of(words)};
}

// A text as far as it was made.
struct Made {
  Tokens tokens;
  std::string characters;
  int ending = EDGESPEC_GOES_ON;
  std::int64_t rounds = 0, drafted = 0, accepted = 0;

  void add(const edgespec_piece& piece) {
    tokens.insert(tokens.end(), piece.tokens, piece.tokens + piece.count);
    characters.append(piece.text, piece.text_bytes);
    ending = piece.ending;
    if (ending != EDGESPEC_GOES_ON) return;
    ++rounds;
    drafted += piece.drafted;
    accepted += piece.accepted;
  }
};

std::ostream& operator<<(std::ostream& out, const Made& made) {
  return out << written(made.tokens) << ' ' << made.ending << ' ' << made.rounds << ' '
             << made.drafted << ' ' << made.accepted << ' ' << written(made.characters);
}

// Row invariance was measured on another machine, and is not measured again.
edgespec::Model opened(char** given) {
  const std::string pair = bytes_of(given[0]), onnxruntime = bytes_of(given[1]);
  edgespec::LoadOptions where;
  where.onnxruntime = onnxruntime.c_str();
  where.threads = 1;
  where.allow_inexact = 1;
  return edgespec::Model(pair, where);
}

void texts(char** given) {
  edgespec::Model model = opened(given);
  edgespec::Session session = model.session();
  for (std::string line; std::getline(std::cin, line);) {
    const Asked asked = asked_in(line);
    Made made;
    edgespec::Text text = asked.begun_in(session);
    for (const edgespec_piece& piece : text) made.add(piece);
    made.ending = text.ending();
    std::cout << made << std::endl;
  }
}

void saved(char** given) {
  const std::string file = bytes_of(given[2]);
  edgespec::Model model = opened(given);
  edgespec::Session session = model.session();
  for (std::string line; std::getline(std::cin, line);) {
    const Asked asked = asked_in(line);
    Made made;
    asked.begun_in(session);
    while (made.ending == EDGESPEC_GOES_ON) {
      session.save(file);
      session = model.load_session(file);
      edgespec::Text rest = session.rest();
      made.add(*rest.begin());
    }
    std::cout << made << std::endl;
  }
}

void batch(char** given) {
  const std::string pair = bytes_of(given[0]), onnxruntime = bytes_of(given[1]);
  edgespec::LoadOptions where;
  where.onnxruntime = onnxruntime.c_str();
  where.threads = 1;
  const edgespec::Model model(pair, where);
  edgespec::Batch batch = model.batch(3);
  std::vector<Made> made;
  int live = 0;
  const auto make_next = [&] {
    if (!batch.next()) throw std::runtime_error("no text is being made");
    made[batch.text()].add(batch.piece());
    if (batch.piece().ending != EDGESPEC_GOES_ON) --live;
  };
  for (std::string line; std::getline(std::cin, line); ++live) {
    while (live == 3) make_next();
    const Asked asked = asked_in(line);
    batch.add(tokens_of(asked.prompt), asked.options);
    made.emplace_back();
  }
  while (live > 0) make_next();
  for (const Made& one : made) std::cout << one << '\n';
}

void transcripts(char** given) {
  edgespec::Model model = opened(given);
  edgespec::Session session = model.session();
  std::cout << std::setprecision(17);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string sound;
    words >> sound;
    std::vector<double> temperatures;
    const edgespec::TranscriptOptions how = transcript_options_of(words, temperatures);
    std::ostringstream segments;
    segments << std::setprecision(17);
    edgespec::Transcript transcript = session.begin_transcript(samples_in(bytes_of(sound)), how);
    for (const edgespec_segment& one : transcript) {
      segments << ' ' << one.start << ' ' << one.end << ' ' << one.temperature << ' ' << one.logprob
               << ' ' << one.compression << ' ' << one.no_speech << ' '
               << written(Tokens(one.tokens, one.tokens + one.count)) << ' '
               << written(std::string(one.text, one.text_bytes));
    }
    const edgespec_segment& end = transcript.latest();
    std::cout << end.language << ' ' << end.seconds << ' ' << end.calls << ' ' << end.drafted << ' '
              << end.accepted << segments.str() << std::endl;
  }
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
  } else if (what == "saved" && count == 5) {
    saved(given + 2);
  } else if (what == "batch" && count == 4) {
    batch(given + 2);
  } else if (what == "transcripts" && count == 4) {
    transcripts(given + 2);
  } else if (what == "decisions" && count == 5) {
    decisions(given + 2);
  } else {
    std::cerr << "check_platform texts, batch or transcripts PAIR LIBONNXRUNTIME, saved PAIR "
                 "LIBONNXRUNTIME FILE, or decisions VOCABULARY GAMMA TOKENS\n";
    return 2;
  }
} catch (const std::exception& failure) {
  std::cerr << failure.what() << '\n';
  return 1;
}
