"""What the commands about models can be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from identifiable.options.declaring import Option
from identifiable.options.running import SEED_END, Recorded

Pool = Literal["mean", "last", "cls", "patches"]
TooLong = Literal["truncate", "error"]


@dataclass(frozen=True, kw_only=True)
class ExtractOptions(Recorded):
    """Vectors of inputs from the layers of a model."""

    output: Annotated[
        Any, Option("the file to write (.safetensors)", short="-o", setting=False, metavar="PATH", required=True)
    ] = None
    layers: Annotated[
        Sequence[int | str],
        Option(
            "layers by number: 0 is what enters the first block, k what leaves the k-th (timm counts blocks from 0); last; all; "
            "pre_logits of a timm model, what its classifier sees; names of parts of another module, and output",
            metavar="LIST",
        ),
    ] = ("last",)
    pool: Annotated[
        Pool | None,
        Option(
            "how tokens become one vector: their mean (padding left out), the last one, the class token, or the mean of the patches "
            "of a picture",
            shown="mean",
        ),
    ] = None
    batch: Annotated[int, Option("inputs at once; affects rounding only", least=1, metavar="N")] = 32
    max_tokens: Annotated[
        int | None, Option("tokens of an input, at most", least=1, metavar="N", shown="what the model allows")
    ] = None
    too_long: Annotated[TooLong, Option("what to do with longer inputs")] = "truncate"
    weights: Annotated[
        str | None,
        Option(
            "weights of a timm:NAME or of a function that makes a model (.safetensors)", setting=False, metavar="FILE"
        ),
    ] = None
    untrained: Annotated[
        int | None,
        Option(
            "draw the weights anew from this seed: the same model without training, a baseline",
            least=0,
            most=SEED_END,
            metavar="SEED",
        ),
    ] = None
    trust_remote_code: Annotated[bool, Option("run the code that comes with a model directory")] = False
    workers: Annotated[
        int | None,
        Option("threads; affects rounding only", least=1, moves=False, metavar="N", shown="all cores"),
    ] = None
    name: Annotated[str | None, Option("name of the model, for tables and pages", flag=None, moves=False)] = None
