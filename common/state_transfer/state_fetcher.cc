#include "common/state_transfer/state_fetcher.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/status_util.h"
#include "common/rpc/channel.h"
#include "common/wire/xxh3.h"

namespace gradwire {
namespace {

constexpr uint64_t kBytesOfACall = 4 << 20;

// Puts pieces into the places of the ranges, one after the other.
class Placing {
 public:
  explicit Placing(const std::vector<WantedRange>& ranges) : ranges_(ranges) { SkipFull(); }

  absl::Status Take(const v1::StatePiece& piece) {
    const std::string& data = piece.data();
    const uint64_t checksum = Xxh3InUse().whole(data.data(), data.size());
    if (checksum != piece.checksum()) {
      return absl::DataLossError(absl::StrCat("a piece of the state: got checksum ", checksum,
                                              ", expected ", piece.checksum()));
    }
    if (IsDone() || data.empty() || data.size() > ranges_[range_].out.size() - filled_) {
      return absl::InternalError(absl::StrCat("a piece of the state: got ", data.size(),
                                              " bytes, which is not what was asked for"));
    }
    std::memcpy(ranges_[range_].out.data() + filled_, data.data(), data.size());
    filled_ += data.size();
    SkipFull();
    return absl::OkStatus();
  }

  bool IsDone() const { return range_ == ranges_.size(); }

 private:
  void SkipFull() {
    while (range_ < ranges_.size() && filled_ == ranges_[range_].out.size()) {
      ++range_;
      filled_ = 0;
    }
  }

  const std::vector<WantedRange>& ranges_;
  size_t range_ = 0;   // the next to fill
  size_t filled_ = 0;  // bytes of it
};

}  // namespace

StateFetcher::StateFetcher(std::shared_ptr<grpc::Channel> channel, std::string who, v1::StateId id,
                           absl::Duration timeout, std::function<absl::Status()> ended)
    : channel_(std::move(channel)),
      stub_(v1::State::NewStub(channel_)),
      who_(std::move(who)),
      id_(std::move(id)),
      timeout_(timeout),
      ended_(std::move(ended)) {}

absl::Status StateFetcher::Explain(const absl::Status& status) const {
  return Annotate(status, absl::StrCat("state before step ", id_.step(), " from ", who_));
}

absl::Status StateFetcher::AwaitConnection() const {
  return ended_ ? WaitConnected(channel_.get(), who_, ended_) : absl::OkStatus();
}

absl::StatusOr<v1::StateCatalog> StateFetcher::Describe() {
  if (absl::Status connected = AwaitConnection(); !connected.ok()) return connected;
  grpc::ClientContext context;
  context.set_deadline(ToGrpcDeadline(SteadyNow() + timeout_));
  v1::StateCatalog catalog;
  const grpc::Status status = stub_->Describe(&context, id_, &catalog);
  if (!status.ok()) return Explain(FromGrpc(status));
  return catalog;
}

absl::Status StateFetcher::Fetch(const std::vector<WantedRange>& ranges) {
  if (absl::Status connected = AwaitConnection(); !connected.ok()) return connected;
  v1::FetchRequest request;
  *request.mutable_id() = id_;
  for (const WantedRange& wanted : ranges) {
    v1::StateRange& range = *request.add_ranges();
    range.set_section(wanted.section);
    range.set_key(wanted.key);
    range.set_begin(wanted.begin);
    range.set_bytes(wanted.out.size());
  }
  grpc::ClientContext context;
  context.set_deadline(ToGrpcDeadline(SteadyNow() + timeout_));
  Placing placing(ranges);
  absl::Status taken;
  v1::StatePiece piece;
  const auto reader = stub_->Fetch(&context, request);
  while (taken.ok() && reader->Read(&piece)) taken = placing.Take(piece);
  if (!taken.ok()) context.TryCancel();
  const grpc::Status status = reader->Finish();
  if (!taken.ok()) return Explain(taken);
  if (!status.ok()) return Explain(FromGrpc(status));
  if (placing.IsDone()) return absl::OkStatus();
  return Explain(absl::InternalError("the call ended before all bytes had come"));
}

absl::Status StateFetcher::FetchTensor(const std::string& section, const std::string& key,
                                       absl::Span<uint8_t> out) {
  absl::Status fetched;
  for (uint64_t begin = 0; fetched.ok() && begin < out.size(); begin += kBytesOfACall) {
    fetched = Fetch({{section, key, begin, out.subspan(begin, kBytesOfACall)}});
  }
  return fetched;
}

}  // namespace gradwire
