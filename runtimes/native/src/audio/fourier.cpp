#include "audio/fourier.h"

#include <array>
#include <cmath>
#include <numbers>

namespace edgespec {
namespace {

constexpr int64_t kMostParts = 16;

int64_t smallest_factor(int64_t number) {
  int64_t factor = 2;
  while (number % factor != 0) ++factor;
  return factor;
}

}  // namespace

PowerSpectrum::PowerSpectrum(int64_t size)
    : pairs_(size / 2), roots_(size), found_(size / 2), power_(size / 2 + 1) {
  for (int64_t k = 0; k < size; ++k) {
    const double angle = -2 * std::numbers::pi * double(k) / double(size);
    roots_[k] = {std::cos(angle), std::sin(angle)};
  }
}

std::span<const double> PowerSpectrum::operator()(std::span<const double> frame) {
  transform(frame.data(), 1, pairs_, found_.data());
  for (int64_t k = 0; k <= pairs_; ++k) power_[k] = power(k);
  return power_;
}

// X_k = E_k + exp(-2πi · k / size) · O_k, of the even and the odd numbers of the frame, and
// Z_k = E_k + i · O_k.
double PowerSpectrum::power(int64_t k) const {
  const Complex &z = found_[k % pairs_], &mirrored = found_[(pairs_ - k) % pairs_];
  const Complex even = {(z.real + mirrored.real) / 2, (z.imaginary - mirrored.imaginary) / 2};
  const Complex odd = {(z.imaginary + mirrored.imaginary) / 2, (mirrored.real - z.real) / 2};
  const Complex& root = roots_[k];
  const double real = even.real + odd.real * root.real - odd.imaginary * root.imaginary;
  const double imaginary = even.imaginary + odd.real * root.imaginary + odd.imaginary * root.real;
  return real * real + imaginary * imaginary;
}

void PowerSpectrum::transform(const double* frame, int64_t stride, int64_t size, Complex* found) {
  if (size == 1) {
    *found = {frame[0], frame[1]};
    return;
  }
  const int64_t parts = smallest_factor(size), each = size / parts;
  for (int64_t part = 0; part < parts; ++part) {
    transform(frame + 2 * part * stride, stride * parts, each, found + part * each);
  }
  join(parts, size, found);
}

void PowerSpectrum::join(int64_t parts, int64_t size, Complex* found) {
  const int64_t each = size / parts, whole = std::ssize(roots_), step = whole / size;
  std::array<Complex, kMostParts> old;
  for (int64_t k = 0; k < each; ++k) {
    for (int64_t part = 0; part < parts; ++part) old[part] = found[part * each + k];
    for (int64_t j = k; j < size; j += each) {
      Complex sum = old[0];
      int64_t turn = 0;  // part · j · step, less whole turns
      for (int64_t part = 1; part < parts; ++part) {
        turn += j * step;
        if (turn >= whole) turn -= whole;
        const Complex root = roots_[turn];
        sum.real += old[part].real * root.real - old[part].imaginary * root.imaginary;
        sum.imaginary += old[part].real * root.imaginary + old[part].imaginary * root.real;
      }
      found[j] = sum;
    }
  }
}

}  // namespace edgespec
