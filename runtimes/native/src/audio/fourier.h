// Discrete Fourier transforms of real numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace edgespec {

// Power spectra of frames of one size: twice a product of small primes (Cooley and Tukey, 1965). It
// reuses its scratch memory from call to call, so two threads must not share one.
class PowerSpectrum {
 public:
  explicit PowerSpectrum(int64_t size);

  // |X_k|² for k = 0 … size / 2, of X_k = Σ_j frame_j · exp(-2πi · jk / size). Valid until the next
  // call.
  std::span<const double> operator()(std::span<const double> frame);

 private:
  struct Complex {
    double real = 0, imaginary = 0;
  };

  // The transform of `size` pairs of numbers of a frame, each `stride` pairs after the one before.
  // A pair is a complex number.
  void transform(const double* frame, int64_t stride, int64_t size, Complex* found);
  // Joins the transforms of `parts` parts, one after the other in `found`.
  void join(int64_t parts, int64_t size, Complex* found);
  // |X_k|² of the frame, from the transform Z of its pairs.
  double power(int64_t k) const;

  int64_t pairs_;
  std::vector<Complex> roots_;  // exp(-2πi · k / size)
  std::vector<Complex> found_;
  std::vector<double> power_;
};

}  // namespace edgespec
