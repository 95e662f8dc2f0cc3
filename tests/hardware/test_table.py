"""The table in docs/hardware.md is the catalog."""

import os
from pathlib import Path

from sollens.hardware import catalog
from sollens.hardware.table import markdown_table

PAGE = Path(__file__).parents[2] / "docs" / "hardware.md"
START = "<!-- table: generated from hardware/targets -->\n"
END = "<!-- end of table -->\n"


def test_the_documented_table_is_generated_from_the_files() -> None:
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    shown, after = rest.split(END)
    table = markdown_table(catalog.load_all())
    if os.environ.get("SOLLENS_UPDATE"):
        PAGE.write_text(before + START + table + END + after, encoding="utf-8")
        return
    assert shown == table, "run SOLLENS_UPDATE=1 pytest tests/hardware"
