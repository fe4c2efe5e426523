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

// A process's place in a run, and its network settings. A field that is not set takes its value
// from the environment, or else the default given here:
//
//   field > GRADWIRE_FIELD (GRADWIRE_WORLD_SIZE) > torchrun's, OpenMPI's, Slurm's,
//   Kubernetes' variables > default
//
// A program that was not launched and sets no field is a run of one rank.
struct GroupOptions {
  // "host:port" of the coordinator. Default: 127.0.0.1:29400; a run of one rank without an address
  // uses a free port.
  std::string coordinator;
  int rank = -1;        // from 0; default: assigned by the coordinator
  int world_size = 0;   // ranks in the run; default: the coordinator's
  int local_rank = -1;  // among the processes of this host, from 0; default 0

  // Rank 0 also runs the coordinator, on threads of this process, if no program listens at
  // `coordinator` and that is an address of this host. This needs `world_size`.
  bool host_coordinator = true;
  // "host:port" or "off": the live page and metrics of the coordinator that this process hosts.
  // Default: 127.0.0.1:9400, or a free port if that one is taken. Environment:
  // GRADWIRE_COORDINATOR_METRICS.
  std::string coordinator_metrics;

  // How bytes are averaged: "auto" (default), "memory", "ring", "sharded" or "coordinator". All
  // give the same bits in float32. Must be equal on all ranks.
  std::string backend;
  // "auto" (default): if all ranks are processes of one host and user, outside containers of their
  // own, "auto" exchanges through shared memory. "off": not with this process.
  std::string shared_memory;
  // Type of gradients on the wire: "fp32" (default), "bf16" or "fp16". Sums are computed in float32
  // and rounded once. Only for DistributedDataParallel. Must be equal on all ranks.
  std::string wire;
  // Compression of gradients, instead of `wire`: "none" (default); "int8"; "top-k:D", the share D
  // of largest elements; or "powersgd:R", matrices as products of rank R. A rank adds what it
  // leaves out in the next step. int8 and top-k need "auto", "sharded", "coordinator" or
  // "memory". Only for DistributedDataParallel. Must be equal on all ranks.
  std::string compress;
  // With top-k: averaging passes of a model in which the share falls from a quarter to D. With
  // powersgd: first passes that are not compressed. Default: 0.
  int64_t compress_warmup = 0;
  int connections = 0;  // number of connections to each peer; default 1

  // Name of the computation on pages and in messages. Default: the program's file name.
  std::string name;
  // "host:port" or "off" (default): where this process serves Prometheus metrics; port 0 picks a
  // free port.
  std::string metrics;
  // File for a time line in Chrome's trace format; "{rank}" in it becomes the rank. Default: none.
  std::string trace;

  // "host:port" at which peers connect. Default: a free port at this host's interface towards the
  // coordinator, or at all interfaces if `advertise` is set.
  std::string listen;
  std::string advertise;  // host that peers use; default: this end of the coordinator's connection

  double connect_timeout_seconds = 0;  // longest wait for an answer of the coordinator; default 30
  // Longest wait for the other ranks in a step or a collective, from this rank's own part on;
  // default 300. init_process_group waits for all ranks as long as the coordinator does, which is
  // its --rendezvous-timeout-seconds.
  double step_timeout_seconds = 0;
  // File with a secret, the same for all ranks, that all calls of the run carry. A coordinator
  // hosted by this process accepts only calls that carry it. Default: none, because the other ranks
  // could not know it; but `gradwire launch` creates one, and so does a run of one rank that hosts
  // itself.
  std::string token_file;
  // PEM files, all three or none: this host's certificate, its key, and the CA of the run. With
  // them all calls are encrypted, and only peers with a certificate of that CA are accepted. Pages
  // and metrics are then served by HTTPS to the same peers, unless GRADWIRE_PLAIN_HTTP is true. A
  // run of one rank that hosts itself ignores them, because nothing leaves this host. Default:
  // none.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  // Without TLS: allows listening on public addresses, beyond this host and private networks.
  bool insecure = false;
  // Lets malloc keep freed memory in the whole process (mallopt), so that receiving gradients
  // causes no new page faults in each step.
  bool keep_freed_memory = true;
};

enum class ReduceOp { kSum, kMean };

