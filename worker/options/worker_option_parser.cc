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
    "Each option can also be given as GRADWIRE_NAME in the environment (GRADWIRE_BATCH_SIZE) or\n"
    "as a key of the --config file (batch-size = 64), at its top or in its section [worker]:\n"
    "flag > GRADWIRE_NAME > launcher's environment > file > default. Options marked (all ranks)\n"
    "must have the same value on every rank of a run. Rank, world size and\n"
    "coordinator are found in torchrun's, Slurm's, OpenMPI's and Kubernetes' environments;\n"
    "'gradwire env' shows what would be used. GRADWIRE_PROGRESS is bar, plain or none.";

// The course's names for options that have another one here.
struct CourseOptions {
  std::string master_ip;
  int num_nodes = 0;
};

void AddPlace(WorkerOptions* options, CourseOptions* course, OptionParser* parser) {
  parser->Group("Place in the run");
  parser->Add("coordinator", "HOST:PORT", "where the coordinator listens",
              ConnectAddress(&options->coordinator), Agreement::kCompared);
  parser->Add("rank", "R", "rank of this worker, from 0, or those that it carries: 0,1 or 0-2",
              WithDefault(RankList(&options->ranks), "assigned"));
  parser->Add("world-size", "N", "ranks in the run",
              WithDefault(Integer(&options->world_size, 1, kMaxRanks), "the coordinator's"),
              Agreement::kCompared);
  parser->Add("host-coordinator", "true|false",
              "if nobody listens there, rank 0 is the coordinator too; needs rank and world size",
              Switch(&options->host_coordinator));
  parser->Add("coordinator-metrics", "HOST:PORT",
              "live page and metrics of that coordinator; or off",
              WithDefault(ListenAddressOrOff(&options->coordinator_metrics),
                          "127.0.0.1:9400, or a free port"));
  parser->Add("master-ip", "HOST", "the same as --coordinator HOST:29400", Text(&course->master_ip),
              Agreement::kCompared);
  parser->Add("num-nodes", "N", "the same as --world-size",
              WithDefault(Integer(&course->num_nodes, 1, kMaxRanks), ""), Agreement::kCompared);
  parser->Add("local-world-size", "N", "workers on this host, which share its cores",
              Integer(&options->local_world_size, 1, kMaxRanks));
}

void AddExchange(WorkerOptions* options, OptionParser* parser) {
  parser->Group("Averaging of gradients");
  parser->Add("sync", "NAME", DescribeChoices("when gradients are averaged:", SyncChoices()),
              SyncChoice(&options->sync), Agreement::kSetting);
  parser->Add("delay", "D",
              "with local-sgd and diloco: train D steps more while an exchange is under way",
              Integer(&options->delay, 0), Agreement::kSettingUnlessDefault,
              NeedsSync(options, &SyncTraits::periodic));
  parser->Add("outer-lr", "X", "learning rate of diloco's outer step",
              RealAbove(&options->outer.lr, 0), Agreement::kSettingUnlessDefault,
              NeedsSync(options, &SyncTraits::outer));
  parser->Add("outer-momentum", "X", "Nesterov's momentum of diloco's outer step",
              RealFromBelow(&options->outer.momentum, 0, 1), Agreement::kSettingUnlessDefault,
              NeedsSync(options, &SyncTraits::outer));
  parser->Add(
      "staleness", "S",
      "with parameter-server: steps that a rank may be ahead of the slowest; inf: any number",
      StalenessValue(&options->staleness), Agreement::kSettingUnlessDefault,
      NeedsSync(options, &SyncTraits::served));
  parser->Add(
      "backend", "NAME", DescribeChoices("how they are averaged:", BackendChoicesWithAuto()),
      WithDefault(Choice(&options->backend, NamesOf(BackendChoicesWithAuto())), "the sync's"),
      Agreement::kSetting);
  parser->Add("bucket-cap-mb", "MiB",
              "a bucket is closed when it holds this much; 0: a bucket per parameter",
              WithDefault(RealFrom(&options->bucket_cap_mb, 0), "as suits the sync"),
              Agreement::kSetting);
  parser->Add("barrier", "true|false",
              "with a sync that updates late: update all parameters before the next forward pass",
              Switch(&options->barrier), Agreement::kMayDiffer,
              IfChanged(&options->barrier, NeedsLateUpdate(options)));
  parser->Add("wire", "TYPE",
              "gradients on the wire: fp32, bf16 or fp16; sums are made in float32, rounded once",
              Choice(&options->wire, WireNames()), Agreement::kSetting);
  parser->Add("compress", "CODEC", DescribeCompressions(), Text(&options->compress),
              Agreement::kSettingUnlessDefault);
  parser->Add("compress-warmup", "N",
              "with top-k the share falls from a quarter to its value within so many iterations; "
              "with powersgd they go without it",
              Integer(&options->compress_warmup, 0), Agreement::kSettingUnlessDefault,
              NeedsWarmUpOfCodec(options));
  parser->Add("groups", "N",
              "buckets take turns on so many groups, each with connections of its own",
              Integer(&options->groups, 1, kMaxGroups), Agreement::kSettingUnlessDefault);
  parser->Add("devices", "N",
              "with sync data-parallel: groups of compute threads that divide each batch",
              Integer(&options->devices, 1, kMaxDevices), Agreement::kMayDiffer,
              IfChanged(&options->devices, NeedsOnDevices(options)));
  parser->Add("broadcast-buffers", "true|false",
              "with the gradients of each step, copy rank 0's buffers (BatchNorm) to all;\n"
              "with local-sgd and diloco: average them with the parameters",
              Switch(&options->broadcast_buffers), Agreement::kSetting);
}

