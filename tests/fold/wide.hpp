// Numbers m * 2^e with an exponent in f64: limits of formulas that overflow f64 on the way.
#pragma once

#include <cmath>
#include <limits>

namespace attacca::fold {

struct Wide {
  double m = 0, e = 0;  // m: 0, not finite, or of magnitude [1, 2)

  Wide(double value = 0) : m(value) { normalise(); }
  Wide(double mantissa, double exponent) : m(mantissa), e(exponent) { normalise(); }

  void normalise() {
    if (m == 0 || !std::isfinite(m)) return void(e = 0);
    const int shift = std::ilogb(m);
    m = std::scalbn(m, -shift);
    e += shift;
  }
  // Saturates to infinity and zero.
  double number() const {
    if (m == 0 || !std::isfinite(m)) return m;
    if (std::fabs(e) > 2000) return e > 0 ? std::copysign(HUGE_VAL, m) : std::copysign(0.0, m);
    return std::scalbn(m, static_cast<int>(e));
  }
};

inline Wide operator-(Wide x) {
  x.m = -x.m;
  return x;
}
inline Wide operator*(Wide x, Wide y) {
  return {x.m * y.m, x.e + y.e};
}
inline Wide operator/(Wide x, Wide y) {
  return {x.m / y.m, x.e - y.e};
}
inline Wide operator+(Wide x, Wide y) {
  if (x.m == 0 || !std::isfinite(y.m)) return x.m == 0 ? y : Wide(x.m + y.m);
  if (y.m == 0 || !std::isfinite(x.m)) return x;
  if (x.e < y.e) return y + x;
  return x.e - y.e > 200 ? x : Wide(x.m + std::scalbn(y.m, static_cast<int>(y.e - x.e)), x.e);
}
inline Wide operator-(Wide x, Wide y) {
  return x + -y;
}
inline bool operator<(Wide x, Wide y) {
  if (!std::isfinite(x.m) || !std::isfinite(y.m)) return x.number() < y.number();
  return (x - y).m < 0;
}
inline bool operator>(Wide x, Wide y) {
  return y < x;
}
inline bool operator==(Wide x, Wide y) {
  return x.m == y.m && x.e == y.e;
}
inline bool operator<=(Wide x, Wide y) {
  return x < y || x == y;
}
inline bool operator>=(Wide x, Wide y) {
  return y <= x;
}

inline Wide exp(Wide x) {
  const double power = x.number() * 1.4426950408889634074;
  if (!std::isfinite(power)) return x.m > 0 ? HUGE_VAL : x.m < 0 ? 0 : x.m;
  const double whole = std::floor(power);
  return {std::exp2(power - whole), whole};
}
inline Wide log(Wide x) {
  if (!(x.m > 0) || std::isinf(x.m)) return std::log(x.m);
  return std::log(x.m) + x.e * 0.69314718055994530942;
}
inline Wide expm1(Wide x) {
  return std::fabs(x.number()) < 1 ? Wide(std::expm1(x.number())) : exp(x) - 1;
}
inline Wide log1p(Wide x) {
  return std::fabs(x.number()) < 1 ? Wide(std::log1p(x.number())) : log(x + 1);
}
inline Wide sqrt(Wide x) {
  if (!(x.m > 0) || std::isinf(x.m)) return std::sqrt(x.m);
  const bool odd = std::fmod(x.e, 2) != 0;
  return {std::sqrt(odd ? 2 * x.m : x.m), (odd ? x.e - 1 : x.e) / 2};
}
inline Wide pow(Wide x, Wide y) {
  const double n = y.number();
  if (!std::isfinite(x.m) || !std::isfinite(n) || x.m == 0 || n == 0) return std::pow(x.m, n);
  if (x.m < 0 && n != std::floor(n)) return std::numeric_limits<double>::quiet_NaN();
  const Wide magnitude = exp(Wide(n) * log(Wide(std::fabs(x.m), x.e)));
  return x.m < 0 && std::fmod(n, 2) != 0 ? -magnitude : magnitude;
}
inline Wide erfc(Wide x) {
  const double number = x.number();
  if (number < 20) return std::erfc(number);
  return exp(-(x * x)) / (x * 1.7724538509055160273);
}
inline Wide erf(Wide x) {
  return std::erf(x.number());
}
inline Wide tanh(Wide x) {
  return std::tanh(x.number());
}
inline Wide sin(Wide x) {
  return std::sin(x.number());
}
inline Wide cos(Wide x) {
  return std::cos(x.number());
}
inline Wide rounded(Wide x, double (*round)(double)) {
  return x.e > 60 ? x : Wide(round(x.number()));
}
inline double rounded(double x, double (*round)(double)) {
  return round(x);
}
inline bool is_nan(Wide x) {
  return std::isnan(x.m);
}
inline bool is_nan(double x) {
  return std::isnan(x);
}

}  // namespace attacca::fold
