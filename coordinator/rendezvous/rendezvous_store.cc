#include "coordinator/rendezvous/rendezvous_store.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gradwire {

absl::Status RendezvousStore::Check(const Keys& keys) const {
  if (!aborted_.ok()) return aborted_;
  if (keys.size() > kMaxKeys) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", keys.size(), " keys, expected at most ", kMaxKeys));
  }
  for (const std::string& key : keys) {
    if (key.empty() || key.size() > kMaxKeyBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("key: got ", key.size(), " bytes, expected 1 to ", kMaxKeyBytes));
    }
  }
  return absl::OkStatus();
}

absl::Status RendezvousStore::Set(const std::string& key, std::string value) {
  MutexLock lock(&mutex_);
  if (absl::Status checked = Check({key}); !checked.ok()) return checked;
  if (value.size() > kMaxValueBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("value of '", key, "': got ", value.size(),
                                                     " bytes, expected at most ", kMaxValueBytes));
  }
  const auto old = values_.find(key);
  const size_t freed = old == values_.end() ? 0 : key.size() + old->second.size();
  const size_t bytes = bytes_ - freed + key.size() + value.size();
  if (bytes > kMaxBytes) {
    return absl::ResourceExhaustedError(absl::StrCat("key '", key, "': all values would need ",
                                                     bytes, " bytes, more than ", kMaxBytes));
  }
  bytes_ = bytes;
  values_[key] = std::move(value);
  changed_.NotifyAll();
  return absl::OkStatus();
}

RendezvousStore::Entries RendezvousStore::Find(const Keys& keys) const {
  Entries entries;
  for (const std::string& key : keys) {
    const auto entry = values_.find(key);
    if (entry != values_.end()) entries.push_back(*entry);
  }
  return entries;
}

RendezvousStore::Keys RendezvousStore::Missing(const Keys& keys) const {
  Keys missing;
  for (const std::string& key : keys) {
    if (values_.count(key) == 0) missing.push_back(key);
  }
  return missing;
}

absl::StatusOr<RendezvousStore::Entries> RendezvousStore::Get(const Keys& keys) const {
  MutexLock lock(&mutex_);
  if (absl::Status checked = Check(keys); !checked.ok()) return checked;
  return Find(keys);
}

absl::StatusOr<RendezvousStore::Entries> RendezvousStore::Wait(const Keys& keys,
                                                               absl::Time deadline) {
  MutexLock lock(&mutex_);
  if (absl::Status checked = Check(keys); !checked.ok()) return checked;
  bool late = false;
  while (true) {
    if (!aborted_.ok()) return aborted_;
    const Keys missing = Missing(keys);
    if (missing.empty()) return Find(keys);
    if (late) {
      return absl::DeadlineExceededError(
          absl::StrCat("missing keys: ", absl::StrJoin(missing, ", ")));
    }
    late = changed_.WaitWithDeadline(&mutex_, deadline);
  }
}

void RendezvousStore::Abort(absl::Status reason) {
  MutexLock lock(&mutex_);
  if (aborted_.ok()) aborted_ = std::move(reason);
  changed_.NotifyAll();
}

}  // namespace gradwire
