"""The picture at a training's end."""

from matplotlib.figure import Figure

from munchausen._src.evidence.figures.learning_curve import save_learning_curve


def test_a_reference_far_away_does_not_press_the_curve_flat(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, _: drawn.append(self))
    rows = [{"agent": "dqn", "seed": 0, "step": i, "score_100": 2.0 * i} for i in range(11)]
    references = {"near": 25.0, "far": 331.0}
    save_learning_curve(rows, tmp_path / "x.png", title="", references=references)
    (axes,) = drawn[0].axes
    assert 25 < axes.get_ylim()[1] < 30
    labels = [text.get_text() for text in drawn[0].legends[0].get_texts()]
    assert labels == ["dqn", "near (25)", "far (331, above)"]
