#ifndef GRADWIRE_PROCESS_GROUP_H_
#define GRADWIRE_PROCESS_GROUP_H_

#include <gradwire/error.h>
#include <gradwire/export.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace gradwire {

// Where a process stands in a run, and how it talks with the others. A field that is left
// as it is comes from the environment, and else has the default named here:
//
//   field > GRADWIRE_FIELD (GRADWIRE_WORLD_SIZE) > torchrun's, OpenMPI's, Slurm's,
//   Kubernetes' variables > default
//
// A program that nobody launched, and that says nothing, is a run of one rank.
struct GroupOptions {
  // "host:port" where the coordinator listens. Default 127.0.0.1:29400; a run of one rank
  // with no address given has a port of its own.
  std::string coordinator;
  int rank = -1;        // from 0; default: the coordinator deals
  int world_size = 0;   // ranks in the run; default: what the coordinator says
  int local_rank = -1;  // among the processes of this host, from 0; default 0

  // If nobody listens at `coordinator`, and it is an address of this host, rank 0 is the
  // coordinator too, on threads of this process. It needs `world_size` for that.
  bool host_coordinator = true;
  // "host:port" or "off": the live page and metrics of the coordinator that this process
  // hosts. Default 127.0.0.1:9400, or another port if that one is taken; environment:
  // GRADWIRE_COORDINATOR_METRICS.
  std::string coordinator_metrics;

  // How bytes are averaged: "auto" (default), "ring", "sharded" or "coordinator"; in float32 with
  // the same bits. Equal on all ranks.
  std::string backend;
  // Gradients on the wire: "fp32" (default), "bf16" or "fp16"; sums are made in float32 and
  // rounded once. Of DistributedDataParallel only. Equal on all ranks.
  std::string wire;
  // Fewer bytes for gradients, in place of `wire`: "none" (default), "int8", "top-k:D", the share D
  // of elements that are largest, or "powersgd:R", matrices as products of rank R. What a rank
  // leaves out it adds in the next step. int8 and top-k need "sharded" or "coordinator", and "auto"
  // is "sharded" then. Of DistributedDataParallel only. Equal on all ranks.
  std::string compress;
  // top-k: averaging passes of a model in which the share falls from a quarter to D; powersgd:
  // first ones that go without. Default 0.
  int64_t compress_warmup = 0;
  int connections = 0;  // to each peer, default 1

  // What is averaged, for pages and messages. Default: the program's file name.
  std::string name;
  // "host:port" or "off" (default): where this process serves Prometheus metrics; port 0
  // picks one.
  std::string metrics;
  // File for a time line in Chrome's trace format; "{rank}" in it becomes the rank. Default: none.
  std::string trace;

  // "host:port" where peers connect; default: a free port of the address that this host has towards
  // the coordinator, or of all with `advertise`.
  std::string listen;
  std::string advertise;  // host that peers use; default: of the connection to the coordinator

  double connect_timeout_seconds = 0;  // until the coordinator answers; default 30
  // Until all ranks have done their part of a step or a collective, from this rank's own
  // on; default 300. Until all ranks are there when the group is made: the coordinator's, 600.
  double step_timeout_seconds = 0;
  // A secret that all calls of the run carry, in a file: the same for all ranks. A coordinator that
  // this process hosts lets in only calls that carry it. Default: none, for the other ranks could
  // not know it; but `gradwire launch` makes one, and so does a run of one rank that hosts itself.
  std::string token_file;
  // PEM files, all three or none: this host's certificate, its key, and the CA of the run. With
  // them all calls are encrypted, and only who has a certificate of that CA is let in; in a run of
  // one rank that hosts itself nothing leaves this host, and they are not used. Pages and metrics
  // are served by HTTPS then, to the same, unless GRADWIRE_PLAIN_HTTP is true. Default: none.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  // Without them: lets what is listened at be in the reach of anybody, beyond this host and private
  // networks.
  bool insecure = false;
  // Lets malloc keep freed memory, for the whole process (mallopt): what gradients are
  // received in is not faulted in again at each step.
  bool keep_freed_memory = true;
};

enum class ReduceOp { kSum, kMean };

// All processes of a run, each with one rank. Made by init_process_group.
//
// A collective is called by all ranks, in the same order, each on one thread at a time:
// that of the group, where DistributedDataParallel and backward run too. Tensors are on the
// CPU, dense, of equal shape and type on all ranks, and may be of any layout in memory. They are
// changed in place, with no history of autograd.
//
// All methods but close() throw Error:
//   kInvalidArgument     a tensor that is not as told here, on this rank; nothing was sent.
//                        Other ranks wait until their timeout, unless they make the same mistake
//   kFailedPrecondition  the group is closed
//   kDeadlineExceeded    ranks did not come within step_timeout_seconds
//   kAborted             the run is over: a rank failed, was lost, or called something else;
//                        names it
//   kUnavailable         the coordinator or a peer is out of reach
class GRADWIRE_EXPORT ProcessGroup {
 public:
  // As close(), but what goes wrong is only logged.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  // These stay as they are, also once the group is closed. From any thread.
  int rank() const;        // of this process, from 0
  int world_size() const;  // how many ranks there are
  int local_rank() const;  // of this process among those of its host, from 0

  // Replaces `tensor` by the sum or mean over all ranks; equal, bit for bit, on all of
  // them. Floating point or integers. Summed in rank order in float64 (integers: in int64)
  // and then made the tensor's type, so integers wrap around and means of them are cut off
  // towards 0; but a float32 mean of 256 KiB or more is summed as gradients are, in float32.
  void all_reduce(torch::Tensor tensor, ReduceOp op = ReduceOp::kSum);
  // Replaces `tensor` by that of rank `root`. Any type.
  void broadcast(torch::Tensor tensor, int root = 0);
  // The tensors of all ranks, by rank; of this one it is a copy. Any type.
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor);
  // Returns once all ranks have called it.
  void barrier();

  // Says that this rank is done, and returns once all ranks have said so: until then others may
  // need what this process serves. May be called again, and then does nothing;
  // DistributedDataParallel objects of the group may be destroyed later.
  //   kAborted, kUnavailable, kInternal  the run had failed; or the trace cannot be written
  void close();

  // Where the live page of the hosted coordinator is, "host:port"; "" if this process hosts
  // none, or it has none.
  std::string page() const;

 private:
  class GRADWIRE_HIDDEN Impl;
  friend class DistributedDataParallel;
  friend GRADWIRE_EXPORT std::shared_ptr<ProcessGroup> init_process_group(const GroupOptions&);

  explicit ProcessGroup(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

// Joins the run, and returns when all its ranks are there. A process may be in several
// groups, of different runs. What happens is told in the log, on stderr (spdlog's default
// logger if the program has set one). Installs no signal handler. Throws Error:
//   kInvalidArgument     an option or a variable of the environment makes no sense; or one that
//                        has to be equal on all ranks is not, as the token
//   kFailedPrecondition  an address cannot be bound; the rank is taken; the run has all ranks
//   kUnavailable         the coordinator does not answer within connect_timeout_seconds
//   kDeadlineExceeded    not all ranks came; names those that are missing
//   kAborted             the run ended before it began
GRADWIRE_EXPORT std::shared_ptr<ProcessGroup> init_process_group(const GroupOptions& options = {});

}  // namespace gradwire

#endif  // GRADWIRE_PROCESS_GROUP_H_
