#include "cli/experiment/experiment_command.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"
#include "cli/bench/bench_options.h"
#include "cli/bench/bench_request.h"
#include "cli/experiment/tables_json.h"
#include "common/base/memory_limits.h"
#include "worker/options/choices.h"

namespace gradwire {
namespace {

constexpr char kExperimentProgram[] = "gradwire experiment";

constexpr char kExperimentDescription[] =
    "Runs an experiment of a course or paper. Writes tables, figures to hand in, the published\n"
    "values beside the measured ones, and a verdict on every claim.\n"
    "'gradwire experiment list' lists the experiments.\n"
    "'gradwire experiment claims [NAME]' lists the statements of the sources that they decide.";

constexpr char kExperimentFooter[] =
    "Finished runs are kept in --out: after an interruption, the same command continues.\n"
    "Example: gradwire experiment course --scale quick --hosts auto";

constexpr double kMaxSecondsPerRun = 24 * 3600;
constexpr int kMaxThreads = 1024;

// Null without a limit.
nlohmann::ordered_json MemoryLeftJson() {
  const uint64_t left = OwnMemoryLimits().group;
  return left == MemoryLimits::kNoLimit ? nullptr : nlohmann::ordered_json(left);
}

// Of training. The script gets only those that were given.
struct TrainingChoices {
  std::string model;
  std::string dataset;
  int64_t batch_size = 0;
  double lr = 0;
  double momentum = -1;
  double weight_decay = -1;
};

struct ExperimentOptions {
  BenchOptions bench;
  std::string scale = "quick";
  std::string data_dir;
  std::string out;
  bool again = false;
  bool json = false;
  int threads = 0;
  std::vector<std::string> links;  // rates, each once
  double target = 0;               // accuracy; 0: the experiment's default
  TrainingChoices training;
  std::string weights;  // folder
  int pretrain = 0;     // iterations; 0: by scale
};

// Comma-separated rates.
OptionValue RateList(std::vector<std::string>* field) {
  OptionValue value;
  value.set = [field](const std::string& text) {
    std::vector<std::string> rates;
    for (const auto part : absl::StrSplit(text, ',')) {
      const std::string rate(part);
      const auto gbit = GbitOfRate(rate);
      if (!gbit.ok()) return gbit.status();
      if (std::count(rates.begin(), rates.end(), rate) == 0) rates.push_back(rate);
    }
    *field = std::move(rates);
    return absl::OkStatus();
  };
  return value;
}

nlohmann::ordered_json LinksJson(const std::vector<std::string>& rates) {
  nlohmann::ordered_json links = nlohmann::ordered_json::array();
  for (const std::string& rate : rates) {
    const absl::optional<double> gbit = GbitOfRate(rate).value();
    links.push_back(
        {{"rate", rate}, {"gbit", gbit.has_value() ? nlohmann::ordered_json(*gbit) : nullptr}});
  }
  return links;
}

void AddTraining(TrainingChoices* training, OptionParser* parser) {
  const auto add = [parser](const char* name, const char* value_name, const char* help,
                            OptionValue value) {
    parser->Add(name, value_name, help, WithDefault(std::move(value), "the experiment's"));
  };
  parser->Group("Training, if the experiment's source leaves it open");
  add("model", "NAME", "model ('gradwire models' lists them)",
      Choice(&training->model, NamesOf(ModelChoices())));
  add("dataset", "NAME", "training data; its folder, if it needs one, is --data-dir",
      Choice(&training->dataset, NamesOf(DatasetChoices())));
  add("batch-size", "N", "samples per rank and iteration", Integer(&training->batch_size, 1));
  add("lr", "X", "learning rate", RealAbove(&training->lr, 0));
  add("momentum", "X", "momentum of SGD", RealFromBelow(&training->momentum, 0, 1));
  add("weight-decay", "X", "L2 penalty", RealFrom(&training->weight_decay, 0));
}

// Returns the options of AddTraining that were given, by name, as given.
nlohmann::ordered_json ChosenJson(const OptionParser& parser) {
  nlohmann::ordered_json chosen = nlohmann::ordered_json::object();
  for (const char* name : {"model", "dataset", "batch-size", "lr", "momentum", "weight-decay"}) {
    const auto text = parser.texts().find(name);
    if (text != parser.texts().end()) chosen[name] = text->second;
  }
  return chosen;
}

void AddAll(ExperimentOptions* options, OptionParser* parser) {
  parser->Group("Experiment");
  parser->TakeOperands("NAME", "name of the experiment, or list, or claims [NAME]");
  parser->Add("scale", "NAME", "quick: minutes on two cores; full: the size of the course or paper",
              Text(&options->scale));
  parser->Add("data-dir", "DIR",
              "folder with CIFAR-10 (deploy/fetch-cifar10)\n"
              "(data-parallel and inference: with MNIST, deploy/fetch-mnist)",
              WithDefault(Text(&options->data_dir), "Fashion-MNIST or synthetic images"));
  parser->Add("out", "DIR", "folder for the report and its data",
              WithDefault(Text(&options->out), "gradwire-NAME-SCALE"));
  parser->Add("again", "true|false", "repeat runs that --out already has", Switch(&options->again));
  parser->Add("json", "true|false", "claims: print them as JSON", Switch(&options->json));
  parser->Add("threads", "N", "compute threads of each rank",
              WithDefault(Integer(&options->threads, 1, kMaxThreads), "what all hosts can give"));
  parser->Add("link", "RATE,RATE,...",
              "time-to-accuracy: rates of the links of --hosts in turn, such as 100mbit,1gbit",
              WithDefault(RateList(&options->links), "unchanged"));
  parser->Add("target", "X", "time-to-accuracy: the test accuracy to reach, between 0 and 1",
              WithDefault(RealBetween(&options->target, 0, 1), "that of float32, by --scale"));
  AddTraining(&options->training, parser);
  parser->Add("weights", "DIR",
              "data-parallel: folder with trained weights, torchvision's (deploy/fetch-weights)\n"
              "or MODEL.safetensors, for each model",
              WithDefault(Text(&options->weights), "see --pretrain"));
  parser->Add("pretrain", "N", "data-parallel: train the extractors for N iterations first",
              WithDefault(Integer(&options->pretrain, 1), "by --scale"));
  parser->Group("Hosts");
  AddHosts(&options->bench, parser);
  parser->Footer(kExperimentFooter);
}

}  // namespace

absl::StatusOr<Parsed<ScriptCall>> ParseExperimentOptions(const std::vector<std::string>& args,
                                                          const Environment& environment) {
  ExperimentOptions options;
  options.bench.timeout_seconds = kMaxSecondsPerRun;
  OptionParser parser(kExperimentProgram, kExperimentDescription, {"experiment"});
  AddAll(&options, &parser);
  Parsed<ScriptCall> parsed;
  absl::Status status = parser.Parse(args, environment, {}, &parsed);
  if (!status.ok()) return status;
  if (!parsed.print.empty()) return parsed;
  status = CheckHosts(parser, &options.bench);
  if (!status.ok()) return status;
  if (!options.links.empty() && parser.source("rate").layer != Layer::kDefault &&
      GbitOfRate(options.bench.rate)->has_value()) {
    return absl::InvalidArgumentError("--link and --rate exclude each other");
  }
  if (!options.weights.empty() && options.pretrain > 0) {
    return absl::InvalidArgumentError("--weights and --pretrain exclude each other");
  }
  parsed.options.name = "cli/experiment/experiment.py";
  parsed.options.data = BenchRequest(options.bench, CommandLine(kExperimentProgram, args));
  parsed.options.data.update({{"words", parser.operands()},
                              {"scale", options.scale},
                              {"data_dir", options.data_dir},
                              {"out", options.out},
                              {"again", options.again},
                              {"json", options.json},
                              {"threads", options.threads},
                              {"link", LinksJson(options.links)},
                              {"target", options.target},
                              {"chosen", ChosenJson(parser)},
                              {"weights", options.weights},
                              {"pretrain", options.pretrain},
                              {"memory_left", MemoryLeftJson()},
                              {"tables", TablesJson()}});
  return parsed;
}

int ExperimentCommand(const std::vector<std::string>& args, const Environment& environment) {
  return RunCommand(kExperimentProgram, ParseExperimentOptions(args, environment), environment);
}

}  // namespace gradwire
