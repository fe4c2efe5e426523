#include "common/base/logging.h"

#include <grpc/support/log.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "common/base/plain_text.h"

namespace gradwire {
namespace {

bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// The message, as "%*". Other processes sent much of it.
class PlainMessage : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& line) override {
    const std::string text =
        WithoutControls(absl::string_view(message.payload.data(), message.payload.size()));
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<PlainMessage>();
  }
};

}  // namespace

void LogToStderr() {
  const auto colour = IsSet("NO_COLOR") ? spdlog::color_mode::never : spdlog::color_mode::automatic;
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(colour);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("gradwire", std::move(sink)));
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PlainMessage>('*').set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %*");
  spdlog::set_formatter(std::move(formatter));
  if (IsSet("GRPC_VERBOSITY")) return;
  gpr_set_log_function([](gpr_log_func_args* args) { spdlog::debug("gRPC: {}", args->message); });
}

}  // namespace gradwire
