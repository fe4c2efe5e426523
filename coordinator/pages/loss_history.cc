#include "coordinator/pages/loss_history.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gradwire {
namespace {

constexpr size_t kLosses = 100;

std::string Describe(const Adoption& adoption) {
  std::vector<Rank> own;
  std::set_difference(adoption.by.ranks.begin(), adoption.by.ranks.end(), adoption.ranks.begin(),
                      adoption.ranks.end(), std::back_inserter(own));
  const absl::string_view is = adoption.ranks.size() > 1 ? " are" : " is";
  return absl::StrCat(NameOf(adoption.ranks), is, " carried on with ", NameOf(own), " at ",
                      adoption.by.address);
}

}  // namespace

void LossHistory::Add(LostWorker loss) {
  MutexLock lock(&mutex_);
  ++totals_.losses;
  losses_.push_back(std::move(loss));
  if (losses_.size() > kLosses) losses_.pop_front();
}

void LossHistory::GoOn(Continuation continuation) {
  MutexLock lock(&mutex_);
  for (const Adoption& adoption : continuation.adoptions) {
    totals_.recovered_ranks += adoption.ranks.size();
  }
  losses_.back().continued = std::move(continuation);
}

absl::Duration LossHistory::AddCost(Generation generation, const LostTime& cost) {
  MutexLock lock(&mutex_);
  for (LostWorker& loss : losses_) {
    if (!loss.continued || loss.continued->generation != generation) continue;
    const LostTime known = loss.continued->cost.value_or(LostTime());
    if (loss.continued->cost && cost.total() <= known.total()) break;
    loss.continued->cost = cost;
    totals_.lost.computing += cost.computing - known.computing;
    totals_.lost.waiting += cost.waiting - known.waiting;
    totals_.lost.connecting += cost.connecting - known.connecting;
    return cost.total() - known.total();
  }
  return absl::ZeroDuration();
}

std::vector<LostWorker> LossHistory::Losses() const {
  MutexLock lock(&mutex_);
  return {losses_.begin(), losses_.end()};
}

LossHistory::Totals LossHistory::totals() const {
  MutexLock lock(&mutex_);
  return totals_;
}

std::string Describe(const std::vector<Adoption>& adoptions) {
  std::string text;
  for (const Adoption& adoption : adoptions) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", Describe(adoption));
  }
  return text;
}

}  // namespace gradwire
