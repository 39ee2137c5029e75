"""A flow watched in a notebook has the numbers of that flow, and its one module is made of the page's."""

import json

import jax
import numpy as np
import pytest

import haarflow as hf
from haarflow.lab.widget import joined


def test_a_watched_flow_is_that_flow():
    field, cloud, key = hf.Descend(hf.Penalty(1.0)), hf.uniform(np.arange(12.0).reshape(4, 3)), jax.random.key(3)
    given = {"key": key, "dt": 0.1, "probes": {"size": hf.Cloud.second_moment}}
    widget = hf.watch(field, hf.Langevin(hf.Euler(), 0.1), cloud, steps=6, every=2, **given)
    sent = []
    widget.send = lambda content, buffers=(): sent.append((content, list(buffers)))
    for _ in range(4):
        widget._heard(widget, {"do": "more"}, [])
    assert [content["type"] for content, _ in sent] == ["frame", "frame", "frame", "ended"]
    path = hf.flow(field, hf.Langevin(hf.Euler(), 0.1), cloud, steps=6, every=2, **given)
    assert np.array_equal(widget.watched.clouds[""].atoms, path.cloud.atoms)
    assert [row[2][""]["size"] for row in widget.watched.rows] == path.probes["size"].tolist()
    body = sent[0][1][0]
    header = json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])
    assert (header["step"], header["lanes"][0]["players"][0]["n"], header["first"]) == (2, 4, 0)
    widget._heard(widget, {"do": "seek", "step": 3}, [])
    assert widget.watched.kept.keys() == {0, 2, 4, 6}
    widget._heard(widget, "nonsense", [])


def test_probes_of_some_fields_and_a_schedule_are_taken_as_a_flow_takes_them():
    fields = {"down": hf.Descend(hf.Penalty(1.0)), "faster": hf.Descend(hf.Penalty(3.0))}
    given: dict = {"key": jax.random.key(3), "dt": 0.1, "schedule": lambda time: 1 / (1 + time)}
    probes = {"faster": {"size": hf.Cloud.second_moment, "mean": hf.Cloud.mean}}
    cloud = hf.uniform(np.arange(12.0).reshape(4, 3))
    watched = hf.watch(fields, hf.Euler(), cloud, steps=6, every=2, probes=probes, **given).watched
    while watched.more():
        pass
    path = hf.flow(fields, hf.Euler(), cloud, steps=6, every=2, probes=probes, **given)
    assert [time for _, time, _ in watched.rows] == path["down"].times.tolist()
    columns = path["faster"].table()
    for i, (step, _, lanes) in enumerate(watched.rows):
        expected = {name: column[i] for name, column in columns.items() if name not in ("step", "time")}
        assert (step, lanes) == (columns["step"][i], {"down": {}, "faster": expected})
    assert set(expected) == {"size", "mean[0]", "mean[1]", "mean[2]"}
    assert np.array_equal(watched.clouds["faster"].atoms, path["faster"].cloud.atoms)
    many = {"all": lambda one: one.atoms, "turned": lambda one: one.mean() * 1j}
    (row,) = hf.watch(fields["down"], hf.Euler(), cloud, probes=many, **given).watched.rows
    assert list(row[2][""]) == [f"all[{i}][{j}]" for i in range(3) for j in range(3)][:8]
    with pytest.raises(hf.Refusal, match="for each field by its name"):
        hf.watch(fields, hf.Euler(), cloud, probes={"nobody": probes["faster"]}, **given)


def test_what_cannot_be_watched_is_a_sentence():
    field, cloud = hf.Descend(hf.Penalty(1.0)), hf.uniform(np.ones((3, 2)))
    given = {"key": jax.random.key(0), "dt": 0.1}
    with pytest.raises(hf.Refusal, match="one R\\^p"):
        hf.watch(field, hf.Euler(), cloud, rep=hf.natural_rep(hf.Signs(3)), **given)
    with pytest.raises(hf.Refusal, match="two or three dimensions"):
        hf.watch(field, hf.Euler(), cloud, dimensions=4, **given)


def test_the_widget_has_one_module_and_no_imports():
    text = joined()
    assert "import " not in "\n".join(line for line in text.splitlines() if line.startswith("import"))
    assert text.count("export ") == 1
    assert "export default { render };" in text
    assert "class Pane" in text
    names = [
        line.split("(")[0].split()[1]
        for line in text.splitlines()
        if line.startswith(("function ", "class ", "const "))
    ]
    assert len(names) == len(set(names))
