"""The experiments, in the order of `gradwire experiment list`."""
from cli.experiment import (collectives, course, data_parallel, ddp_paper, inference, lab,
                            large_batch, time_to_accuracy)

EXPERIMENTS = [course.EXPERIMENT, collectives.EXPERIMENT, lab.EXPERIMENT, large_batch.EXPERIMENT,
               ddp_paper.EXPERIMENT, data_parallel.EXPERIMENT, inference.EXPERIMENT,
               time_to_accuracy.EXPERIMENT]
