import gzip

from contstim.text.textfile import numbered_lines


def test_line_ends_and_the_byte_order_mark_are_dropped(tmp_path):
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress("\ufeffOne \r\n\nThré\ufeffe".encode()))
    assert list(numbered_lines(path)) == [(1, "One "), (2, ""), (3, "Thré\ufeffe")]
