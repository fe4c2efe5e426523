"""The experiments, in the order in which `gradwire experiment list` shows them."""
from cli.experiment import collectives, course, ddp_paper, lab, large_batch

EXPERIMENTS = [course.EXPERIMENT, collectives.EXPERIMENT, lab.EXPERIMENT, large_batch.EXPERIMENT,
               ddp_paper.EXPERIMENT]
