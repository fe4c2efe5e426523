// A program's options, from arguments, environment and file.
//
//   input[0]  which program
//   the rest  lines: an argument each; "NAME=value" in capitals is of the environment; what is
//   behind
//             an empty line is the file

#include <sys/mman.h>
#include <unistd.h>

#include <cctype>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/address.h"
#include "coordinator/run/coordinator_options.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/input_reader.h"
#include "worker/options/worker_option_parser.h"

namespace gradwire {
namespace {

struct Told {
  std::vector<std::string> args;
  Environment environment;
};

Told ReadLines(absl::string_view lines) {
  Told told;
  for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> variable =
        absl::StrSplit(line, absl::MaxSplits('=', 1));
    const bool is_variable = std::isupper(static_cast<unsigned char>(line[0])) != 0;
    if (is_variable) {
      told.environment[variable.first] = variable.second;
    } else {
      told.args.emplace_back(line);
    }
  }
  return told;
}

// A sentence, or what was asked for; and the same again from flags alone.
template <typename Parse>
std::string CheckParsed(const Parse& parse, const Told& told) {
  const auto parsed = parse(told.args, told.environment);
  if (!parsed.ok()) {
    const bool is_fit =
        absl::IsInvalidArgument(parsed.status()) || absl::IsNotFound(parsed.status());
    if (!is_fit) return absl::StrCat("got ", parsed.status().ToString());
    return parsed.status().message().empty() ? "an error without a word" : "";
  }
  if (!parsed->print.empty()) return "";
  for (const auto& [name, text] : parsed->texts) {
    if (parsed->sources.count(name) == 0) return absl::StrCat("nobody gave --", name);
  }
  return "";
}

template <typename Parse>
std::string Check(const Parse& parse, Told told, const std::string& file) {
  if (file.empty()) return CheckParsed(parse, told);
  const UniqueFd memory(memfd_create("options", MFD_CLOEXEC));
  if (write(memory.get(), file.data(), file.size()) != static_cast<ssize_t>(file.size())) {
    return "cannot write the file";
  }
  told.args.push_back(absl::StrCat("--config=/proc/self/fd/", memory.get()));
  return CheckParsed(parse, told);
}

}  // namespace

std::string ViolatedByOptions(absl::string_view bytes) {
  InputReader input(bytes);
  const bool of_worker = input.Below(2) == 0;
  const std::string rest = input.Rest();
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(rest, absl::MaxSplits("\n\n", 1));
  const Told told = ReadLines(parts.first);
  if (!of_worker) return Check(ParseCoordinatorOptions, told, parts.second);
  const auto parse = [](const std::vector<std::string>& args, const Environment& environment) {
    return ParseWorkerOptions(args, environment);
  };
  return Check(parse, told, parts.second);
}

std::vector<std::string> OptionsSeeds() {
  const std::string worker(1, '\0'), coordinator(1, '\1');
  return {
      "",
      worker + "--coordinator\n10.10.1.1:4400\n--rank=2\n--sync\nddp\n--compress\ntop-k:0.01",
      worker + "--lr\n-1e309\n--batch-size=99999999999999999999\n--epochs\n0x10",
      worker + "--master-ip=10.10.1.1\n--num-nodes\n4\n--rank\n0,1,2-3",
      worker + "--evaluate\nfalse\n--barrier\n--help\n--version",
      worker + "--unknown=1\nstray\n--\n-x\n--rank\n--rank=",
      worker + "GRADWIRE_LR=0.1\nGRADWIRE_NO_SUCH=1\nSLURM_PROCID=3\nSLURM_NTASKS=4\nRANK=1",
      worker + "OMPI_COMM_WORLD_RANK=x\nOMPI_COMM_WORLD_SIZE=-1\nPMI_RANK=1",
      worker + "--seed=1\n\nbatch-size = 64\n[worker]\nlr = \"0.1\"\nsync = [\"ddp\", 'x']\n",
      worker + "--seed=1\n\n[[a]]\nb = {\n\"\"\"\nlr=\xff\xfe\n[x.y.z]\n--\n",
      coordinator + "--world-size=4\n--workers=2\n--listen\n[::]:0\n--chunk-kib=64",
      coordinator + "--world-size\n0\n--metrics=off\n--on-loss=maybe\n--http-names=a,b",
      coordinator + "GRADWIRE_WORLD_SIZE=2\n\n[coordinator]\nlease_seconds = 1e999\nworkers = 3\n"};
}

}  // namespace gradwire
