"""representation: rows meet by their ids, what is lost is counted, and half a join is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from errors import naming
from identifiable._checks import DataError, PairingError
from identifiable.blocks import Blocks
from identifiable.representation import Pairing, Representation, pair

SEEDS = [0, 1, 20240613]


def with_ids(ids: Any, name: str = "a") -> Representation:
    """A table whose one column is the position of the row."""
    ids = np.asarray(ids)
    return Representation(np.arange(len(ids), dtype=float)[:, None], ids=ids, name=name)


def without_ids(n: int, name: str = "a") -> Representation:
    return Representation(np.zeros((n, 2)), name=name)


def texts(ids: Any) -> list[str]:
    return [v.decode() if isinstance(v, bytes) else str(v) for v in np.asarray(ids).tolist()]


def joined_ids(join: Pairing, *representations: Representation) -> list[list[str]]:
    """The ids that each side's chosen rows carry, as text."""
    columns: list[NDArray[Any]] = [np.asarray(r.ids) for r in representations]
    return [texts(c if rows is None else c[rows]) for c, rows in zip(columns, join.rows, strict=True)]


# Joining by id


def test_two_rows_in_the_other_order_by_hand():
    join = pair(with_ids(["x", "y"]), with_ids(["y", "x"], "b"))
    assert join.rows[0] is None
    assert join.rows[1] is not None
    assert join.rows[1].tolist() == [1, 0]
    assert (join.n, join.dropped) == (2, (0, 0))
    assert join.ids is not None
    assert join.ids.tolist() == ["x", "y"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["text", "bytes", "integers"])
def test_shuffled_rows_find_each_other(seed, kind):
    rng = np.random.default_rng(seed)
    ids = {"text": np.char.mod("cell-%d", np.arange(80)), "integers": np.arange(80) * 7 - 100}
    ids["bytes"] = np.char.encode(ids["text"])
    a, b = (with_ids(ids[kind][rng.permutation(80)[:60]], name) for name in "ab")
    join = pair(a, b)
    left, right = joined_ids(join, a, b)
    assert left == right
    assert set(left) == set(texts(a.ids)) & set(texts(b.ids))
    assert join.dropped == (60 - join.n, 60 - join.n)
    assert texts(a.ids)[: join.n] != texts(b.ids)[: join.n]  # by position other rows would meet


@pytest.mark.parametrize("seed", SEEDS)
def test_three_representations_keep_what_all_have_in_the_order_of_the_first(seed):
    rng = np.random.default_rng(seed)
    a, b, c = (
        with_ids(np.char.mod("%04d", rng.permutation(50)[:size]), name)
        for name, size in zip("abc", (50, 40, 30), strict=True)
    )
    join = pair(a, b, c)
    left, middle, right = joined_ids(join, a, b, c)
    shared = {*a.ids.tolist()} & {*b.ids.tolist()} & {*c.ids.tolist()}
    assert left == middle == right == [i for i in a.ids.tolist() if i in shared]
    assert join.dropped == (50 - join.n, 40 - join.n, 30 - join.n)
    assert join.n == len(shared) < 30
    assert joined_ids(pair(c, b, a), c, b, a)[0] != left  # the order of the first, which is now another


def test_missing_ids_are_an_error_when_asked():
    a, b = with_ids(["a", "b", "c"]), with_ids(["c", "b"], "b")
    with pytest.raises(PairingError, match=r"2.*3.*missing='drop'"):
        pair(a, b, missing="error")
    assert pair(a, with_ids(["c", "b", "a"], "b"), missing="error").dropped == (0, 0)


def test_ids_as_bytes_join_ids_as_text():
    a, b = with_ids(np.array(["é1", "b", "long-name"])), with_ids(np.array([b"b", "é1".encode()]), "b")
    join = pair(a, b)
    assert (join.n, join.dropped) == (2, (1, 0))
    assert join.rows[1] is not None
    assert join.rows[1].tolist() == [1, 0]


def test_ids_in_wider_text_arrays_and_in_object_arrays_join():
    a = with_ids(np.array(["p", "q"], dtype="U40"))
    assert pair(a, with_ids(np.array(["q", "p"], dtype="U1"), "b")).n == 2
    assert pair(a, with_ids(np.array(["q", "r"], dtype=object), "b")).n == 1


