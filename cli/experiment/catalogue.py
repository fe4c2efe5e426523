"""The experiments, in the order in which `gradwire experiment list` shows them."""
from cli.experiment import course

EXPERIMENTS = [course.EXPERIMENT]