// All processes of a run, each with one rank. init_process_group makes it.
//
// Call each collective on all ranks, in the same order, on one thread at a time: the thread on
// which DistributedDataParallel and backward run, too. Tensors must be dense, on the CPU, and of
// equal shape and type on all ranks; any memory layout is allowed, except that elements of a tensor
// that is changed must not share memory. They are changed in place, without autograd history.
//
// All methods except close() throw Error:
//   kInvalidArgument     this rank's tensor does not meet these conditions; nothing was sent. Other
//                        ranks wait until their timeout, unless they make the same mistake
//   kFailedPrecondition  the group is closed
//   kDeadlineExceeded    ranks did not take part within step_timeout_seconds
//   kAborted             the run is over: a rank failed, was lost, or called something else; the
//                        message names it
//   kUnavailable         the coordinator or a peer cannot be reached
class GRADWIRE_EXPORT ProcessGroup {
 public:
  // Closes as close() does, but only logs errors.
  ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  // These never change, not even after close(). Call them from any thread.
  int rank() const;        // rank of this process, from 0
  int world_size() const;  // number of ranks
  int local_rank() const;  // index of this process among those of its host, from 0

  // Returns a zeroed float32 tensor for mean() and all_reduce(). If all ranks are processes of one
  // host that share memory (see GroupOptions::shared_memory), it lies in memory that the other
  // ranks can read, and its mean costs fewer copies: none with mean(), one with all_reduce(). Else
  // it is an ordinary tensor, with the same results. All ranks call it, with the same positive
  // sizes.
  //
  // Only this process can write to the tensor. Use it like any other: it may be viewed, may require
  // gradients, and its views share its memory. Between the calls of a collective on it and the
  // return, no thread may write to it. The memory is kept until the group and the last tensor or
  // view that refers to it are gone, so tensors may outlive close() and the group; a tensor that is
  // dropped earlier is not freed, so allocate once and use it again.
  torch::Tensor allocate(torch::IntArrayRef sizes);
  // Returns the mean over all ranks of a tensor of allocate(), in its shape, with the same bits on
  // all of them, folded as gradients are. `tensor` is that tensor or a view of all of it, and keeps
  // its values.
  //
  // The mean is where the ranks folded it, and is copied nowhere. It is only for reading: writing
  // to it ends the process (SIGSEGV) if memory is shared. Every call for the same tensor returns
  // the same memory, so the values are valid until this rank's next mean() or all_reduce() of the
  // tensor begins; clone() what is needed for longer. A loss may be computed from it, and backward
  // must run before that next call: autograd then reports a mean that has changed since, as it does
  // for any tensor that is changed in place. Throws also kInvalidArgument: allocate() did not
  // return `tensor`.
  torch::Tensor mean(const torch::Tensor& tensor);

  // Replaces `tensor` by the sum or mean over all ranks, with the same bits on all of them. Takes
  // floating point or integers. Sums in rank order in float64 (integers: in int64) and converts to
  // the tensor's type, so integers wrap around and means of integers are truncated towards 0. A
  // float32 mean of 256 KiB or more is summed in float32, as gradients are.
  void all_reduce(torch::Tensor tensor, ReduceOp op = ReduceOp::kSum);
  // Replaces `tensor` by the tensor of rank `root`. Any type.
  void broadcast(torch::Tensor tensor, int root = 0);
  // Returns the tensors of all ranks, in rank order; this rank's is a copy. Any type.
  std::vector<torch::Tensor> all_gather(const torch::Tensor& tensor);
  // Returns once all ranks have called it.
  void barrier();

  // Reports that this rank is done, and returns once no other rank needs this process. With some
  // back ends that is when all ranks have reported it, with others sooner; to wait for all in any
  // case, call barrier() before. Further calls do nothing. DistributedDataParallel objects of the
  // group may be destroyed later. Throws Error:
  //   kAborted, kUnavailable, kInternal  the run had failed, or the trace cannot be written
  void close();

  // Returns the address of the hosted coordinator's live page, "host:port"; "" if this process
  // hosts none or the page is off.
  std::string page() const;

 private:
  class GRADWIRE_HIDDEN Impl;
  friend class DistributedDataParallel;
  friend GRADWIRE_EXPORT std::shared_ptr<ProcessGroup> init_process_group(const GroupOptions&);

  explicit ProcessGroup(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

// Joins the run, and returns when all ranks have joined. A process may be in several groups, of
// different runs. Each needs a coordinator's address of its own, even if one follows the other: the
// run that has ended may still be served at its address. Logs to stderr (to spdlog's default logger
// if the program has set one). Installs no signal handler. Throws Error:
//   kInvalidArgument     an option or an environment variable is invalid, or a value that must be
//                        equal on all ranks, such as the token, differs
//   kFailedPrecondition  an address cannot be bound, the rank is taken, or the run is full
//   kUnavailable         the coordinator does not answer within connect_timeout_seconds
//   kDeadlineExceeded    not all ranks joined; the message names the missing ones
//   kAborted             the run ended before it began
GRADWIRE_EXPORT std::shared_ptr<ProcessGroup> init_process_group(const GroupOptions& options = {});

}  // namespace gradwire

#endif  // GRADWIRE_PROCESS_GROUP_H_
