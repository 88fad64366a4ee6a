#include "audio/log_mel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <numeric>

namespace edgespec {
namespace {

constexpr int64_t kWindow = 400;               // samples that a frame sees: 25 ms
constexpr double kFloor = 1e-10;               // of a band's power
constexpr double kRange = 8;                   // powers of ten below the loudest that are kept
constexpr double kHighest = kSoundRate / 2.0;  // Hz

// The scale is linear up to 1 kHz, 15 mels, then logarithmic.
constexpr double kLinear = 200 / 3.0;  // Hz per mel
constexpr double kLogarithmicFrom = 1000;
const double kFactor = std::log(6.4) / 27;

double mels(double hertz) {
  return kLogarithmicFrom / kLinear + std::log(hertz / kLogarithmicFrom) / kFactor;
}

double hertz(double mels) {
  const double first = kLogarithmicFrom / kLinear;
  if (mels < first) return kLinear * mels;
  return kLogarithmicFrom * std::exp(kFactor * (mels - first));
}

// log₁₀ of a power.
double level(double power) { return std::log10(std::max(power, kFloor)); }

}  // namespace

std::vector<MelFilter> mel_filters(int64_t mel_bins) {
  const double step = mels(kHighest) / double(mel_bins + 1);
  const double bin = kHighest / (kWindow / 2);  // Hz
  std::vector<MelFilter> filters(mel_bins);
  for (int64_t band = 0; band < mel_bins; ++band) {
    const double low = hertz(double(band) * step), middle = hertz(double(band + 1) * step),
                 high = hertz(double(band + 2) * step);
    MelFilter& filter = filters[band];
    for (int64_t k = 0; k <= kWindow / 2; ++k) {
      const double at = double(k) * bin;
      const double height = std::min((at - low) / (middle - low), (high - at) / (high - middle));
      if (height <= 0) continue;
      if (filter.factors.empty()) filter.first = k;
      filter.factors.push_back(height * (2 / (high - low)));
    }
  }
  return filters;
}

Spectrogram::Spectrogram(std::span<const float> samples, int64_t mel_bins)
    : samples_(samples),
      filters_(mel_filters(mel_bins)),
      hann_(kWindow),
      frame_(kWindow),
      powers_(mel_bins),
      spectrum_(kWindow) {
  for (int64_t i = 0; i < kWindow; ++i) {
    hann_[i] = 0.5 - 0.5 * std::cos(2 * std::numbers::pi * double(i) / kWindow);
  }
  double most = 0;
  for (int64_t frame = 0; frame < frames(); ++frame) {
    most = std::max(most, std::ranges::max(powers(frame)));
  }
  loudest_ = level(most);
}

std::vector<float> Spectrogram::window(int64_t start, int64_t count) {
  std::vector<float> found(filters_.size() * count);
  for (int64_t frame = start; frame < std::min(start + count, frames()); ++frame) {
    float* column = found.data() + (frame - start);
    for (const double power : powers(frame)) {
      *column = float((std::max(level(power), loudest_ - kRange) + 4) / 4);
      column += count;
    }
  }
  return found;
}

std::span<const double> Spectrogram::powers(int64_t frame) {
  const int64_t first = frame * kHop - kWindow / 2;
  for (int64_t i = 0; i < kWindow; ++i) frame_[i] = sample(first + i) * hann_[i];
  const std::span<const double> spectrum = spectrum_(frame_);
  for (size_t band = 0; band < filters_.size(); ++band) {
    const auto& [bin, factors] = filters_[band];
    powers_[band] = std::inner_product(factors.begin(), factors.end(), spectrum.begin() + bin, 0.0);
  }
  return powers_;
}

double Spectrogram::sample(int64_t at) const {
  const int64_t there = std::abs(at);
  return there < std::ssize(samples_) ? samples_[there] : 0;
}

}  // namespace edgespec
