"""The four figures of Roeder, Metz and Kingma (2021): are representations of retrained models alike up to a linear map?

A file for each experiment, all with `settings(scale, changes)` and `run(experiment, chosen, options)`; `measuring` has what they
share: how two representations are compared on held-out rows, intervals over pairs, and what the paper states.
"""
