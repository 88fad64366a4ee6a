// Goes on from several texts at once: together PAIR LIBONNXRUNTIME TEXT…
#include <edgespec.hpp>
#include <iostream>

int main(int count, char** given) {
  if (count < 4) {
    std::cerr << "together PAIR LIBONNXRUNTIME TEXT…\n";
    return 2;
  }
  try {
    edgespec::LoadOptions where;
    where.onnxruntime = given[2];
    const edgespec::Model model(given[1], where);
    const std::vector<std::string> texts(given + 3, given + count);
    std::vector<std::string> made(texts.size());

    edgespec::Batch batch = model.batch(texts.size());
    edgespec::Options how;
    how.gamma = EDGESPEC_GAMMA_AUTO;
    how.max_new_tokens = 32;
    for (const std::string& text : texts) batch.add_text(text, how);
    while (batch.next()) made[batch.text()].append(batch.piece().text, batch.piece().text_bytes);
    for (const std::string& text : made) std::cout << text << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
