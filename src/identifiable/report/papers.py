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
    "hsu": """@inproceedings{hsu2023disentanglement,
  title = {Disentanglement via latent quantization},
  author = {Hsu, Kyle and Dorrell, Will and Whittington, James C. R. and Wu, Jiajun and Finn, Chelsea},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2023}
}""",
    "ross": """@article{ross2014mutual,
  title = {Mutual information between discrete and continuous data sets},
  author = {Ross, Brian C.},
  journal = {PLoS ONE},
  volume = {9},
  number = {2},
  pages = {e87357},
  year = {2014}
}""",
    "eastwood": """@inproceedings{eastwood2018framework,
  title = {A framework for the quantitative evaluation of disentangled representations},
  author = {Eastwood, Cian and Williams, Christopher K. I.},
  booktitle = {International Conference on Learning Representations},
  year = {2018}
}""",
    "chen": """@inproceedings{chen2018isolating,
  title = {Isolating sources of disentanglement in variational autoencoders},
  author = {Chen, Ricky T. Q. and Li, Xuechen and Grosse, Roger and Duvenaud, David},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2018}
}""",
    "li": """@inproceedings{li2020progressive,
  title = {Progressive learning and disentanglement of hierarchical representations},
  author = {Li, Zhiyuan and Murkute, Jaideep Vitthal and Gyawali, Prashnna Kumar and Wang, Linwei},
  booktitle = {International Conference on Learning Representations},
  year = {2020}
}""",
    "do": """@inproceedings{do2020theory,
  title = {Theory and evaluation metrics for learning disentangled representations},
  author = {Do, Kien and Tran, Truyen},
  booktitle = {International Conference on Learning Representations},
  year = {2020}
}""",
    "sepliarskaia": """@article{sepliarskaia2019how,
  title = {How not to measure disentanglement},
  author = {Sepliarskaia, Anna and Kiseleva, Julia and de Rijke, Maarten},
  year = {2019},
  eprint = {1910.05587},
  archivePrefix = {arXiv}
}""",
    "ridgeway": """@inproceedings{ridgeway2018learning,
  title = {Learning deep disentangled embeddings with the {F}-statistic loss},
  author = {Ridgeway, Karl and Mozer, Michael C.},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2018}
}""",
    "kumar": """@inproceedings{kumar2018variational,
  title = {Variational inference of disentangled latent concepts from unlabeled observations},
  author = {Kumar, Abhishek and Sattigeri, Prasanna and Balakrishnan, Avinash},
  booktitle = {International Conference on Learning Representations},
  year = {2018}
}""",
    "suter": """@inproceedings{suter2019robustly,
  title = {Robustly disentangled causal mechanisms: validating deep representations for interventional robustness},
  author = {Suter, Raphael and Miladinovi{\\'c}, {\\DJ}or{\\dj}e and Sch{\\"o}lkopf, Bernhard and Bauer, Stefan},
  booktitle = {International Conference on Machine Learning},
  year = {2019}
}""",
    "morioka": """@inproceedings{hyvarinen2016unsupervised,
  title = {Unsupervised feature extraction by time-contrastive learning and nonlinear {ICA}},
  author = {Hyv{\\"a}rinen, Aapo and Morioka, Hiroshi},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2016}
}""",
    "higgins": """@inproceedings{higgins2017beta,
  title = {beta-{VAE}: Learning basic visual concepts with a constrained variational framework},
  author = {Higgins, Irina and Matthey, Loic and Pal, Arka and Burgess, Christopher and Glorot, Xavier and
    Botvinick, Matthew and Mohamed, Shakir and Lerchner, Alexander},
  booktitle = {International Conference on Learning Representations},
  year = {2017}
}""",
    "kim": """@inproceedings{kim2018disentangling,
  title = {Disentangling by factorising},
  author = {Kim, Hyunjik and Mnih, Andriy},
  booktitle = {International Conference on Machine Learning},
  year = {2018}
}""",
    "whittington": """@inproceedings{whittington2023disentanglement,
  title = {Disentanglement with biological constraints: a theory of functional cell types},
  author = {Whittington, James C. R. and Dorrell, Will and Ganguli, Surya and Behrens, Timothy E. J.},
  booktitle = {International Conference on Learning Representations},
  year = {2023}
}""",
    "oord": """@inproceedings{oord2017neural,
  title = {Neural discrete representation learning},
  author = {van den Oord, A{\\"a}ron and Vinyals, Oriol and Kavukcuoglu, Koray},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2017}
}""",
    "locatello": """@inproceedings{locatello2019challenging,
  title = {Challenging common assumptions in the unsupervised learning of disentangled representations},
  author = {Locatello, Francesco and Bauer, Stefan and Lucic, Mario and R{\\"a}tsch, Gunnar and Gelly, Sylvain and
    Sch{\\"o}lkopf, Bernhard and Bachem, Olivier},
  booktitle = {International Conference on Machine Learning},
  year = {2019}
}""",
    "ke": """@inproceedings{ke2017lightgbm,
  title = {{LightGBM}: A highly efficient gradient boosting decision tree},
  author = {Ke, Guolin and Meng, Qi and Finley, Thomas and Wang, Taifeng and Chen, Wei and Ma, Weidong and Ye, Qiwei and
    Liu, Tie-Yan},
  booktitle = {Advances in Neural Information Processing Systems},
  year = {2017}
}""",
    "hoyer": """@article{hoyer2004nonnegative,
  title = {Non-negative matrix factorization with sparseness constraints},
  author = {Hoyer, Patrik O.},
  journal = {Journal of Machine Learning Research},
  volume = {5},
  pages = {1457--1469},
  year = {2004}
}""",
    "benjamini": """@article{benjamini1995controlling,
  title = {Controlling the false discovery rate: a practical and powerful approach to multiple testing},
  author = {Benjamini, Yoav and Hochberg, Yosef},
  journal = {Journal of the Royal Statistical Society, Series B},
  volume = {57},
  number = {1},
  pages = {289--300},
  year = {1995}
}""",
    "kalinin": """@article{kalinin2025versatile,
  title = {A versatile information retrieval framework for evaluating profile strength and similarity},
  author = {Kalinin, Alexandr A. and others},
  journal = {Nature Communications},
  year = {2025}
}""",
    "korsunsky": """@article{korsunsky2019fast,
  title = {Fast, sensitive and accurate integration of single-cell data with {Harmony}},
  author = {Korsunsky, Ilya and others},
  journal = {Nature Methods},
  volume = {16},
  pages = {1289--1296},
  year = {2019}
}""",
    "buttner": """@article{buttner2019test,
  title = {A test metric for assessing single-cell {RNA}-seq batch correction},
  author = {B{\\"u}ttner, Maren and Miao, Zhichao and Wolf, F. Alexander and Teichmann, Sarah A. and Theis, Fabian J.},
  journal = {Nature Methods},
  volume = {16},
  pages = {43--49},
  year = {2019}
}""",
    "luecken": """@article{luecken2022benchmarking,
  title = {Benchmarking atlas-level data integration in single-cell genomics},
  author = {Luecken, Malte D. and others},
  journal = {Nature Methods},
  volume = {19},
  pages = {41--50},
  year = {2022}
}""",
    "johnson": """@article{johnson2007adjusting,
  title = {Adjusting batch effects in microarray expression data using empirical {Bayes} methods},
  author = {Johnson, W. Evan and Li, Cheng and Rabinovic, Ariel},
  journal = {Biostatistics},
  volume = {8},
  number = {1},
  pages = {118--127},
  year = {2007}
}""",
    "ando": """@article{ando2017improving,
  title = {Improving phenotypic measurements in high-content imaging screens},
  author = {Ando, D. Michael and McLean, Cory Y. and Berndl, Marc},
  journal = {bioRxiv},
  year = {2017}
}""",
    "celik": """@article{celik2024building,
  title = {Building, benchmarking, and exploring perturbative maps of transcriptional and morphological data},
  author = {Celik, Safiye and others},
  journal = {PLOS Computational Biology},
  year = {2024}
}""",
    "rousseeuw": """@article{rousseeuw1987silhouettes,
  title = {Silhouettes: a graphical aid to the interpretation and validation of cluster analysis},
  author = {Rousseeuw, Peter J.},
  journal = {Journal of Computational and Applied Mathematics},
  volume = {20},
  pages = {53--65},
  year = {1987}
}""",
}


def entries(keys: Iterable[str]) -> str:
    """BibTeX of these papers."""
    return "\n\n".join(BIBTEX[key] for key in keys)
