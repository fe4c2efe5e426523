"""The experiments, in the order in which `gradwire experiment list` shows them."""
from cli.experiment import collectives, course, ddp_paper, lab

EXPERIMENTS = [course.EXPERIMENT, collectives.EXPERIMENT, lab.EXPERIMENT, ddp_paper.EXPERIMENT]
