"""The papers behind the figures on a page: how to cite them, and a definition that several pages need."""

from __future__ import annotations

from collections.abc import Iterable

EFFECTIVE_RANK = (
    "Effective rank is the exponential of the entropy of the variance shares (Roy and Vetterli 2007): "
    "d if all directions carry the same variance, near 1 if one carries all."
)

BIBTEX = {
    "nelson": """@inproceedings{nelson2026statistical,
  title = {Statistical and structural identifiability in representation learning},
  author = {Nelson and Fumero and Karaletsos and Locatello},
  booktitle = {International Conference on Learning Representations},
  year = {2026},
  eprint = {2603.11970},
  archivePrefix = {arXiv}
}""",
    "roeder": """@inproceedings{roeder2021linear,
  title = {On linear identifiability of learned representations},
  author = {Roeder, Geoffrey and Metz, Luke and Kingma, Diederik P.},
  booktitle = {International Conference on Machine Learning},
  year = {2021}
}""",
    "kornblith": """@inproceedings{kornblith2019similarity,
  title = {Similarity of neural network representations revisited},
  author = {Kornblith, Simon and Norouzi, Mohammad and Lee, Honglak and Hinton, Geoffrey},
  booktitle = {International Conference on Machine Learning},
  year = {2019}
}""",
    "raghu": """@inproceedings{raghu2017svcca,
  title = {{SVCCA}: Singular vector canonical correlation analysis for deep learning dynamics and interpretability},
  author = {Raghu, Maithra and Gilmer, Justin and Yosinski, Jason and Sohl-Dickstein, Jascha},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2017}
}""",
    "roy": """@inproceedings{roy2007effective,
  title = {The effective rank: a measure of effective dimensionality},
  author = {Roy, Olivier and Vetterli, Martin},
  booktitle = {European Signal Processing Conference},
  year = {2007}
}""",
    "hyvarinen": """@article{hyvarinen1999fast,
  title = {Fast and robust fixed-point algorithms for independent component analysis},
  author = {Hyv{\\"a}rinen, Aapo},
  journal = {IEEE Transactions on Neural Networks},
  volume = {10},
  number = {3},
  pages = {626--634},
  year = {1999}
}""",
    "negentropy": """@inproceedings{hyvarinen1998new,
  title = {New approximations of differential entropy for independent component analysis and projection pursuit},
  author = {Hyv{\\"a}rinen, Aapo},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {1998}
}""",
    "ablin": """@inproceedings{ablin2018faster,
  title = {Faster {ICA} under orthogonal constraint},
  author = {Ablin, Pierre and Cardoso, Jean-Fran{\\c{c}}ois and Gramfort, Alexandre},
  booktitle = {IEEE International Conference on Acoustics, Speech and Signal Processing},
  year = {2018}
}""",
    "himberg": """@inproceedings{himberg2003icasso,
  title = {Icasso: software for investigating the reliability of {ICA} estimates by clustering and visualization},
  author = {Himberg, Johan and Hyv{\\"a}rinen, Aapo},
  booktitle = {IEEE Workshop on Neural Networks for Signal Processing},
  year = {2003}
}""",
    "hosking": """@article{hosking1987parameter,
  title = {Parameter and quantile estimation for the generalized {Pareto} distribution},
  author = {Hosking, Jonathan R. M. and Wallis, James R.},
  journal = {Technometrics},
  volume = {29},
  number = {3},
  pages = {339--349},
  year = {1987}
}""",
    "alestalo": """@article{alestalo2001isometric,
  title = {Isometric approximation},
  author = {Alestalo, Pekka and Trotsenko, Dmitry A. and V{\\"a}is{\\"a}l{\\"a}, Jussi},
  journal = {Israel Journal of Mathematics},
  volume = {125},
  pages = {61--82},
  year = {2001}
}""",
    "gower": """@article{gower1975generalized,
  title = {Generalized {Procrustes} analysis},
  author = {Gower, John C.},
  journal = {Psychometrika},
  volume = {40},
  pages = {33--51},
  year = {1975}
}""",
}


def entries(keys: Iterable[str]) -> str:
    """BibTeX of these papers."""
    return "\n\n".join(BIBTEX[key] for key in keys)
