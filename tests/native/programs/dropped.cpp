// A text that another one dropped is an error, also where its session was moved: dropped PAIR LIBONNXRUNTIME
#include <edgespec.hpp>

#include <iostream>
#include <stdexcept>
#include <utility>

namespace {

int pieces(edgespec::Text& text) {
  int count = 0;
  for (const edgespec_piece& piece : text) count += piece.count > 0;
  return count;
}

}  // namespace

int main(int, char** given) {
  edgespec::LoadOptions where;
  where.onnxruntime = given[2];
  edgespec::Options how;
  how.max_new_tokens = 2;
  how.draft = EDGESPEC_DRAFT_NONE;
  const edgespec::Model model(given[1], where);
  edgespec::Session session = model.session();
  edgespec::Text dropped = session.begin({5, 60, 7}, how);
  edgespec::Text text = session.begin({5, 60, 7}, how);
  const edgespec::Session moved = std::move(session);
  try {
    pieces(dropped);
  } catch (const std::logic_error& error) {
    std::cout << error.what() << "\n";
  }
  std::cout << pieces(text) << " pieces\n";
}
