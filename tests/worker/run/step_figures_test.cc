// One figure, one value: what a step's log line, StepDone, /metrics and the summary say of it.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/support/temp_dir.h"
#include "worker/run/step_reporter.h"

namespace gradwire::step_figures_test {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using testing::TempDir;

constexpr int kSteps = 4;

// No two figures of a step are the same, nor those of two steps.
StepRecord RecordOf(int step) {
  StepRecord record;
  record.step = Step(static_cast<uint64_t>(step));
  record.rank = Rank(2);
  record.loss = 3.5 - step;
  record.samples = 32 + step;
  record.padded = 5 + step;
  record.correct = 11 + step;
  record.lr = 0.125 / (step + 1);
  record.iteration = absl::Milliseconds(500 + 10 * step);
  int phase = 0;
  for (const PhaseInfo& info : kPhases) {
    record.phases[info.phase] = absl::Milliseconds(20 * ++phase + step);
  }
  return record;
}

// Four steps of a worker that carries one rank.
class StepFiguresTest : public ::testing::Test {
 protected:
  StepFiguresTest() {
    WorkerOptions options;
    options.backend = "ring";
    options.log_jsonl = dir_.File("log");
    options.print_every = 2;
    reporter_ = StepReporter::Create(options, {{Rank(2)}, 4, kSteps, 10}, &metrics_).value();
    TransferTotals totals;
    for (int step = 0; step < kSteps; ++step) {
      totals.bytes_sent += 1000 + step;
      totals.bytes_received += 2000 + step;
      told_.push_back(reporter_->OnStep({RecordOf(step)}, totals).at(0));
    }
    std::ifstream file(dir_.File("log"));
    for (std::string line; std::getline(file, line);) {
      logged_.push_back(nlohmann::json::parse(line));
    }
    text_ = prometheus::TextSerializer().Serialize(metrics_.registry()->Collect());
    summary_ = nlohmann::json::parse(ToJson(reporter_->SummaryOf(0)));
  }

  // A series of /metrics; -1 if there is none.
  double Metric(const std::string& series) const {
    for (absl::string_view line : absl::StrSplit(text_, '\n')) {
      double value = 0;
      if (absl::ConsumePrefix(&line, absl::StrCat(series, " ")) && absl::SimpleAtod(line, &value)) {
        return value;
      }
    }
    return -1;
  }
  // Over all steps, of what StepDone says.
  template <typename Get>
  double Sum(Get get) const {
    double sum = 0;
    for (const v1::StepDone& done : told_) sum += static_cast<double>(get(done));
    return sum;
  }