def test_integer_ids_of_other_widths_join():
    join = pair(with_ids(np.array([3, 1], dtype=np.int8)), with_ids(np.array([1, 2, 3], dtype=np.uint32), "b"))
    assert join.rows[1] is not None
    assert (join.rows[1].tolist(), join.dropped) == ([2, 0], (0, 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_long_integer_ids_join_exactly_across_signedness(seed):
    ids = 2**60 + np.arange(100)
    a = with_ids(ids.astype(np.uint64))
    b = with_ids(ids[np.random.default_rng(seed).permutation(100)], "b")
    left, right = joined_ids(pair(a, b), a, b)
    assert left == right


def test_long_integer_ids_that_differ_by_one_do_not_join():
    ids = 2**60 + np.arange(100) * 2**40
    with pytest.raises(PairingError, match=naming("share", 0, 100)):
        pair(with_ids(ids.astype(np.uint64)), with_ids(ids + 1, "b"))


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
@pytest.mark.parametrize("seed", SEEDS)
def test_long_integer_ids_of_one_kind_join_exactly(seed, dtype):
    ids = (2**60 + np.arange(100)).astype(dtype)
    a, b = with_ids(ids), with_ids(ids[np.random.default_rng(seed).permutation(100)], "b")
    left, right = joined_ids(pair(a, b), a, b)
    assert left == right
    with pytest.raises(PairingError, match=naming("share", 0, 100)):
        pair(a, with_ids(ids + dtype(100), "b"))


# What cannot be joined


def test_no_shared_id_is_an_error_that_shows_the_first_of_each_side():
    with pytest.raises(PairingError, match=r"0.*2.*\(first.*p\)"):
        pair(with_ids(["x", "y"]), with_ids(["p", "q", "r"], "b"))


def test_numbers_against_text_are_refused():
    with pytest.raises(PairingError, match=r"\(a: int64,.*<U1\)"):
        pair(with_ids([1, 2]), with_ids(["1", "2"], "b"))
    assert pair(with_ids(["1", "2"]), with_ids(["1", "2"], "b")).n == 2


@pytest.mark.parametrize("ids", [[1.0, 2.0], [True, False], [1j, 2j]])
def test_ids_that_are_neither_text_nor_integers_are_refused(ids):
    with pytest.raises(PairingError, match=r"sample.*integers"):
        pair(with_ids(ids), with_ids(ids, "b"))


def test_ids_on_one_side_only_are_refused():
    with pytest.raises(PairingError, match=r"sample.*representation"):
        pair(without_ids(2), with_ids(["x", "y"], "b"))
    with pytest.raises(PairingError, match=r"sample.*none"):
        pair(with_ids(["x", "y"]), with_ids(["x", "y"], "b"), without_ids(2, "c"))


def test_repeated_ids_are_refused_with_their_number_and_the_first():
    with pytest.raises(PairingError, match=r"2.*\(first: 'x', 'z'\)"):
        with_ids(["x", "y", "x", "z", "z", "z"])
    assert with_ids(["x", "y", "z"]).n == 3


@pytest.mark.parametrize("ids", [["x"], ["x", "y", "z"], [["x"], ["y"]], "x"])
def test_ids_of_another_shape_than_the_rows_are_refused(ids):
    with pytest.raises(PairingError, match=r"2.*\("):
        Representation(np.zeros((2, 1)), ids=np.asarray(ids), name="a")


@pytest.mark.parametrize("ids", [[1, "x"], ["x", None], [b"x", "y"], [True, 2]])
def test_ids_as_objects_that_are_not_all_text_are_refused(ids):
    with pytest.raises(PairingError, match=r"sample.*integers"):
        with_ids(np.array(ids, dtype=object))
    assert with_ids(np.array(["x", "y"], dtype=object)).n == 2
    assert with_ids(np.array([1, 2], dtype=object)).ids.dtype.kind == "i"


def test_integer_ids_beyond_int64_are_refused():
    with pytest.raises(PairingError, match=r"9223372036854775808.*64-bit"):
        pair(with_ids(np.array([1, 2**63], dtype=np.uint64)), with_ids([1, 2], "b"))
    assert pair(with_ids(np.array([1, 2**63 - 1], dtype=np.uint64)), with_ids([2**63 - 1, 2], "b")).n == 1


def test_ids_that_are_not_utf8_are_refused():
    with pytest.raises(PairingError, match=r"sample.*bytes.*UTF-8"):
        pair(with_ids(np.array([b"\xff", b"x"])), with_ids(["x", "y"], "b"))


# By position


def test_without_ids_rows_are_paired_by_position():
    join = pair(without_ids(4), without_ids(4, "b"), without_ids(4, "c"))
    assert (join.rows, join.ids, join.dropped, join.n) == ((None,) * 3, None, (0, 0, 0), 4)


def test_without_ids_unequal_lengths_are_refused_with_each_length():
    with pytest.raises(PairingError, match=r"4,.*5"):
        pair(without_ids(4), without_ids(5, "b"))


# The table itself


def test_a_representation_takes_blocks_and_reads_nothing():
    class Unread:
        shape, dtype = (3, 2), np.dtype("f4")

        def __getitem__(self, rows: Any) -> Any:
            raise AssertionError("read")

    r = Representation(Blocks(Unread()), ids=np.arange(3))
    assert (r.n, r.d) == (3, 2)
    assert pair(r, with_ids([2, 1, 0], "b")).n == 3
    with pytest.raises(AssertionError, match="read"):
        r.values[0:1]


def test_a_label_for_every_row_or_a_message():
    with pytest.raises(DataError, match=naming("a: ", "'plate'", 2, 3)):
        Representation(np.zeros((3, 2)), name="a", labels={"plate": np.array([1, 2])})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(3), r"a: .*2-D.*\(n, 1\)"),
        (np.zeros((3, 0)), "least one row"),
        (np.array([["x"]]), "expected real numbers,"),
    ],
)
def test_what_is_no_table_is_refused(values, message):
    with pytest.raises(DataError, match=message):
        Representation(values, name="a")


def test_variable_width_text_ids_join_like_any_text():
    values = np.zeros((2, 1))
    wide = Representation(values, ids=np.array(["x", "y"], dtype=np.dtypes.StringDType()), name="a")
    assert pair(wide, Representation(values, ids=np.array(["y", "x"]), name="b")).rows[1].tolist() == [1, 0]


def test_nothing_to_pair_is_refused():
    with pytest.raises(PairingError, match="nothing to pair"):
        pair()
