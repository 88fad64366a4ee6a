// Functions of sounds and their texts, for tests/native: what the interface does not show.
#include <algorithm>
#include <vector>

#include "audio/log_mel.h"
#include "edgespec.h"

using namespace edgespec;

extern "C" {

// Frames of a sound's spectrogram, [mel_bins, count].
EDGESPEC_API void edgespec_hook_log_mel(const float* samples, size_t samples_count,
                                        int64_t mel_bins, int64_t start, int64_t count,
                                        float* found) {
  Spectrogram spectrogram({samples, samples_count}, mel_bins);
  std::ranges::copy(spectrogram.window(start, count), found);
}
}
