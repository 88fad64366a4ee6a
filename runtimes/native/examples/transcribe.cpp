// Says what is said in a sound, and when: transcribe PAIR LIBONNXRUNTIME SOUND
// SOUND is raw: ffmpeg -i speech.mp3 -ac 1 -ar 16000 -f f32le speech.f32
#include <edgespec.hpp>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>

int main(int count, char** given) {
  if (count != 4) {
    std::cerr << "transcribe PAIR LIBONNXRUNTIME SOUND\n";
    return 2;
  }
  try {
    std::ifstream file(given[3], std::ios::binary);
    if (!file) throw std::runtime_error(std::string(given[3]) + " cannot be read");
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    std::vector<float> sound(bytes.size() / sizeof(float));
    bytes.copy(reinterpret_cast<char*>(sound.data()), sound.size() * sizeof(float));

    edgespec::LoadOptions where;
    where.onnxruntime = given[2];
    edgespec::Model model(given[1], where);
    edgespec::Session session = model.session();
    std::cout << std::fixed << std::setprecision(2);
    for (const edgespec_segment& segment : session.begin_transcript(sound))
      std::cout << segment.start << " " << segment.end << " " << segment.text << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
