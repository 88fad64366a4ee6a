// Sessions of one model on several threads, cancelled, forked, saved and closed by others: every
// text is the one that a single thread makes. Under the sanitizer of threads nothing races.
//
//   check_threads PAIR LIBONNXRUNTIME FOLDER SECONDS
#include <atomic>
#include <chrono>
#include <edgespec.hpp>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Tokens = std::vector<std::int64_t>;

constexpr int kKinds = 5, kWorkers = 4;

edgespec::Options options_of(int kind) {
  edgespec::Options options;
  options.max_new_tokens = 16;
  options.ignore_eos = 1;
  options.has_seed = 1;
  options.seed = kind;
  if (kind == 0) options.draft = EDGESPEC_DRAFT_NONE;
  if (kind == 1) options.draft = EDGESPEC_DRAFT_LOOKUP;
  if (kind >= 3) options.temperature = 1;
  if (kind == 4) options.rule = EDGESPEC_RULE_TOKEN, options.gamma = 3;
  return options;
}

Tokens prompt_of(int kind) { return {5, 60 + kind, 7, 8, 60 + kind, 7}; }

void read(edgespec::Text text, Tokens& tokens) {
  for (const edgespec_piece& piece : text) {
    tokens.insert(tokens.end(), piece.tokens, piece.tokens + piece.count);
  }
}

Tokens text_of(edgespec::Session& session, int kind) {
  Tokens tokens;
  read(session.begin(prompt_of(kind), options_of(kind)), tokens);
  return tokens;
}

void expect(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

// A session that one thread uses and another cancels, by turns of both.
class Shared {
 public:
  explicit Shared(edgespec::Session session) : session_(std::move(session)) {}

  // A text, unless it was cancelled.
  std::optional<Tokens> text(int kind) try {
    return text_of(session_, kind);
  } catch (const edgespec::Failure& failure) {
    expect(failure.status == EDGESPEC_CANCELLED, failure.what());
    return std::nullopt;
  }
  void disturb() {
    session_.prompt_progress();
    session_.cancel();
  }
  edgespec::Session& session() { return session_; }

 private:
  edgespec::Session session_;
};

void work(Shared& shared, const std::vector<Tokens>& expected, int number,
          const std::function<bool()>& goes_on, edgespec::Model& model, const std::string& folder) {
  std::mt19937 random(number);
  const std::string file = folder + "/session-" + std::to_string(number);
  for (int i = 0; goes_on(); ++i) {
    const int kind = int(random() % kKinds);
    const auto text = shared.text(kind);
    expect(!text || *text == expected[kind], "a text of another thread's is another");
    edgespec::Session other = model.session();
    Tokens tokens;
    edgespec::Text begun = other.begin(prompt_of(kind), options_of(kind));
    auto piece = begun.begin();
    tokens.assign((*piece).tokens, (*piece).tokens + (*piece).count);
    Tokens of_fork = tokens;
    edgespec::Session fork = other.fork();
    if (i % 4 == 0) {
      other.save(file);
      other = model.load_session(file);
    }
    read(other.rest(), tokens);
    read(fork.rest(), of_fork);
    expect(tokens == expected[kind] && of_fork == expected[kind], "what goes on is another text");
  }
}

void run(char** given) {
  edgespec::LoadOptions where;
  where.onnxruntime = given[1];
  where.threads = 1;
  auto model = std::make_unique<edgespec::Model>(given[0], where);
  std::vector<Tokens> expected;
  edgespec::Session alone = model->session();
  for (int kind = 0; kind < kKinds; ++kind) expected.push_back(text_of(alone, kind));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::stoi(given[3]));
  std::atomic<bool> failed = false;
  const auto goes_on = [&] { return !failed && std::chrono::steady_clock::now() < end; };
  std::vector<std::unique_ptr<Shared>> shared;
  for (int i = 0; i < kWorkers; ++i) shared.push_back(std::make_unique<Shared>(model->session()));
  std::vector<std::thread> threads;
  for (int i = 0; i < kWorkers; ++i) {
    threads.emplace_back([&, i] {
      try {
        work(*shared[i], expected, i, goes_on, *model, given[2]);
      } catch (const std::exception& failure) {
        std::cerr << failure.what() << '\n';
        failed = true;
      }
    });
  }
  std::mt19937 random(kWorkers);
  while (goes_on()) {
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    shared[random() % kWorkers]->disturb();
  }
  for (std::thread& thread : threads) thread.join();
  if (failed) throw std::runtime_error("a thread failed");
  model.reset();  // before its sessions
  for (int i = 0; i < kWorkers; ++i) {
    expect(shared[i]->text(i) == expected[i], "a session does not outlive its model");
  }
  std::cout << "all texts were the same\n";
}

}  // namespace

int main(int count, char** given) try {
  if (count != 5) {
    std::cerr << "check_threads PAIR LIBONNXRUNTIME FOLDER SECONDS\n";
    return 2;
  }
  run(given + 1);
} catch (const std::exception& failure) {
  std::cerr << failure.what() << '\n';
  return 1;
}