  TempDir dir_;
  WorkerMetrics metrics_{"ddp", "ring"};
  std::unique_ptr<StepReporter> reporter_;
  std::vector<v1::StepDone> told_;
  std::vector<nlohmann::json> logged_;
  std::string text_;
  nlohmann::json summary_;
};

TEST_F(StepFiguresTest, StepDone_EveryFigure_IsTheRecords) {
  ASSERT_EQ(told_.size(), static_cast<size_t>(kSteps));
  for (int step = 0; step < kSteps; ++step) {
    const StepRecord record = RecordOf(step);
    const v1::StepDone& done = told_[step];
    EXPECT_EQ(done.rank(), 2u);
    EXPECT_EQ(done.step(), record.step.value());
    EXPECT_EQ(done.loss(), record.loss);
    EXPECT_EQ(done.samples(), static_cast<uint64_t>(record.samples));
    EXPECT_EQ(done.padded(), static_cast<uint64_t>(record.padded));
    EXPECT_EQ(done.correct(), static_cast<uint64_t>(record.correct));
    EXPECT_EQ(done.bytes_sent(), 1000u + step);
    EXPECT_EQ(done.bytes_received(), 2000u + step);
    EXPECT_EQ(done.iteration_seconds(), absl::ToDoubleSeconds(record.iteration));
    EXPECT_GT(done.peak_memory_bytes(), 1u << 20);
    for (const PhaseInfo& info : kPhases) {
      EXPECT_EQ(done.phase_seconds().at(info.name),
                absl::ToDoubleSeconds(record.phases[info.phase]))
          << info.name;
    }
  }
}

TEST_F(StepFiguresTest, Log_EveryFigure_IsStepDones) {
  ASSERT_EQ(logged_.size(), told_.size());
  for (size_t step = 0; step < told_.size(); ++step) {
    const nlohmann::json& line = logged_[step];
    const v1::StepDone& done = told_[step];
    EXPECT_EQ(line["step"], done.step());
    EXPECT_EQ(line["epoch"], done.epoch());
    EXPECT_EQ(line["rank"], done.rank());
    EXPECT_EQ(line["loss"], done.loss());
    EXPECT_EQ(line["samples"], done.samples());
    EXPECT_EQ(line["iteration_seconds"], done.iteration_seconds());
    EXPECT_EQ(line["bytes_sent"], done.bytes_sent());
    EXPECT_EQ(line["bytes_received"], done.bytes_received());
    EXPECT_EQ(line["peak_memory_bytes"], done.peak_memory_bytes());
    EXPECT_EQ(line["lr"], RecordOf(static_cast<int>(step)).lr);
    EXPECT_NEAR(line["time"].get<double>(), done.time(), 1e-5);
    EXPECT_EQ(line["phase_seconds"].size(), done.phase_seconds().size());
    for (const auto& [phase, seconds] : done.phase_seconds()) {
      EXPECT_EQ(line["phase_seconds"][phase], seconds) << phase;
    }
  }
}

TEST_F(StepFiguresTest, Metrics_EveryFigure_IsTheSumOfStepDones) {
  EXPECT_EQ(Metric("gradwire_iterations_total"), kSteps);
  EXPECT_EQ(Metric("gradwire_samples_total"), Sum([](const auto& d) { return d.samples(); }));
  EXPECT_EQ(Metric("gradwire_correct_samples_total"),
            Sum([](const auto& d) { return d.correct(); }));
  EXPECT_EQ(Metric("gradwire_bytes_total{direction=\"sent\"}"),
            Sum([](const auto& d) { return d.bytes_sent(); }));
  EXPECT_EQ(Metric("gradwire_bytes_total{direction=\"received\"}"),
            Sum([](const auto& d) { return d.bytes_received(); }));
  EXPECT_NEAR(Metric("gradwire_iteration_seconds_sum{backend=\"ring\",sync=\"ddp\"}"),
              Sum([](const auto& d) { return d.iteration_seconds(); }), 1e-9)
      << text_;
  for (const PhaseInfo& info : kPhases) {
    EXPECT_NEAR(Metric(absl::StrCat("gradwire_phase_seconds_sum{phase=\"", info.name, "\"}")),
                Sum([&](const auto& d) { return d.phase_seconds().at(info.name); }), 1e-9)
        << info.name;
  }
}

TEST_F(StepFiguresTest, Metrics_LossAndStep_AreTheLastStepDones) {
  EXPECT_EQ(Metric("gradwire_loss"), told_.back().loss());
  EXPECT_EQ(Metric("gradwire_peak_memory_bytes"), told_.back().peak_memory_bytes());
  EXPECT_EQ(Metric("gradwire_step"), told_.back().step());
}

TEST_F(StepFiguresTest, Summary_CountsAndLosses_AreStepDones) {
  EXPECT_EQ(summary_["iterations"], kSteps);
  EXPECT_EQ(summary_["samples"]["seen"], Sum([](const auto& d) { return d.samples(); }));
  EXPECT_EQ(summary_["samples"]["padded"], Sum([](const auto& d) { return d.padded(); }));
  EXPECT_EQ(summary_["bytes_sent"], Sum([](const auto& d) { return d.bytes_sent(); }));
  EXPECT_EQ(summary_["bytes_received"], Sum([](const auto& d) { return d.bytes_received(); }));
  EXPECT_EQ(summary_["peak_memory_bytes"], told_.back().peak_memory_bytes());
  EXPECT_EQ(summary_["loss"]["first"], told_.front().loss());
  EXPECT_EQ(summary_["loss"]["last"], told_.back().loss());
  EXPECT_EQ(summary_["losses"], nlohmann::json({told_[0].loss(), told_[2].loss()}));
  EXPECT_NEAR(summary_["train"]["accuracy"].get<double>(),
              Sum([](const auto& d) { return d.correct(); }) /
                  Sum([](const auto& d) { return d.samples(); }),
              1e-12);
}

// The first step warms up.
TEST_F(StepFiguresTest, Summary_Times_AreMeansOfStepDonesWithoutTheFirst) {
  const auto mean = [this](auto get) {
    return (Sum(get) - static_cast<double>(get(told_.front()))) / (kSteps - 1);
  };
  EXPECT_NEAR(summary_["iteration_seconds"]["mean"].get<double>(),
              mean([](const auto& d) { return d.iteration_seconds(); }), 1e-12);
  EXPECT_EQ(summary_["iteration_seconds"]["p50"], told_[2].iteration_seconds());
  for (const PhaseInfo& info : kPhases) {
    EXPECT_NEAR(summary_["phase_seconds"][info.name].get<double>(),
                mean([&](const auto& d) { return d.phase_seconds().at(info.name); }), 1e-12)
        << info.name;
  }
}

TEST_F(StepFiguresTest, Status_LastStep_IsStepDone) {
  const v1::RankStatus status = reporter_->Status().at(0);
  EXPECT_EQ(status.steps_done(), kSteps);
  EXPECT_TRUE(MessageDifferencer::Equals(status.last_step(), told_.back()));
}

}  // namespace
}  // namespace gradwire::step_figures_test