void AddTraining(WorkerOptions* options, OptionParser* parser) {
  parser->Group("Model and training");
  AddModelFlags(options, parser);
  parser->Add("weights", "FILE",
              "start from these weights: safetensors, or a state dict of torch.save",
              WithDefault(Text(&options->weights), "drawn by --seed"), Agreement::kCompared);
  parser->Add("save-weights", "FILE",
              "rank 0 writes the trained weights: FILE.safetensors, FILE.pt or FILE.pth",
              Text(&options->save_weights));
  parser->Add("batch-size", "N", "samples per rank and forward pass",
              Integer(&options->batch_size, 1), Agreement::kSetting);
  parser->Add("accumulate", "N",
              "forward and backward passes per iteration; their gradients are averaged first",
              Integer(&options->accumulate, 1), Agreement::kSetting);
  parser->Add("iterations", "N", "iterations to train",
              WithDefault(Integer(&options->iterations, 1), "as --epochs"), Agreement::kSetting);
  parser->Add("epochs", "N", "passes over the data to train", Integer(&options->epochs, 1),
              Agreement::kSetting);
  AddComputeSeconds(&options->compute_seconds, parser);
  parser->Add("seed", "N", "seed of weights, augmentation and dropout", Integer(&options->seed, 0),
              Agreement::kSetting);
  parser->Add(
      "inference", "native|vanilla",
      "do not train, but score the test data on --devices, which are kept (native) or made\n"
      "anew for each batch, by replicate, scatter, parallel apply, gather (vanilla)",
      WithDefault(Choice(&options->inference, {"native", "vanilla"}), "trains"),
      Agreement::kMayDiffer, NeedsOnDevices(options));
  parser->Add("threads", "N", "compute threads of a device, the same number on all workers",
              WithDefault(Integer(&options->threads, 1, 4096), "what all hosts can give"),
              Agreement::kCompared);
  AddInstructionsOption(&options->instructions, parser);
  parser->Add("evaluate", "true|false", "at the end, print loss and accuracy on the test data",
              Switch(&options->evaluate), Agreement::kSettingUnlessDefault);
  parser->Add("evaluate-every", "N", "the same after every N epochs and at the end",
              WithDefault(Integer(&options->evaluate_every, 1), "at the end, if at all"),
              Agreement::kSettingUnlessDefault);
}

void AddLearning(WorkerOptions* options, OptionParser* parser) {
  parser->Group("Loss and optimizer");
  parser->Add("on-nonfinite", "WHAT",
              "if a mean gradient has an infinity or NaN: train on with it, end the run, or leave "
              "the step's update out",
              Choice(&options->on_nonfinite, {"ignore", "stop", "skip"}),
              Agreement::kSettingUnlessDefault);
  parser->Add("loss", "NAME", DescribeChoices("what training makes small:", LossChoices()),
              Choice(&options->loss, NamesOf(LossChoices())), Agreement::kSettingUnlessDefault);
  parser->Add(
      "optimizer", "NAME", DescribeChoices("how gradients change the weights:", OptimizerChoices()),
      Choice(&options->optimizer, NamesOf(OptimizerChoices())), Agreement::kSettingUnlessDefault);
  parser->Add("lr", "X", "learning rate",
              WithDefault(RealAbove(&options->lr, 0), "as suits the optimizer"),
              Agreement::kSetting);
  parser->Add("momentum", "X", "momentum of sgd", RealFromBelow(&options->momentum, 0, 1),
              Agreement::kSetting, NeedsMomentum(options));
  parser->Add("nesterov", "true|false", "Nesterov's momentum", Switch(&options->nesterov),
              Agreement::kSettingUnlessDefault, NeedsMomentum(options));
  parser->Add("weight-decay", "X", "L2 penalty; of adamw decoupled from the gradient",
              WithDefault(RealFrom(&options->weight_decay, 0), "as suits the optimizer"),
              Agreement::kSetting);
  parser->Add("clip-norm", "X",
              "the most that the norm of the averaged gradient may be; a longer one is scaled down",
              WithDefault(RealAbove(&options->clip_norm, 0), "no limit"),
              Agreement::kSettingUnlessDefault);
  parser->Add(
      "lr-schedule", "NAME", DescribeChoices("how the learning rate goes down:", ScheduleChoices()),
      Choice(&options->lr_schedule, NamesOf(ScheduleChoices())), Agreement::kSettingUnlessDefault);
  parser->Add("lr-step-epochs", "N", "epochs from one step down to the next",
              Integer(&options->lr_step_epochs, 1), Agreement::kSettingUnlessDefault,
              NeedsSchedule(options, &ScheduleTraits::has_steps));
  parser->Add("lr-gamma", "X", "factor of a step down", RealAbove(&options->lr_gamma, 0),
              Agreement::kSettingUnlessDefault, NeedsSchedule(options, &ScheduleTraits::has_steps));
  parser->Add("scale-lr", "true|false",
              "multiply --lr by the samples of an iteration, of all ranks, over --base-batch",
              Switch(&options->scale_lr), Agreement::kSettingUnlessDefault);
  parser->Add("base-batch", "N", "samples of an iteration that --lr is for",
              Integer(&options->base_batch, 1), Agreement::kSettingUnlessDefault,
              NeedsScaledRate(options));
  parser->Add("warmup-epochs", "N",
              "raise the learning rate in equal parts: with --scale-lr from --lr to the scaled\n"
              "one, without from --lr over the iterations of the warm-up to --lr",
              Integer(&options->warmup_epochs, 0, kMaxWarmupEpochs),
              Agreement::kSettingUnlessDefault);
}

