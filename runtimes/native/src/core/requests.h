// What a loop asks of its models, and computations that ask.
//
// A model with a cache of its own answers at once. One whose calls several texts share answers with
// its next call: until then the computation waits, and whoever makes the calls resumes it. So one
// text, several texts in shared calls, and a test run the same loop.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "core/model.h"

namespace edgespec {

// `Model::prefill`; the answer is the pending token.
struct Prefill {
  using Answer = Token;
  Model* model;
  const Tokens* prompt;
  const Answers* answers;

  Token compute() const { return model->prefill(*prompt, *answers); }
};

// `Model::score`; the answer is valid until the model's next call.
struct Score {
  using Answer = Rows;
  Model* model;
  std::span<const Token> tokens;
  Candidates candidates = {};

  Rows compute() const { return model->score(tokens, candidates); }
};

// `Model::best_tokens`; as long valid.
struct BestScore {
  using Answer = BestTokens;
  Model* model;
  std::span<const Token> tokens;
  Candidates candidates = {};
  int64_t skip = 0;

  BestTokens compute() const { return model->best_tokens(tokens, candidates, skip); }
};

// `Model::likely_tokens`.
struct LikelyScore {
  using Answer = LikelyTokens;
  Model* model;
  std::span<const Token> tokens;

  LikelyTokens compute() const { return model->likely_tokens(tokens); }
};

// Where a text's request waits for a call that several texts share. What it refers to stays as it
// is: the computation that asked does not go on before it is resumed.
struct Waiting {
  std::variant<std::monostate, Prefill, Score, BestScore, LikelyScore> request;
  std::coroutine_handle<> computation;  // resumed with the answer
  std::variant<Token, Rows, BestTokens, LikelyTokens, std::exception_ptr> answer;
};

// A request that a computation waits for: `co_await Score{…}`.
template <typename Request>
class Asked {
 public:
  explicit Asked(Request request) : request_(request), waiting_(request.model->waiting()) {}

  bool await_ready() const { return waiting_ == nullptr; }
  void await_suspend(std::coroutine_handle<> computation) {
    waiting_->request = request_;
    waiting_->computation = computation;
  }
  typename Request::Answer await_resume() {
    if (waiting_ == nullptr) return request_.compute();
    if (const auto* error = std::get_if<std::exception_ptr>(&waiting_->answer)) {
      std::rethrow_exception(*error);
    }
    return std::get<typename Request::Answer>(waiting_->answer);
  }

 private:
  Request request_;
  Waiting* waiting_;
};

inline Asked<Prefill> operator co_await(Prefill request) { return Asked<Prefill>(request); }
inline Asked<Score> operator co_await(Score request) { return Asked<Score>(request); }
inline Asked<BestScore> operator co_await(BestScore request) { return Asked<BestScore>(request); }
inline Asked<LikelyScore> operator co_await(LikelyScore request) {
  return Asked<LikelyScore>(request);
}

// A computation that asks, and its result. It begins when another one waits for it, or by `start`;
// destroying it ends it, wherever it is.
template <typename Result>
class [[nodiscard]] Requests {
 public:
  struct promise_type;
  using Handle = std::coroutine_handle<promise_type>;

  // At its end, the computation that waits for it goes on.
  struct End {
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(Handle ended) const noexcept {
      const auto caller = ended.promise().caller;
      return caller ? caller : std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  struct promise_type {
    std::coroutine_handle<> caller;
    std::optional<Result> result;
    std::exception_ptr error;

    Requests get_return_object() { return Requests(Handle::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    End final_suspend() const noexcept { return {}; }
    void return_value(Result value) { result.emplace(std::move(value)); }
    void unhandled_exception() { error = std::current_exception(); }
  };

  Requests(Requests&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Requests& operator=(Requests&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Requests() {
    if (handle_) handle_.destroy();
  }

  // Runs it up to what it waits for first.
  void start() { handle_.resume(); }
  bool is_done() const { return handle_.done(); }
  // What it came to. Throws what it threw.
  Result result() {
    promise_type& promise = handle_.promise();
    if (promise.error) std::rethrow_exception(promise.error);
    return *std::move(promise.result);
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) {
    handle_.promise().caller = caller;
    return handle_;
  }
  Result await_resume() { return result(); }

 private:
  explicit Requests(Handle handle) : handle_(handle) {}

  Handle handle_;
};

// The result, where all models answer at once.
template <typename Result>
Result computed(Requests<Result> requests) {
  requests.start();
  return requests.result();
}

}  // namespace edgespec
