// The functions of edgespec.h for several texts in shared calls.
#include <exception>
#include <memory>
#include <tuple>
#include <utility>
#include <variant>

#include "api/guarded.h"
#include "api/objects.h"
#include "api/structures.h"

namespace edgespec {
namespace {

using BatchInUse = InUse<edgespec_batch>;

void add_to(Batch& batch, Request request, int64_t* text, uint64_t* seed) {
  const auto [number, drawn] = batch.add(std::move(request));
  *text = number;
  if (seed != nullptr) *seed = drawn;
}

}  // namespace
}  // namespace edgespec

using edgespec::add_to;
using edgespec::Batches;
using edgespec::BatchInUse;
using edgespec::guarded;
using edgespec::require;

extern "C" {

edgespec_status edgespec_open_batch(edgespec_model* model, size_t texts, edgespec_batch** batch) {
  return guarded([&] {
    require(batch, "batch");
    *batch = nullptr;
    const auto pair = edgespec::Models::all().open(model, "model")->pair;
    *batch = edgespec::opened<edgespec_batch>(
        std::make_unique<edgespec::Batch>(pair, static_cast<int64_t>(texts)));
  });
}

void edgespec_close_batch(edgespec_batch* batch) { Batches::all().close(batch); }

edgespec_status edgespec_batch_add(edgespec_batch* batch, const int64_t* prompt,
                                   size_t prompt_count, const edgespec_options* options,
                                   int64_t* text, uint64_t* seed) {
  return guarded([&] {
    require(text, "text");
    const BatchInUse in_use(batch, "batch");
    if (prompt_count > 0) require(prompt, "prompt");
    add_to(*in_use, edgespec::request_of({prompt, prompt + prompt_count}, options), text, seed);
  });
}

edgespec_status edgespec_batch_add_text(edgespec_batch* batch, const char* prompt,
                                        const edgespec_options* options, int64_t* text,
                                        uint64_t* seed) {
  return guarded([&] {
    require(text, "text");
    const BatchInUse in_use(batch, "batch");
    require(prompt, "prompt");
    add_to(*in_use, edgespec::text_request(in_use->pair(), prompt, options), text, seed);
  });
}

edgespec_status edgespec_batch_add_chat(edgespec_batch* batch, const edgespec_turn* turns,
                                        size_t turns_count, const edgespec_options* options,
                                        int64_t* text, uint64_t* seed) {
  return guarded([&] {
    require(text, "text");
    const BatchInUse in_use(batch, "batch");
    add_to(*in_use, edgespec::chat_request(in_use->pair(), turns, turns_count, options), text,
           seed);
  });
}

edgespec_status edgespec_batch_next(edgespec_batch* batch, int64_t* text, edgespec_piece* piece) {
  return guarded([&] {
    require(text, "text");
    *text = EDGESPEC_NO_TEXT;
    require(piece, "piece");
    edgespec::check_size(*piece);
    const BatchInUse in_use(batch, "batch");
    auto event = in_use->next();
    if (!event) return edgespec::fill(piece, in_use.shown(edgespec::Piece{}));
    *text = event->text;
    if (const auto* error = std::get_if<std::exception_ptr>(&event->what)) {
      std::rethrow_exception(*error);
    }
    edgespec::fill(piece, in_use.shown(std::get<edgespec::Piece>(std::move(event->what))));
  });
}

edgespec_status edgespec_batch_progress(edgespec_batch* batch, int64_t text, int64_t* read,
                                        int64_t* to_read) {
  return guarded([&] {
    require(read, "read");
    require(to_read, "to_read");
    std::tie(*read, *to_read) = Batches::all().open(batch, "batch")->object->progress(text);
  });
}

void edgespec_batch_cancel(edgespec_batch* batch, int64_t text) {
  if (const auto open = Batches::all().find(batch)) open->object->cancel(text);
}
}
