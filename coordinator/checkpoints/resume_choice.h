#ifndef GRADWIRE_COORDINATOR_CHECKPOINTS_RESUME_CHOICE_H_
#define GRADWIRE_COORDINATOR_CHECKPOINTS_RESUME_CHOICE_H_

namespace gradwire {

// Values of --resume besides the step of a checkpoint.
inline constexpr char kResumeAuto[] = "auto";
inline constexpr char kResumeNever[] = "never";

}  // namespace gradwire

#endif  // GRADWIRE_COORDINATOR_CHECKPOINTS_RESUME_CHOICE_H_
