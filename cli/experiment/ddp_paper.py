"""The paper on PyTorch's DistributedDataParallel (Li et al., VLDB 2020) and the lecture on it:
where an iteration goes, the size of buckets, round-robin groups, fewer exchanges, scaling, and the
questions about Spark. Each part has a file."""
from cli.experiment import ddp_bucket_claims, ddp_buckets, ddp_phases, ddp_scaling, ddp_spark
from cli.experiment.ddp_setups import SCALES
from cli.experiment.study import LEARNING, Experiment, Findings

SOURCE = "PyTorch Distributed: Experiences on Accelerating Data Parallel Training, VLDB 2020"
# In the order of the report.
STATEMENTS = (*ddp_bucket_claims.STATEMENTS, *ddp_phases.STATEMENTS, *ddp_scaling.STATEMENTS,
              *ddp_spark.STATEMENTS)


def runs(setting):
    planned = [*ddp_buckets.runs(setting), *ddp_phases.runs(setting), *ddp_scaling.runs(setting),
               *ddp_spark.runs(setting)]
    return list({work.name: work for work in planned}.values())  # parts share some


def find(setting, results):
    notes = ["Runs that name no model train VGG-11; the paper's measurements on NCCL need GPUs. "
             "The ring, which loads all links alike as NCCL's, stands for it.",
             "As with the paper's DDP, a run ends if a rank is lost (--on-loss stop): no rank keeps what "
             "it would need to carry on."]
    if not setting.has_hosts:
        notes.append("All ranks shared this machine, so times do not predict those of a cluster.")
    return Findings(
        [*ddp_bucket_claims.claims(setting, results), *ddp_phases.claims(setting, results),
         *ddp_scaling.claims(setting, results), *ddp_spark.claims(setting, results)],
        [*ddp_phases.found(setting, results), *ddp_buckets.found(setting, results),
         *ddp_scaling.found(setting, results), *ddp_spark.found(setting, results)], notes)


EXPERIMENT = Experiment("ddp-paper", "Buckets, overlap and scaling of DistributedDataParallel",
                        SOURCE, SCALES, runs, find, 4, leaves_open=LEARNING, statements=STATEMENTS)
