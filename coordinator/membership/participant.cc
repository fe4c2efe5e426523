#include "coordinator/membership/participant.h"

#include <algorithm>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/wire/view.h"

namespace gradwire {

Wish WishOf(const v1::Hello& hello) {
  Wish wish;
  for (uint32_t rank : hello.ranks()) wish.emplace_back(static_cast<int>(rank));
  return wish;
}

Participant WorkerOf(SessionId session, const v1::Hello& hello, absl::Time now) {
  Participant worker;
  worker.session = session;
  worker.incarnation = Incarnation(hello.incarnation());
  worker.address = hello.address();
  worker.last_heard = now;
  worker.wish = WishOf(hello);
  worker.metrics = hello.metrics();
  worker.threads = static_cast<int>(hello.threads());
  worker.cores = static_cast<int>(hello.cores());
  worker.host = hello.host();
  worker.cannot_recover = hello.cannot_recover();
  worker.pid = hello.pid();
  return worker;
}

Participant AggregatorOf(SessionId session, const v1::Offer& offer, absl::Time now) {
  Participant aggregator;
  aggregator.session = session;
  aggregator.incarnation = Incarnation(offer.incarnation());
  aggregator.address = offer.address();
  aggregator.last_heard = now;
  aggregator.share = 0;
  return aggregator;
}

std::string NameOf(const Participant& participant) {
  if (participant.share) return absl::StrCat("aggregator ", *participant.share);
  return NameOf(participant.ranks);
}

std::string Describe(const Participant& participant) {
  return absl::StrCat(NameOf(participant), " (", participant.address, ")");
}

int ThreadsFor(const std::vector<const Participant*>& workers) {
  std::map<std::string, int> ranks;  // by host
  for (const Participant* worker : workers) {
    if (worker->threads > 0) return worker->threads;
    ranks[worker->host] += static_cast<int>(worker->ranks.size());
  }
  int smallest = std::numeric_limits<int>::max();
  for (const Participant* worker : workers) {
    smallest = std::min(smallest, std::max(1, worker->cores / ranks[worker->host]));
  }
  return smallest;
}

}  // namespace gradwire