void AddData(WorkerOptions* options, OptionParser* parser) {
  parser->Group("Data");
  parser->Add("dataset", "NAME", DescribeChoices("the images:", DatasetChoices()),
              Choice(&options->dataset, NamesOf(DatasetChoices())), Agreement::kSetting);
  parser->Add("data-dir", "DIR", "folder with the data set's files",
              WithDefault(Text(&options->data_dir), "the data set's usual place"));
  parser->Add("augment", "true|false", "crop and flip training images at random",
              Switch(&options->augment), Agreement::kSetting);
  parser->Add("sampler-seed", "N", "seed of the order of samples",
              Integer(&options->sampler_seed, 0), Agreement::kSetting);
  parser->Add("set-epoch", "true|false",
              "a new order of samples in each epoch; false: always the first one's",
              Switch(&options->set_epoch), Agreement::kSettingUnlessDefault);
  parser->Add("loaders", "N", "threads that make batches ahead; they change no value",
              Integer(&options->loaders, 1, 256));
  parser->Add("drop-last", "true|false",
              "drop samples that do not divide by the ranks (otherwise some are used twice)",
              Switch(&options->drop_last), Agreement::kSetting);
}

void AddOutput(WorkerOptions* options, OptionParser* parser) {
  parser->Group("Output");
  parser->Add("print-every", "N", "print iterations 0, N, 2 N, ...; 0: none",
              Integer(&options->print_every, 0));
  parser->Add("summary", "FILE", "write a JSON object about the whole run",
              Text(&options->summary));
  parser->Add("log-jsonl", "FILE", "write a JSON object for each iteration and each epoch",
              Text(&options->log_jsonl));
  parser->Add("trace", "FILE", "write a time line in Chrome's trace format (Perfetto reads it)",
              Text(&options->trace));
  parser->Add("metrics", "HOST:PORT", "serve Prometheus metrics; port 0 picks one",
              WithDefault(ListenAddressOrOff(&options->metrics), "off"));
}

void AddNetwork(WorkerOptions* options, OptionParser* parser) {
  parser->Group("Network");
  parser->Add("listen", "HOST:PORT", "where neighbours connect; port 0 picks one",
              WithDefault(ListenAddress(&options->listen), "towards the coordinator"));
  parser->Add("advertise", "HOST", "host name or address that neighbours use",
              WithDefault(Text(&options->advertise), "of the connection to the coordinator"));
  parser->Add("connections", "N",
              "to each aggregator, for back ends coordinator and sharded; auto is sharded then",
              Integer(&options->connections, 1, 64), Agreement::kMayDiffer,
              NeedsConnections(options));
  parser->Add("connect-timeout-seconds", "SECONDS", "wait for the coordinator to answer",
              RealAbove(&options->connect_timeout_seconds, 0));
  parser->Add("step-timeout-seconds", "SECONDS", "wait for all gradients of a step",
              RealAbove(&options->step_timeout_seconds, 0));
  parser->Add("check-replicas", "K",
              "compare all workers' parameters every K steps where the run goes on without a lost "
              "worker; who differs is lost; 0: never",
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

// Makes the course's names into ours.
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

// What was left open: as the sync, or the host of a process alone, has it.
void FillIn(Parsed<WorkerOptions>* parsed) {
  WorkerOptions* const options = &parsed->options;
  const OptimizerTraits optimizer = TraitsOfOptimizer(options->optimizer);
  if (options->lr == 0) options->lr = optimizer.lr;
  if (options->weight_decay < 0) options->weight_decay = optimizer.weight_decay;
  if (!IsGiven(*parsed, "evaluate")) options->evaluate = options->evaluate_every > 0;
  const SyncTraits sync = TraitsOfSync(options->sync);
  if (options->metrics == "off") options->metrics.clear();
  if (options->backend.empty()) options->backend = sync.default_backend;
  const absl::StatusOr<Compression> compression = ParseCompression(options->compress);
  const bool aggregates = options->connections > 1 || (compression.ok() && compression->is_coded());
  options->backend = BackendFor(options->backend, aggregates);
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
  WorkerOptions copy = options;  // rows could write to it
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
