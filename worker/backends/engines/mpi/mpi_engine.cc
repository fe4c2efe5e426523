#include <climits>
#include <csignal>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "worker/backends/engines/engine.h"
#include "worker/backends/engines/mpi/mpi_thread.h"

namespace gradwire {
namespace {

void Copy(absl::Span<const uint8_t> from, uint8_t* to) {
  if (!from.empty()) std::memcpy(to, from.data(), from.size());
}

void Copy(const uint8_t* from, absl::Span<uint8_t> to) {
  if (!to.empty()) std::memcpy(to.data(), from, to.size());
}

absl::Span<uint8_t> BytesOf(absl::Span<float> values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float)};
}

// OpenMPI's collectives. OpenMPI finds the peers and chooses the network.
class MpiEngine : public CollectiveEngine {
 public:
  // OpenMPI writes to sockets whose other end may be closed.
  explicit MpiEngine(int groups) : thread_(std::make_shared<MpiThread>(groups)) {
    std::signal(SIGPIPE, SIG_IGN);
  }
  ~MpiEngine() override { thread_->End(); }

  absl::Status Bind(const std::string&) override { return absl::OkStatus(); }
  absl::Status Connect(int rank, int world_size, KeyValueStore*) override {
    rank_ = rank;
    return thread_->Start(rank, world_size);
  }

  void Sum(absl::Span<const float> terms, absl::Span<float> sum, Done done) override {
    const int count = static_cast<int>(terms.size());
    const absl::Span<const uint8_t> bytes = {reinterpret_cast<const uint8_t*>(terms.data()),
                                             terms.size() * sizeof(float)};
    Add(
        terms.size(), bytes.size(),
        [=](uint8_t* memory, MPI_Comm group, MPI_Request* request) {
          Copy(bytes, memory);
          return MPI_Iallreduce(MPI_IN_PLACE, memory, count, MPI_FLOAT, MPI_SUM, group, request);
        },
        [=](const uint8_t* memory) { Copy(memory, BytesOf(sum)); }, std::move(done));
  }

  void Broadcast(absl::Span<uint8_t> bytes, int root, Done done) override {
    const bool is_root = rank_ == root;
    Add(
        bytes.size(), bytes.size(),
        [=](uint8_t* memory, MPI_Comm group, MPI_Request* request) {
          if (is_root) Copy(bytes, memory);
          return MPI_Ibcast(memory, static_cast<int>(bytes.size()), MPI_BYTE, root, group, request);
        },
        [=](const uint8_t* memory) {
          if (!is_root) Copy(memory, bytes);
        },
        std::move(done));
  }

  // The memory holds this rank's part; at the root, then all parts.
  void Gather(absl::Span<uint8_t> mine, const std::vector<absl::Span<uint8_t>>& parts, int root,
              Done done) override {
    const size_t size = mine.size();
    Add(
        size, size * (parts.size() + 1),
        [=](uint8_t* memory, MPI_Comm group, MPI_Request* request) {
          Copy(mine, memory);
          const int count = static_cast<int>(size);
          return MPI_Igather(memory, count, MPI_BYTE, memory + size, count, MPI_BYTE, root, group,
                             request);
        },
        [=](const uint8_t* memory) {
          for (size_t i = 0; i < parts.size(); ++i) Copy(memory + (i + 1) * size, parts[i]);
        },
        std::move(done));
  }

  // As for Gather.
  void Scatter(const std::vector<absl::Span<uint8_t>>& parts, absl::Span<uint8_t> mine, int root,
               Done done) override {
    const size_t size = mine.size();
    Add(
        size, size * (parts.size() + 1),
        [=](uint8_t* memory, MPI_Comm group, MPI_Request* request) {
          for (size_t i = 0; i < parts.size(); ++i) Copy(parts[i], memory + (i + 1) * size);
          const int count = static_cast<int>(size);
          return MPI_Iscatter(memory + size, count, MPI_BYTE, memory, count, MPI_BYTE, root, group,
                              request);
        },
        [=](const uint8_t* memory) { Copy(memory, mine); }, std::move(done));
  }

  absl::Status Finish(absl::Time deadline) override { return thread_->Finish(deadline); }
  // MPI does not say which rank is gone; mpirun does, and ends the others.
  std::vector<int> BrokenPeers() override { return {}; }
  void Abort() override { thread_->Abort(); }

 private:
  // `count`: elements that the collective gets, for which MPI has an int.
  template <typename Begin, typename Take>
  void Add(size_t count, size_t bytes, Begin begin, Take take, Done done) {
    if (count > INT_MAX) {
      return done(absl::InvalidArgumentError(absl::StrCat(
          "got a bucket of ", count, " elements, expected at most ", INT_MAX, " with MPI")));
    }
    thread_->Add({bytes, std::move(begin), std::move(take), std::move(done)});
  }

  const std::shared_ptr<MpiThread> thread_;
  int rank_ = -1;
};

}  // namespace
}  // namespace gradwire

gradwire::CollectiveEngine* gradwire_make_mpi_engine(int groups) {
  return new gradwire::MpiEngine(groups);
}
