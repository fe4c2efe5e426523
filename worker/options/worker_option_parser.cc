#include "worker/options/worker_option_parser.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/address.h"
#include "common/base/host.h"
#include "common/compress/compression.h"
#include "common/options/launch_environment.h"
#include "common/options/security_options.h"
#include "common/wire/layout.h"
#include "worker/options/choices.h"
#include "worker/options/needs.h"
#include "worker/options/rank_list.h"
#include "worker/options/sync_choice.h"
#include "worker/options/traits.h"

namespace gradwire {
namespace {

constexpr int kMaxRanks = 65535;
constexpr int64_t kMaxWarmupEpochs = 1 << 20;
constexpr int kMaxGroups = 16;
constexpr int kMaxDevices = 1024;

constexpr char kDescription[] =
    "Trains a model on this rank's share of the data and averages its gradients\n"
    "with those of the other ranks.";

constexpr char kFooter[] =
    "Each option is also an environment variable GRADWIRE_NAME (GRADWIRE_BATCH_SIZE) and a key\n"
    "of the --config file (batch-size = 64) in its section [worker]. Priority:\n"
    "flag > GRADWIRE_NAME > launcher's environment > file > default. Options marked (all ranks)\n"
    "must have the same value on every rank of a run. The worker finds rank, world size and\n"
    "coordinator in the environments of torchrun, Slurm, OpenMPI and Kubernetes;\n"
    "'gradwire env' shows the values in effect. GRADWIRE_PROGRESS is bar, plain or none.";

// The course's names of options that have a different name here.
struct CourseOptions {
  std::string master_ip;
  int num_nodes = 0;
};

void AddPlace(WorkerOptions* options, CourseOptions* course, OptionParser* parser) {
  parser->Group("Place in the run");
  parser->Add("coordinator", "HOST:PORT", "address of the coordinator",
              ConnectAddress(&options->coordinator), Agreement::kCompared);
  parser->Add("rank", "R",
              "rank of this worker, from 0, or several ranks that it carries: 0,1 or 0-2",
              WithDefault(RankList(&options->ranks), "assigned"));
  parser->Add("world-size", "N", "number of ranks in the run",
              WithDefault(Integer(&options->world_size, 1, kMaxRanks), "the coordinator's"),
              Agreement::kCompared);
  parser->Add("host-coordinator", "true|false",
              "rank 0 also runs the coordinator if no program listens there\n"
              "(needs --rank and --world-size)",
              Switch(&options->host_coordinator));
  parser->Add("coordinator-metrics", "HOST:PORT",
              "address of that coordinator's live page and metrics; or off",
              WithDefault(ListenAddressOrOff(&options->coordinator_metrics),
                          "127.0.0.1:9400, or a free port"));
  parser->Add("master-ip", "HOST", "the same as --coordinator HOST:29400", Text(&course->master_ip),
              Agreement::kCompared);
  parser->Add("num-nodes", "N", "the same as --world-size",
              WithDefault(Integer(&course->num_nodes, 1, kMaxRanks), ""), Agreement::kCompared);
  parser->Add("local-world-size", "N", "workers on this host; they share its cores",
              Integer(&options->local_world_size, 1, kMaxRanks));
}

void AddExchange(WorkerOptions* options, OptionParser* parser) {
  parser->Group("Averaging of gradients");
  parser->Add("sync", "NAME", DescribeChoices("when gradients are averaged:", SyncChoices()),
              SyncChoice(&options->sync), Agreement::kSetting);
  parser->Add("delay", "D",
              "with local-sgd, diloco: train D more steps while an exchange is under way",
              Integer(&options->delay, 0), Agreement::kSettingUnlessDefault,
              NeedsSync(options, &SyncTraits::periodic));
  parser->Add("outer-lr", "X", "with diloco: learning rate of the outer step",
              RealAbove(&options->outer.lr, 0), Agreement::kSettingUnlessDefault,
              NeedsSync(options, &SyncTraits::outer));
  parser->Add("outer-momentum", "X", "with diloco: Nesterov momentum of the outer step",
              RealFromBelow(&options->outer.momentum, 0, 1), Agreement::kSettingUnlessDefault,
              NeedsSync(options, &SyncTraits::outer));
  parser->Add("staleness", "S",
              "with parameter-server: steps that a rank may be ahead of the slowest one; or inf",
              StalenessValue(&options->staleness), Agreement::kSettingUnlessDefault,
              NeedsSync(options, &SyncTraits::served));
  parser->Add("backend", "NAME",
              DescribeChoices("how gradients are averaged:", BackendChoicesWithAuto()),
              WithDefault(Choice(&options->backend, NamesOf(BackendChoicesWithAuto())), "by sync"),
              Agreement::kSetting);
  parser->Add("shared-memory", "auto|off",
              "whether workers of one host and user, outside containers of their own, exchange\n"
              "through shared memory (back ends auto and memory)",
              Choice(&options->shared_memory, SharedMemoryChoices()));
  parser->Add("bucket-cap-mb", "MiB",
              "a bucket is full from this size on, the first one from 1; 0: one for each parameter",
              WithDefault(RealFrom(&options->bucket_cap_mb, 0), "by sync"), Agreement::kSetting);
  parser->Add("barrier", "true|false",
              "update all parameters before the next forward pass (ddp, parameter-server)",
              Switch(&options->barrier), Agreement::kMayDiffer,
              IfChanged(&options->barrier, NeedsLateUpdate(options)));
  parser->Add("wire", "TYPE",
              "type of gradients on the wire: fp32, bf16 or fp16; sums are in float32",
              Choice(&options->wire, WireNames()), Agreement::kSetting);
  parser->Add("compress", "CODEC", DescribeCompressions(), Text(&options->compress),
              Agreement::kSettingUnlessDefault);
  parser->Add("compress-warmup", "N",
              "first iterations, with less or no compression\n"
              "(top-k: the share falls from a quarter to D; powersgd: no compression)",
              Integer(&options->compress_warmup, 0), Agreement::kSettingUnlessDefault,
              NeedsWarmUpOfCodec(options));
  parser->Add("groups", "N",
              "number of groups, each with its own connections; buckets take turns on them",
              Integer(&options->groups, 1, kMaxGroups), Agreement::kSettingUnlessDefault);
  parser->Add("devices", "N",
              "with sync data-parallel: groups of compute threads that divide each batch",
              Integer(&options->devices, 1, kMaxDevices), Agreement::kMayDiffer,
              IfChanged(&options->devices, NeedsOnDevices(options)));
  parser->Add("replication", "native|vanilla",
              "with --devices in training\n"
              "(native: keep the devices; vanilla: set them up for each batch)",
              Choice(&options->replication, {"native", "vanilla"}), Agreement::kMayDiffer,
              IfChanged(&options->replication, NeedsOnDevices(options)));
  parser->Add("broadcast-buffers", "true|false",
              "copy rank 0's buffers (BatchNorm statistics) to all ranks in each step\n"
              "(local-sgd, diloco: average them with the parameters)",
              Switch(&options->broadcast_buffers), Agreement::kSetting);
}

void AddTraining(WorkerOptions* options, OptionParser* parser) {
  parser->Group("Model and training");
  AddModelFlags(options, parser);
  parser->Add("weights", "FILE",
              "file of initial weights: safetensors, or a state dict by torch.save",
              WithDefault(Text(&options->weights), "drawn by --seed"), Agreement::kCompared);
  parser->Add("save-weights", "FILE",
              "file for the trained weights, written by rank 0: .safetensors, .pt or .pth",
              Text(&options->save_weights));
  parser->Add("batch-size", "N", "samples per rank and forward pass",
              Integer(&options->batch_size, 1), Agreement::kSetting);
  parser->Add("accumulate", "N",
              "forward and backward passes per iteration; gradients are exchanged once",
              Integer(&options->accumulate, 1), Agreement::kSetting);
  parser->Add("iterations", "N", "stop after N iterations",
              WithDefault(Integer(&options->iterations, 1), "set by --epochs"),
              Agreement::kSetting);
  parser->Add("epochs", "N", "stop after N passes over the data", Integer(&options->epochs, 1),
              Agreement::kSetting);
  AddComputeSeconds(&options->compute_seconds, parser);
  parser->Add("late-seconds", "S", "with --compute-seconds: sleep S s longer in forward",
              RealFrom(&options->late_seconds, 0), Agreement::kMayDiffer);
  parser->Add("seed", "N", "seed of weights, augmentation and dropout", Integer(&options->seed, 0),
              Agreement::kSetting);
  parser->Add("inference", "native|vanilla",
              "score the test data on --devices instead of training\n"
              "(native: keep the devices; vanilla: set them up for each batch)",
              WithDefault(Choice(&options->inference, {"native", "vanilla"}), "trains"),
              Agreement::kMayDiffer, NeedsOnDevices(options));
  parser->Add(
      "threads", "N", "compute threads of each device, the same number on all workers",
      WithDefault(Integer(&options->threads, 1, 4096), "cores per rank, smallest of all workers"),
      Agreement::kCompared);
  AddInstructionsOption(&options->instructions, parser);
  parser->Add("evaluate", "true|false", "print loss and accuracy on the test data at the end",
              Switch(&options->evaluate), Agreement::kSettingUnlessDefault);
  parser->Add("evaluate-every", "N", "the same after every N epochs, and at the end",
              WithDefault(Integer(&options->evaluate_every, 1), "at the end, if at all"),
              Agreement::kSettingUnlessDefault);
}

void AddLearning(WorkerOptions* options, OptionParser* parser) {
  parser->Group("Loss and optimizer");
  parser->Add("on-nonfinite", "WHAT",
              "if the mean gradient has an infinity or NaN: ignore it, stop, or skip the update",
              Choice(&options->on_nonfinite, {"ignore", "stop", "skip"}),
              Agreement::kSettingUnlessDefault);
  parser->Add("loss", "NAME", DescribeChoices("loss function:", LossChoices()),
              Choice(&options->loss, NamesOf(LossChoices())), Agreement::kSettingUnlessDefault);
  parser->Add("optimizer", "NAME", DescribeChoices("optimizer:", OptimizerChoices()),
              Choice(&options->optimizer, NamesOf(OptimizerChoices())),
              Agreement::kSettingUnlessDefault);
  parser->Add("lr", "X", "learning rate", WithDefault(RealAbove(&options->lr, 0), "by optimizer"),
              Agreement::kSetting);
  parser->Add("momentum", "X", "with sgd: momentum", RealFromBelow(&options->momentum, 0, 1),
              Agreement::kSetting, NeedsMomentum(options));
  parser->Add("nesterov", "true|false", "use Nesterov momentum", Switch(&options->nesterov),
              Agreement::kSettingUnlessDefault, NeedsMomentum(options));
  parser->Add("weight-decay", "X", "L2 penalty; with adamw, decoupled from the gradient",
              WithDefault(RealFrom(&options->weight_decay, 0), "by optimizer"),
              Agreement::kSetting);
  parser->Add("clip-norm", "X",
              "largest norm of the averaged gradient; a longer gradient is scaled down to it",
              WithDefault(RealAbove(&options->clip_norm, 0), "no limit"),
              Agreement::kSettingUnlessDefault);
  parser->Add(
      "lr-schedule", "NAME",
      DescribeChoices("schedule of the learning rate, after the warm-up:", ScheduleChoices()),
      Choice(&options->lr_schedule, NamesOf(ScheduleChoices())), Agreement::kSettingUnlessDefault);
  parser->Add("lr-step-epochs", "N", "with step: epochs between two reductions of the rate",
              Integer(&options->lr_step_epochs, 1), Agreement::kSettingUnlessDefault,
              NeedsSchedule(options, &ScheduleTraits::has_steps));
  parser->Add("lr-gamma", "X", "with step: factor of each reduction",
              RealAbove(&options->lr_gamma, 0), Agreement::kSettingUnlessDefault,
              NeedsSchedule(options, &ScheduleTraits::has_steps));
  parser->Add("scale-lr", "true|false",
              "multiply --lr by (samples per iteration on all ranks) / --base-batch",
              Switch(&options->scale_lr), Agreement::kSettingUnlessDefault);
  parser->Add("base-batch", "N", "with --scale-lr: samples per iteration for which --lr is meant",
              Integer(&options->base_batch, 1), Agreement::kSettingUnlessDefault,
              NeedsScaledRate(options));
  parser->Add("warmup-epochs", "N",
              "epochs in which the learning rate rises linearly to its full value\n"
              "(with --scale-lr from --lr, otherwise from --lr / warm-up iterations)",
              Integer(&options->warmup_epochs, 0, kMaxWarmupEpochs),
              Agreement::kSettingUnlessDefault);
}

void AddData(WorkerOptions* options, OptionParser* parser) {
  parser->Group("Data");
  parser->Add("dataset", "NAME", DescribeChoices("training data:", DatasetChoices()),
              Choice(&options->dataset, NamesOf(DatasetChoices())), Agreement::kSetting);
  parser->Add("data-dir", "DIR", "folder with the data set's files",
              WithDefault(Text(&options->data_dir), "the data set's usual place"));
  parser->Add("augment", "true|false", "crop and flip training images at random",
              Switch(&options->augment), Agreement::kSetting);
  parser->Add("sampler-seed", "N", "seed of the order of samples",
              Integer(&options->sampler_seed, 0), Agreement::kSetting);
  parser->Add("set-epoch", "true|false",
              "new order of samples in each epoch; false: always the order of the first epoch",
              Switch(&options->set_epoch), Agreement::kSettingUnlessDefault);
  parser->Add("loaders", "N", "threads that prepare batches; the values do not depend on N",
              Integer(&options->loaders, 1, 256));
  parser->Add("drop-last", "true|false",
              "leave out the last samples if the ranks do not divide their number\n"
              "(otherwise some samples are used twice)",
              Switch(&options->drop_last), Agreement::kSetting);
}

void AddOutput(WorkerOptions* options, OptionParser* parser) {
  parser->Group("Output");
  parser->Add("print-every", "N", "print iterations 0, N, 2 N, ...; 0: none",
              Integer(&options->print_every, 0));
  parser->Add("summary", "FILE", "file for a JSON object about the whole run",
              Text(&options->summary));
  parser->Add("log-jsonl", "FILE", "file for one JSON object per iteration and per epoch",
              Text(&options->log_jsonl));
  parser->Add("trace", "FILE", "file for a time line in Chrome's trace format (Perfetto reads it)",
              Text(&options->trace));
  parser->Add("metrics", "HOST:PORT", "address of Prometheus metrics; port 0 picks a free port",
              WithDefault(ListenAddressOrOff(&options->metrics), "off"));
}

void AddNetwork(WorkerOptions* options, OptionParser* parser) {
  parser->Group("Network");
  parser->Add("listen", "HOST:PORT", "address at which neighbors connect; port 0 picks a free port",
              WithDefault(ListenAddress(&options->listen), "interface towards the coordinator"));
  parser->Add(
      "advertise", "HOST", "host name or address that neighbors use",
      WithDefault(Text(&options->advertise), "local address of the connection to the coordinator"));
  parser->Add("connections", "N",
              "connections to each aggregator (back ends coordinator and sharded)\n"
              "(above 1, auto is sharded, or coordinator with gather-scatter)",
              Integer(&options->connections, 1, 64), Agreement::kMayDiffer,
              NeedsConnections(options));
  parser->Add("connect-timeout-seconds", "SECONDS", "longest wait for an answer of the coordinator",
              RealAbove(&options->connect_timeout_seconds, 0));
  parser->Add("step-timeout-seconds", "SECONDS", "longest wait for all gradients of a step",
              RealAbove(&options->step_timeout_seconds, 0));
  parser->Add("check-replicas", "K",
              "compare the parameters of all workers every K steps; 0: never\n"
              "(if the run can go on without a lost worker; a worker that differs is lost)",
              Integer(&options->check_replicas, 0, INT64_MAX), Agreement::kSettingUnlessDefault);
}

void AddAll(WorkerOptions* options, CourseOptions* course, OptionParser* parser) {
  parser->MarkAgreement("(all ranks)");
  AddPlace(options, course, parser);
  AddExchange(options, parser);
  AddTraining(options, parser);
  AddLearning(options, parser);
  AddData(options, parser);
  AddOutput(options, parser);
  AddNetwork(options, parser);
  AddSecurityOptions(&options->security, parser);
  parser->Footer(kFooter);
}

// Copies the course's options to the options that they stand for.
absl::Status ApplyCourseOptions(const CourseOptions& course, const OptionParser& parser,
                                Parsed<WorkerOptions>* parsed) {
  const absl::StatusOr<std::string> address = parser.InForce("master-ip", "coordinator");
  if (!address.ok()) return address.status();
  if (*address == "master-ip") {
    const absl::StatusOr<HostPort> with_port = ParseHostPort(course.master_ip);
    parsed->options.coordinator =
        ToString(with_port.ok() ? *with_port : HostPort{course.master_ip, kCoordinatorPort});
    parsed->sources["coordinator"] = parser.source("master-ip");
  }
  const absl::StatusOr<std::string> size = parser.InForce("num-nodes", "world-size");
  if (!size.ok()) return size.status();
  if (*size == "num-nodes") {
    parsed->options.world_size = course.num_nodes;
    parsed->sources["world-size"] = parser.source("num-nodes");
  }
  return absl::OkStatus();
}

absl::Status ApplyLength(const OptionParser& parser, WorkerOptions* options) {
  const absl::StatusOr<std::string> length = parser.InForce("iterations", "epochs");
  if (!length.ok()) return length.status();
  if (*length == "epochs") options->iterations = 0;
  return absl::OkStatus();
}

// Fills in defaults that depend on the sync, the optimizer or, for a process alone, this host.
void FillIn(Parsed<WorkerOptions>* parsed) {
  WorkerOptions* const options = &parsed->options;
  const OptimizerTraits optimizer = TraitsOfOptimizer(options->optimizer);
  if (options->lr == 0) options->lr = optimizer.lr;
  if (options->weight_decay < 0) options->weight_decay = optimizer.weight_decay;
  if (!IsGiven(*parsed, "evaluate")) options->evaluate = options->evaluate_every > 0;
  const SyncTraits sync = TraitsOfSync(options->sync);
  if (options->metrics == "off") options->metrics.clear();
  if (options->backend.empty()) options->backend = sync.default_backend;
  options->backend = BackendFor(options->backend, options->connections, sync.gathers);
  if (options->bucket_cap_mb < 0) options->bucket_cap_mb = sync.bucket_cap_mb;
  if (options->threads > 0 || sync.averages) return;
  options->threads = std::max(1, UsableCores() / options->local_world_size / options->devices);
}

absl::Status Check(const CourseOptions& course, const OptionParser& parser,
                   Parsed<WorkerOptions>* parsed) {
  absl::Status status = ApplyCourseOptions(course, parser, parsed);
  if (status.ok()) status = ApplyLength(parser, &parsed->options);
  if (!status.ok()) return status;
  const bool backend_given = !parsed->options.backend.empty();
  FillIn(parsed);
  status = parser.CheckNeeds();
  return status.ok() ? CheckWorkerOptions(*parsed, backend_given) : status;
}

}  // namespace

absl::StatusOr<Parsed<WorkerOptions>> ParseWorkerOptions(const std::vector<std::string>& args,
                                                         const Environment& environment,
                                                         const std::string& program) {
  Parsed<WorkerOptions> parsed;
  CourseOptions course;
  OptionParser parser(program, kDescription, {"worker"});
  AddAll(&parsed.options, &course, &parser);
  const LaunchEnvironment launcher = DetectLaunchEnvironment(environment);
  absl::Status status = parser.Parse(args, environment, launcher.values, &parsed);
  if (!status.ok()) return status;
  if (!parsed.print.empty()) return parsed;
  status = Check(course, parser, &parsed);
  if (!status.ok()) return status;
  return parsed;
}

std::vector<std::string> WorkerOptionNames() {
  WorkerOptions options;
  CourseOptions course;
  OptionParser parser("", "", {});
  AddAll(&options, &course, &parser);
  std::vector<std::string> names;
  for (const auto& [name, row] : parser.rows()) names.push_back(name);
  return names;
}

std::map<std::string, AgreedValue> AgreedValues(const WorkerOptions& options) {
  WorkerOptions copy = options;  // rows can write to it
  WorkerOptions defaults;
  CourseOptions course;
  OptionParser parser("", "", {});
  OptionParser default_parser("", "", {});
  AddAll(&copy, &course, &parser);
  AddAll(&defaults, &course, &default_parser);
  std::map<std::string, AgreedValue> values;
  for (const auto& [name, row] : parser.rows()) {
    if (row.agreement == Agreement::kMayDiffer) continue;
    const OptionValue& usual = default_parser.rows().at(name).value;
    const std::string text = row.value.get();
    const bool is_default = text == usual.get();
    values[name] = {row.agreement, text, is_default ? usual.initial : text, is_default};
  }
  return values;
}

}  // namespace gradwire
