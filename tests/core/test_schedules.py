"""Schedules: values by hand, the same on numbers and on arrays, and the text that names them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from munchausen._src.core.schedules import (
    Cosine,
    Exponential,
    Function,
    Linear,
    Piecewise,
    as_schedule,
    at,
    parse,
)
from munchausen._src.errors import UserError

BY_HAND = [
    (Linear(1, 0.01, 250_000), {0: 1, 125_000: 0.505, 250_000: 0.01, 10**9: 0.01}),
    (Linear(0.0, 1.0, 4), {0: 0, 1: 0.25, 3: 0.75, 4: 1, 5: 1}),
    # cos(π/3) = 1/2 and cos(2π/3) = −1/2: a quarter and three quarters of the way.
    (Cosine(1.0, 0.0, 6), {0: 1, 2: 0.75, 3: 0.5, 4: 0.25, 6: 0, 7: 0}),
    (Exponential(0.1, 0.001, 100), {0: 0.1, 50: 0.01, 100: 0.001, 101: 0.001}),
    (Piecewise((3.0, 2.0, 5.0), (10, 20)), {0: 3, 9: 3, 10: 2, 19: 2, 20: 5, 10**6: 5}),
]


@pytest.mark.parametrize(("schedule", "values"), BY_HAND, ids=lambda x: str(x)[:12])
def test_by_hand(schedule, values):
    steps, expected = list(values), list(values.values())
    for step, value in values.items():
        assert isinstance(schedule(step), float)
        assert schedule(step) == pytest.approx(value, abs=1e-12)
    traced = jnp.array(steps, jnp.int32)
    for made in (schedule(traced), jax.jit(schedule)(traced), jax.vmap(schedule)(traced)):
        assert made.dtype == jnp.float32
        assert not made.weak_type  # or a loop that carries it would change its type
        np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-7)


def test_a_boundary_above_what_float32_counts():
    schedule = Piecewise((0.0, 1.0), (2**24 + 1,))
    assert jax.jit(schedule)(2**24) == 0
    assert jax.jit(schedule)(2**24 + 1) == 1


def test_a_number_is_itself_and_what_can_be_called_is_called():
    assert at(0.3, 7) == 0.3
    assert at(Linear(0, 1, 10), 5) == 0.5
    assert at(lambda step: 2 * step, 7) == 14


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        ("linear:1:0.01:250000", Linear(1.0, 0.01, 250_000)),
        ("cosine:5e-5:1e-6", Cosine(5e-5, 1e-6)),
        ("exponential:1:1e-20:7", Exponential(1.0, 1e-20, 7)),
        ("piecewise:5e-5:1000000:1e-5", Piecewise((5e-5, 1e-5), (1_000_000,))),
        ("function:decay", Function("decay")),
    ],
)
def test_text(text, schedule):
    assert parse(text) == schedule
    assert str(schedule) == text


def test_numbers_as_people_write_them():
    assert parse("piecewise:5e-5:1e6:1e-5") == parse("piecewise:0.00005:1_000_000:1e-05")
    assert parse("linear:1:0:2.5e5") == Linear(1.0, 0.0, 250_000)


floats = st.floats(allow_nan=False, allow_infinity=False)
positive = st.floats(min_value=1e-300, max_value=1e300)
counts = st.integers(1, 2**31 - 1)
# What to make and of what: made inside of a test, where types are checked.
schedules = st.one_of(
    st.tuples(st.sampled_from([Linear, Cosine]), st.tuples(floats, floats, st.none() | counts)),
    st.tuples(st.just(Exponential), st.tuples(positive, positive, st.none() | counts)),
    st.lists(counts, min_size=1, max_size=4, unique=True).flatmap(
        lambda steps: st.tuples(*[floats] * (len(steps) + 1)).map(
            lambda values: (Piecewise, (values, tuple(sorted(steps))))
        )
    ),
)


@given(schedules)
def test_text_and_back(made_of):
    kind, arguments = made_of
    schedule = kind(*arguments)
    assert parse(str(schedule)) == schedule
    assert str(parse(str(schedule))) == str(schedule)
    assert hash(parse(str(schedule))) == hash(schedule)


@given(schedules, st.integers(0, 2**31 - 1))
def test_values_lie_between_the_extremes(made_of, step):
    kind, arguments = made_of
    schedule = kind(*arguments).resolved(1000)
    limits = [value for _, value in schedule.extremes]
    slack = 1e-9 * max(map(abs, limits))
    assert min(limits) - slack <= schedule(step) <= max(limits) + slack


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("lineer:1:0", "did you mean 'linear'"),
        ("step:1:0", "linear:START:END"),
        ("linear", "write linear:START:END or linear:START:END:STEPS"),
        ("linear:1", "write linear:START:END"),
        ("linear:1:x", "write linear:START:END"),
        ("linear:1:0:5:5", "write linear:START:END"),
        ("piecewise:1:5", "write piecewise:VALUE:STEP:VALUE"),
        ("piecewise:1", "write piecewise:VALUE:STEP:VALUE"),
        ("linear:1:0:0", "counted from 1 to 2³¹ - 1, not 0"),
        ("linear:1:0:0.5", "steps are whole numbers, not 0.5"),
        ("linear:1:0:inf", "steps are whole numbers, not inf"),
        ("linear:1:0:3e9", "counted from 1 to 2³¹ - 1, not 3000000000"),
        ("linear:1:nan:5", "no finite number"),
        ("cosine:inf:0", "no finite number"),
        ("piecewise:1:20:2:10:3", "must grow"),
        ("piecewise:1:20:2:20:3", "must grow"),
        ("exponential:1:0:50", "above 0; linear or cosine can reach 0"),
    ],
)
def test_bad_text(text, said):
    with pytest.raises(UserError) as error:
        parse(text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_as_many_values_as_pieces():
    with pytest.raises(UserError, match="one value more than boundaries, not 2 and 2"):
        Piecewise((1.0, 2.0), (5, 6))


def test_the_length_of_a_run():
    schedule = parse("cosine:1:0")
    with pytest.raises(UserError, match="as long as its run"):
        schedule(0)
    begun = schedule.resolved(600)
    assert begun == Cosine(1.0, 0.0, 600)
    assert begun.resolved(9_000) == begun
    piecewise = parse("piecewise:1:5:2")
    assert piecewise.resolved(9_000) == piecewise


class TestFunctions:
    def test_is_called(self):
        schedule = as_schedule(lambda step: 1 / (1 + step))
        assert (schedule(0), schedule(3)) == (1.0, 0.25)
        steps = jnp.array([[0, 1], [3, 9]])
        expected = [[1, 0.5], [0.25, 0.1]]
        np.testing.assert_allclose(jax.jit(schedule)(steps), expected, rtol=1e-6)
        np.testing.assert_array_equal(as_schedule(lambda _: 2)(steps), np.full((2, 2), 2))

    def test_a_schedule_stays_what_it_is(self):
        assert as_schedule(Linear(1.0, 0.0)) == Linear(1.0, 0.0)

    def test_it_remembers_its_name_and_no_more(self):
        def decay(step):
            return 1.0 / (1 + step)

        schedule = as_schedule(decay)
        assert schedule == as_schedule(decay)
        assert hash(schedule) == hash(as_schedule(decay))
        assert str(schedule).endswith("decay")
        read = parse(str(schedule))
        assert str(read) == str(schedule)
        assert read != schedule
        with pytest.raises(UserError, match="does not hold it: give it again from Python"):
            read(0)

    def test_looked_at_over_the_run(self):
        schedule = as_schedule(lambda step: step / 1000)
        assert schedule.extremes == ()
        steps, values = zip(*schedule.resolved(1000).extremes, strict=True)
        assert (steps[0], steps[-1]) == (0, 1000)
        assert len(steps) > 100
        np.testing.assert_allclose(values, np.array(steps) / 1000, rtol=1e-6)

    @pytest.mark.parametrize(
        "function",
        [
            lambda step: 1.0 if step < 10 else 0.0,
            lambda step: np.float32(step),
            lambda step: jnp.ones(3) * step,
            lambda: 1.0,
            lambda step: "much" if step is None else None,
        ],
        ids=["if", "numpy", "array", "no argument", "nothing"],
    )
    def test_what_is_none(self, function):
        with pytest.raises(UserError, match="is no schedule"):
            as_schedule(function).resolved(100).extremes  # noqa: B018
