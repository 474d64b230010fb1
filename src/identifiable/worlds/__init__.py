"""Data and decoders with a known answer: what tests and benchmarks measure an estimate against."""

from identifiable.worlds.cell_settings import CELL_PRESETS as CELL_PRESETS
from identifiable.worlds.cell_settings import CellSettings as CellSettings
from identifiable.worlds.cell_world import CellWorld as CellWorld
from identifiable.worlds.cell_world import cells as cells
from identifiable.worlds.decoders import MovingSquare as MovingSquare
from identifiable.worlds.decoders import Waves as Waves
from identifiable.worlds.factor_grid import FactorGrid as FactorGrid
from identifiable.worlds.factor_grid import FactorKind as FactorKind
from identifiable.worlds.factor_grid import PictureWorld as PictureWorld
from identifiable.worlds.mixtures import BLOCK as BLOCK
from identifiable.worlds.mixtures import KINDS as KINDS
from identifiable.worlds.mixtures import MIX as MIX
from identifiable.worlds.mixtures import Kind as Kind
from identifiable.worlds.mixtures import Law as Law
from identifiable.worlds.mixtures import SourceWorld as SourceWorld
from identifiable.worlds.mixtures import Values as Values
from identifiable.worlds.mixtures import random_law as random_law
from identifiable.worlds.mixtures import recovery as recovery
from identifiable.worlds.mixtures import sources as sources
from identifiable.worlds.scene import SceneWorld as SceneWorld
from identifiable.worlds.slots import MovingSprites as MovingSprites
from identifiable.worlds.slots import SlotWorld as SlotWorld
from identifiable.worlds.sprites import SpriteWorld as SpriteWorld
