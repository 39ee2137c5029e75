"""Records as the page shows them: a table by marks, hostile names as text, and runs that go on elsewhere."""

import json

from haarflow.lab.records import Records
from haarflow.runs import ledger

FACTS = {
    "experiment": "toy", "claim": "<script>alert(1)</script>", "source": "", "config": {"n": 3}, "seed": 1,
    "verdicts": {"it holds": True, "<b>it</b> fails": False}, "evidence": {}, "fits": {}, "axes": {},
    "numbers": {"error": 0.5, "nothing": float("1e308")}, "command": "haarflow run toy",
}  # fmt: skip


def test_the_table_of_a_folder(tmp_path):
    records = Records(tmp_path / "none")
    assert records.table()["records"] == []
    ledger.write_record(tmp_path / "toy" / "abc", FACTS, {}, {"seconds": {"compile": 1.0, "run": 2.0}})
    ledger.write_part(tmp_path / "other" / "def", "one", {}, versions={}, code="")
    (tmp_path / "broken" / "x").mkdir(parents=True)
    (tmp_path / "broken" / "x" / "record.json").write_text("{")
    records = Records(tmp_path)
    table = records.table()
    assert [row["experiment"] for row in table["records"]] == ["toy"]
    row = table["records"][0]
    assert (row["held"], row["seconds"], row["numbers"]["error"]) == (1, 2.0, 0.5)
    (going,) = table["going"]
    assert (going["experiment"], going["done"], going["parts"], going["busy"]) == ("other", 1, None, False)
    assert str(tmp_path) not in json.dumps(table), "no path of this machine goes to the page"
    assert records.report("../../etc") is None
    assert records.report(row["mark"] + "0") is None


def test_a_run_that_goes_on_elsewhere_says_how_far_it_is(tmp_path):
    home = tmp_path / "toy" / "abc"
    with ledger.lock(home):
        ledger.write_plan(home, 7, 3)
        (going,) = Records(tmp_path).table()["going"]
        assert (going["seed"], going["done"], going["parts"], going["busy"]) == (7, 0, 3, True)
        ledger.write_part(home, "one", {}, versions={}, code="")
        assert Records(tmp_path).table()["going"][0]["done"] == 1
    assert not Records(tmp_path).table()["going"][0]["busy"], "its owner has gone"
    (home / "parts" / "plan.json").write_text('{"parts": "x"')
    assert Records(tmp_path).table()["going"][0]["parts"] is None
    ledger.write_record(home, FACTS, {}, {"seconds": {"compile": 1.0, "run": 2.0}})
    assert Records(tmp_path).table()["going"] == []
    assert not (home / "parts").exists()
