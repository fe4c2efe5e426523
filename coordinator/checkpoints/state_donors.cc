#include "coordinator/checkpoints/state_donors.h"

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel.h"
#include "common/wire/view.h"

namespace gradwire {

StateDonors::StateDonors(const SaveState& save, const RunId& run_id, const Security& security) {
  v1::StateId id;
  id.set_run_id(ToBytes(run_id));
  id.set_step(save.step.value());
  id.set_generation(save.generation.value());
  for (const StateDonor& donor : save.donors) {
    for (const v1::StateSection& section : donor.sections) {
      for (const v1::StateTensor& tensor : section.tensors()) {
        holders_[{section.name(), tensor.key()}].push_back(donors_.size());
      }
    }
    donors_.push_back(
        {donor.name, std::make_unique<StateFetcher>(MakeChannel(donor.address, security),
                                                    donor.name, id, kStateTimeout)});
  }
}

StateDonors::Donor* StateDonors::Select(const std::string& section, const std::string& key,
                                        size_t turn) {
  const auto found = holders_.find({section, key});
  if (found == holders_.end()) return nullptr;
  const std::vector<size_t>& holders = found->second;
  for (size_t i = 0; i < holders.size(); ++i) {
    Donor& donor = donors_[holders[(turn + i) % holders.size()]];
    if (!donor.lost) return &donor;
  }
  return nullptr;
}

absl::Status StateDonors::Fetch(const StatePlan& plan, int part, absl::Span<uint8_t> out) {
  const std::vector<StateRange> ranges = plan.RangesOf(part);
  size_t filled = 0;  // bytes
  for (size_t next = 0; next < ranges.size();) {
    // As many ranges as one donor has.
    Donor* donor = nullptr;
    std::vector<WantedRange> wanted;
    size_t bytes = 0;
    for (size_t i = next; i < ranges.size(); ++i) {
      const StateSection& section = plan.sections()[static_cast<size_t>(ranges[i].section)];
      const std::string& key = section.tensors[static_cast<size_t>(ranges[i].tensor)].key;
      Donor* const holder = Select(section.name, key, static_cast<size_t>(part));
      if (holder == nullptr) {
        const std::string none = absl::StrCat("no worker is left that holds tensor '", key,
                                              "' of section ", section.name);
        return gave_up_ ? absl::FailedPreconditionError(none) : absl::UnavailableError(none);
      }
      if (donor == nullptr) donor = holder;
      if (holder != donor) break;
      const auto size = static_cast<size_t>(ranges[i].bytes);
      wanted.push_back({section.name, key, static_cast<uint64_t>(ranges[i].begin),
                        out.subspan(filled + bytes, size)});
      bytes += size;
    }
    const absl::Status fetched = donor->fetcher->Fetch(wanted);
    if (fetched.ok()) {
      next += wanted.size();
      filled += bytes;
      continue;
    }
    donor->lost = true;
    gave_up_ = gave_up_ || absl::IsFailedPrecondition(fetched);
    spdlog::warn("{}; other workers are asked", std::string(fetched.message()));
  }
  return absl::OkStatus();
}

}  // namespace gradwire
