// Log-mel spectrograms of sound, as Whisper reads them (Radford et al. 2022, section 2.2).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "audio/fourier.h"

namespace edgespec {

constexpr int64_t kSoundRate = 16'000;  // samples per second
constexpr int64_t kHop = 160;           // samples from frame to frame: 10 ms
constexpr int64_t kFramesPerSecond = kSoundRate / kHop;

// The frequencies of a mel band: factors of the powers from `first` on.
struct MelFilter {
  int64_t first = 0;
  std::vector<double> factors;
};

// Triangles of equal area on Slaney's mel scale (Auditory Toolbox, 1998), for the frequencies of a
// frame's spectrum, 0 to 8 kHz.
std::vector<MelFilter> mel_filters(int64_t mel_bins);

// The log-mel spectrogram of a whole sound, computed window by window.
//
// Its values are relative to the loudest of the whole sound, which is therefore read twice.
class Spectrogram {
 public:
  // `samples`: mono, at `kSoundRate`, about -1 to 1; they must outlive it.
  Spectrogram(std::span<const float> samples, int64_t mel_bins);

  int64_t frames() const { return std::ssize(samples_) / kHop; }
  // Frames start … start + count - 1, [mel bins, count]; 0 after the sound, as the models were
  // trained.
  std::vector<float> window(int64_t start, int64_t count);

 private:
  // A frame's power in each band; valid until the next call.
  std::span<const double> powers(int64_t frame);
  // A sample; the beginning is mirrored, and the sound is silent after its end.
  double sample(int64_t at) const;

  std::span<const float> samples_;
  std::vector<MelFilter> filters_;
  std::vector<double> hann_, frame_, powers_;
  PowerSpectrum spectrum_;
  double loudest_ = 0;  // log₁₀ of a band's power
};

}  // namespace edgespec
