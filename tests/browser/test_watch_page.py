"""The widget's one module in a real browser, in front of a real widget: what the kernel would send is handed over."""

import base64
import json

import jax
import numpy as np
import pytest

import haarflow as hf

pytestmark = pytest.mark.browser

SHOW = """async ([module, palette, scene]) => {
  const { default: widget } = await import(URL.createObjectURL(new Blob([module], { type: 'text/javascript' })));
  const heard = [], facts = { palette, scene };
  const model = {
    get: (name) => facts[name], on: (_, one) => heard.push(one), off: () => {},
    send: async (message) => {
      for (const [content, bodies] of JSON.parse(await window.kernel(JSON.stringify(message)))) {
        const buffers = bodies.map((text) => new DataView(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer));
        for (const one of heard) one(content, buffers);
      }
    },
  };
  const el = document.createElement('div');
  document.body.append(el);
  widget.render({ model, el });
}"""
DRAWN = """() => [...document.querySelectorAll('.pane .whole, .pane .points')].every((canvas) => {
  const copy = document.createElement('canvas');
  copy.width = canvas.width; copy.height = canvas.height;
  const context = copy.getContext('2d');
  context.drawImage(canvas, 0, 0);
  return new Set(context.getImageData(0, 0, copy.width, copy.height).data).size > 4;
})"""


@pytest.fixture
def shown(browser):
    """A function that shows a widget in a page of its own."""
    contexts = []

    def one(widget, **options):
        context = browser.new_context(viewport={"width": 900, "height": 700}, **options)
        contexts.append(context)
        page, said, errors = context.new_page(), [], []
        page.on("pageerror", lambda error: errors.append(str(error)))
        widget.send = lambda content, buffers=(): said.append((content, list(buffers)))

        def kernel(text):
            del said[:]
            widget._heard(widget, json.loads(text), [])
            return json.dumps(
                [[content, [base64.b64encode(body).decode() for body in bodies]] for content, bodies in said]
            )

        page.expose_function("kernel", kernel)
        page.set_content(f"<style>{widget._css}</style>")
        page.evaluate(SHOW, [widget._esm, dict(widget.palette), dict(widget.scene)])
        page.errors = errors
        return page

    yield one
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_watched_flow_plays_and_goes_back(shown, scheme, tmp_path_factory):
    fields = {"down": hf.Descend(hf.Penalty(1.0)), "faster": hf.Descend(hf.Penalty(3.0))}
    cloud = hf.uniform(np.random.default_rng(0).normal(size=(60, 4)))
    probes = {
        "down": {"size": hf.Cloud.second_moment},
        "faster": {"size": hf.Cloud.second_moment, "mean": hf.Cloud.mean},
    }
    given = {"key": jax.random.key(1), "dt": 0.05, "steps": 20, "every": 2, "probes": probes}
    widget = hf.watch(fields, hf.Langevin(hf.Euler(), 0.1), cloud, rep=hf.natural_rep(hf.Symmetric(4)), **given)
    page = shown(widget, color_scheme=scheme)
    page.wait_for_selector(".pane[data-lane=faster]")
    page.get_by_role("button", name="play").click()
    page.wait_for_function("document.querySelector('.haarflow-watch').dataset.step === '20'")
    page.wait_for_function("[...document.querySelectorAll('button')].some((one) => one.textContent === 'play')")
    assert page.evaluate(DRAWN)
    charts = "[...document.querySelectorAll('.chart')].map((one) => one.dataset.quantity)"
    assert set(page.evaluate(charts)) == {"size", "mean[0]", "mean[1]", "mean[2]", "mean[3]"}
    page.screenshot(path=str(tmp_path_factory.getbasetemp() / f"watch-{scheme}.png"))
    page.locator("input[type=range]").fill("6")
    page.wait_for_function("document.querySelector('.haarflow-watch').dataset.step === '6'")
    path = hf.flow(fields, hf.Langevin(hf.Euler(), 0.1), cloud, **given)
    assert np.array_equal(widget.watched.clouds["faster"].atoms, path["faster"].cloud.atoms)
    assert page.errors == []
