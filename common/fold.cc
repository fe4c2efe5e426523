#include "common/fold.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "absl/container/inlined_vector.h"

namespace gradwire {
namespace {

// Elements that are summed in registers before the next rank is read.
constexpr size_t kTile = 64;

using Terms = absl::Span<const uint8_t* const>;

// The body of all kernels; compiled once per instruction set. Terms are byte
// pointers because received memory is unaligned.
__attribute__((always_inline)) inline void FoldBody(Terms terms, size_t count, float scale,
                                                    float* out) {
  size_t i = 0;
  for (; i + kTile <= count; i += kTile) {
    float sum[kTile];
    std::memcpy(sum, terms[0] + 4 * i, sizeof(sum));
    for (size_t r = 1; r < terms.size(); ++r) {
      float term[kTile];
      std::memcpy(term, terms[r] + 4 * i, sizeof(term));
      for (size_t k = 0; k < kTile; ++k) sum[k] += term[k];
    }
    for (size_t k = 0; k < kTile; ++k) sum[k] *= scale;
    std::memcpy(out + i, sum, sizeof(sum));
  }
  for (; i < count; ++i) {
    float sum, term;
    std::memcpy(&sum, terms[0] + 4 * i, sizeof(sum));
    for (size_t r = 1; r < terms.size(); ++r) {
      std::memcpy(&term, terms[r] + 4 * i, sizeof(term));
      sum += term;
    }
    out[i] = sum * scale;
  }
}

using Kernel = void (*)(Terms, size_t, float, float*);

void FoldBaseline(Terms terms, size_t count, float scale, float* out) {
  FoldBody(terms, count, scale, out);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void FoldAvx2(Terms terms, size_t count, float scale, float* out) {
  FoldBody(terms, count, scale, out);
}

__attribute__((target("avx512f,prefer-vector-width=512"))) void FoldAvx512(Terms terms,
                                                                           size_t count,
                                                                           float scale,
                                                                           float* out) {
  FoldBody(terms, count, scale, out);
}
#endif

struct Choice {
  Kernel kernel;
  const char* name;
};

Choice Choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return {FoldAvx512, "avx512"};
  if (__builtin_cpu_supports("avx2")) return {FoldAvx2, "avx2"};
#endif
  return {FoldBaseline, "baseline"};
}

const Choice& Chosen() {
  static const Choice choice = Choose();
  return choice;
}

// Walks the pieces of one term.
class Cursor {
 public:
  explicit Cursor(const Pieces& pieces) : pieces_(&pieces) { SkipEmpty(); }

  const uint8_t* data() const { return (*pieces_)[index_].data() + used_; }
  size_t left() const { return (*pieces_)[index_].size() - used_; }

  void Advance(size_t bytes) {
    used_ += bytes;
    SkipEmpty();
  }

  // Copies the next element, which may straddle pieces, to `element`, goes
  // behind it, and returns where it is.
  const uint8_t* TakeElement(std::array<uint8_t, 4>* element) {
    for (size_t have = 0; have < 4;) {
      const size_t take = std::min(left(), 4 - have);
      std::memcpy(element->data() + have, data(), take);
      have += take;
      Advance(take);
    }
    return element->data();
  }

 private:
  void SkipEmpty() {
    while (index_ < pieces_->size() && used_ == (*pieces_)[index_].size()) {
      ++index_;
      used_ = 0;
    }
  }

  const Pieces* pieces_;
  size_t index_ = 0;
  size_t used_ = 0;
};

template <typename T>
using PerTerm = absl::InlinedVector<T, 16>;

// Elements that lie whole in the current piece of every term, at most `limit`.
size_t RunLength(const PerTerm<Cursor>& cursors, size_t limit) {
  for (const Cursor& cursor : cursors) limit = std::min(limit, cursor.left() / 4);
  return limit;
}

void FoldPieces(PerTerm<Cursor> cursors, float scale, absl::Span<float> out) {
  const Kernel kernel = Chosen().kernel;
  PerTerm<const uint8_t*> terms(cursors.size());
  PerTerm<std::array<uint8_t, 4>> straddling(cursors.size());
  for (size_t done = 0; done < out.size();) {
    const size_t run = RunLength(cursors, out.size() - done);
    for (size_t r = 0; r < terms.size(); ++r) {
      terms[r] = run > 0 ? cursors[r].data() : cursors[r].TakeElement(&straddling[r]);
    }
    kernel(terms, std::max<size_t>(run, 1), scale, &out[done]);
    for (Cursor& cursor : cursors) cursor.Advance(4 * run);
    done += std::max<size_t>(run, 1);
  }
}

}  // namespace

void Fold(absl::Span<const Pieces> terms, absl::Span<float> out) {
  if (out.empty()) return;
  PerTerm<Cursor> cursors;
  for (const Pieces& term : terms) cursors.emplace_back(term);
  FoldPieces(std::move(cursors), 1.0f / static_cast<float>(terms.size()), out);
}

void AddScaled(const Pieces& a, const float* b, float scale, absl::Span<float> out) {
  if (out.empty()) return;
  const Pieces own = {{reinterpret_cast<const uint8_t*>(b), 4 * out.size()}};
  FoldPieces({Cursor(a), Cursor(own)}, scale, out);
}

absl::string_view FoldInstructionSet() { return Chosen().name; }

}  // namespace gradwire
