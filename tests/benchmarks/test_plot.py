from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.plot import Bar, Series, bars, curves

SVG = "{http://www.w3.org/2000/svg}"


def test_bars_are_as_long_as_their_values_and_show_the_range():
    plot = bars("Speed <s>", [Bar("peer & co", 10, 8, 12), Bar("ours", 40, 40, 40, ours=True)])
    root = ElementTree.fromstring(plot)
    first, second = (float(r.attrib["width"]) for r in root.iter(f"{SVG}rect"))
    assert round(second / first, 2) == 4
    assert len([p for p in root.iter(f"{SVG}path") if p.attrib["class"] == "w"]) == 1
    assert "peer & co" in [text.text for text in root.iter(f"{SVG}text")]
    assert len(plot) < 4096


def test_curves_are_straight_where_the_law_is_a_power():
    plot = curves("Cost", "pairs", "seconds", [Series("10 tokens", [(1e3, 1), (1e4, 10), (1e5, 100)])])
    root = ElementTree.fromstring(plot)
    points = [(float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.iter(f"{SVG}circle")]
    assert points[1] == ((points[0][0] + points[2][0]) / 2, (points[0][1] + points[2][1]) / 2)
    assert plot == curves("Cost", "pairs", "seconds", [Series("10 tokens", [(1e3, 1), (1e4, 10), (1e5, 100)])])
