#include "bench/rank/rank_options.h"

#include "absl/strings/str_cat.h"
#include "bench/operations.h"
#include "common/wire/layout.h"

namespace gradwire {
namespace {

void AddAll(RankOptions* options, OptionParser* parser) {
  parser->Add("coordinator", "HOST:PORT", "address of the coordinator",
              ConnectAddress(&options->coordinator));
  parser->Add("rank", "R", "rank of this process", Integer(&options->rank, 0));
  parser->Add("world-size", "N", "number of ranks", Integer(&options->world_size, 1));
  parser->Add("backend", "NAME", "back end", Text(&options->backend));
  parser->Add("wire", "TYPE", "element type on the wire", Choice(&options->wire, WireNames()));
  parser->Add("op", "NAME", "collective to run", Choice(&options->op, OperationNames()));
  parser->Add("tensors", "own|shared",
              "memory of the tensors; shared: nothing is copied (back end memory)",
              Choice(&options->tensors, {kOwnTensors, kSharedTensors}));
  parser->Add("show", "true|false", "run once; print input, output and bytes sent",
              Switch(&options->show));
  parser->Add("bytes", "N", "size of the bucket as float32, a multiple of 4",
              Integer(&options->bytes, 4));
  parser->Add("warmup", "N", "iterations before the measured ones", Integer(&options->warmup, 1));
  parser->Add("iterations", "N", "measured iterations", Integer(&options->iterations, 1));
  parser->Add("seconds", "S", "time limit of the measured iterations; 0: no limit",
              RealFrom(&options->seconds, 0));
  parser->Add("timeout-seconds", "S", "limit of one iteration, and of the wait for the coordinator",
              RealAbove(&options->timeout_seconds, 0));
  AddSecurityOptions(&options->security, parser);
}

absl::Status Check(const RankOptions& options) {
  const Operation& operation = OperationCalled(options.op);
  if (!Has(options.backend, operation)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--op: back end ", options.backend, " has no ", options.op));
  }
  const uint64_t unit = operation.in_parts ? uint64_t{4} * options.world_size : 4;
  if (options.bytes % unit != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--bytes: got '", options.bytes, "', expected a multiple of ", unit));
  }
  if (options.rank >= options.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("--rank: got '", options.rank,
                                                   "', expected one below the world size, ",
                                                   options.world_size));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Parsed<RankOptions>> ParseRankOptions(const std::vector<std::string>& args) {
  Parsed<RankOptions> parsed;
  OptionParser parser("gradwire-collectives",
                      "One rank of `gradwire bench collectives`: repeats a collective on one "
                      "bucket and prints its\n"
                      "measurements as JSON.",
                      {});
  AddAll(&parsed.options, &parser);
  absl::Status status = parser.Parse(args, {}, {}, &parsed);
  if (status.ok() && parsed.print.empty()) status = Check(parsed.options);
  if (!status.ok()) return status;
  return parsed;
}

}  // namespace gradwire
