"""Records: what is written is what is read, whatever a crash leaves of the last line."""

import contextlib
import tempfile
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from munchausen._src.errors import UserError
from munchausen._src.experiment.records import RECORDS, RecordWriter, read_records

VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.floats(allow_nan=False).filter(lambda x: abs(x) != float("inf"))
)
ROWS = st.lists(st.dictionaries(st.text(), VALUES), max_size=8)


def write(folder: Path, rows, keep_bytes: int = 0) -> int:
    writer = RecordWriter(folder, keep_bytes)
    try:
        writer.append(rows)
        return writer.sync()
    finally:
        writer.close()


@given(batches=st.lists(ROWS, max_size=4))
@settings(deadline=None, max_examples=60)
def test_rows_written_are_rows_read(batches):
    with tempfile.TemporaryDirectory() as name:
        folder, size = Path(name), 0
        for rows in batches:
            size = write(folder, rows, keep_bytes=size)
            assert size == (folder / RECORDS).stat().st_size
        assert read_records(folder) == [row for rows in batches for row in rows]


@given(kept=ROWS, dropped=ROWS, after=ROWS)
@settings(deadline=None, max_examples=60)
def test_rows_behind_the_checkpoint_go(kept, dropped, after):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vouched = write(folder, kept)
        write(folder, dropped, keep_bytes=vouched)
        write(folder, after, keep_bytes=vouched)
        assert read_records(folder) == kept + after


def test_a_new_run_starts_empty(tmp_path):
    write(tmp_path, [{"step": 1}])
    RecordWriter(tmp_path).close()
    assert read_records(tmp_path) == []


def test_no_records_are_no_rows(tmp_path):
    assert read_records(tmp_path) == []


def test_rows_are_there_before_the_writer_closes(tmp_path):
    writer = RecordWriter(tmp_path)
    writer.append([{"step": 1}])
    assert read_records(tmp_path) == [{"step": 1}]
    writer.close()


@pytest.mark.parametrize("cut", range(1, len('{"step": 2, "score": 0.5}\n') - 1))
def test_a_torn_last_line_is_dropped_with_one_warning(tmp_path, cut):
    rows = [{"step": 1, "score": None}, {"step": 2, "score": 0.5}]
    first = write(tmp_path, rows[:1])
    write(tmp_path, rows[1:], keep_bytes=first)
    path = tmp_path / RECORDS
    path.write_bytes(path.read_bytes()[: first + cut])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert read_records(tmp_path) == rows[:1]
    assert len(caught) == 1
    assert "cut short" in str(caught[0].message)
    # The writer that goes on removes it, so nothing is left to warn of.
    write(tmp_path, rows[1:], keep_bytes=first)
    assert read_records(tmp_path) == rows


def test_only_the_newline_is_missing(tmp_path):
    write(tmp_path, [{"step": 1}, {"step": 2}])
    path = tmp_path / RECORDS
    path.write_bytes(path.read_bytes()[:-1])
    assert read_records(tmp_path) == [{"step": 1}, {"step": 2}]


def test_a_torn_line_elsewhere_is_no_crash_of_ours(tmp_path):
    """Only the last line can be cut by a crash; damage before it is not passed over."""
    (tmp_path / RECORDS).write_bytes(b'{"step": 1\n{"step": 2}\n')
    with pytest.raises((UserError, ValueError)):
        read_records(tmp_path)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_json_has_not_is_refused(tmp_path, value):
    with pytest.raises(ValueError, match="JSON"):
        write(tmp_path, [{"step": 1}, {"loss": value}])
    assert read_records(tmp_path) == [{"step": 1}]


def test_fewer_rows_than_the_checkpoint_vouches_for(tmp_path):
    size = write(tmp_path, [{"step": 1}])
    with contextlib.suppress(UserError):
        write(tmp_path, [{"step": 2}], keep_bytes=size + 100)
    assert b"\0" not in (tmp_path / RECORDS).read_bytes()
