"""`munchausen theory` as a user meets it."""

import json
import math

import pytest

from munchausen._src import cli
from munchausen._src.commands import theory
from munchausen._src.tabular.theorems import action_gap, printed


def munchausen(capsys, *arguments):
    code = cli.main(["theory", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_json(capsys):
    code, out, _ = munchausen(capsys, "theorem-2", "--mdps", "7", "--json")
    assert code == 0
    report = json.loads(out)
    assert (report["passed"], report["mdps"], report["seed"]) == (True, 7, 0)
    [check] = report["checks"]
    assert (check["name"], check["passed"], check["mdps"]) == ("theorem-2", True, 7)
    assert check["residual"] <= check["tolerance"] == 1e-9
    for row, factor in zip(check["details"]["factors"], (1 / 0.7, 2, 10), strict=True):
        assert math.isclose(row["measured"], factor, abs_tol=1e-3)
        assert math.isclose(row["right"], factor)
    [wrong] = check["printed"]
    assert wrong["holds"] is False
    assert wrong["residual"] > 1


def test_a_failed_check_is_exit_code_1(capsys, monkeypatch):
    monkeypatch.setattr(action_gap, "gap_factor", printed.gap_factor)
    code, out, err = munchausen(capsys, "theorem-2", "--mdps", "7")
    assert code == 1
    assert "FAILS" in out
    assert "munchausen: failed: theorem-2" in err


def test_table(capsys):
    code, out, _ = munchausen(capsys, "legendre", "--mdps", "7", "--seed", "4")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == [
        *("name", "source", "residual", "tolerance", "MDPs", "verdict", "as", "printed")
    ]
    assert lines[1].startswith("legendre ")
    assert "holds" in lines[1]
    assert lines[1].endswith("fails")
    assert "printed: ln⟨1, exp q⟩: fails, by" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("theorem2",), "unknown theorem 'theorem2'; did you mean 'theorem-2'"),
        (("nonsense",), "there are: theorem-1, theorem-2"),
        (("--mdps", "0"), "mdps must be at least 1, not 0"),
        (("--mdps", "many"), "mdps must be a whole number, not 'many'"),
        (("--seed", "-1"), "seed must be at least 0"),
        (("--mdp", "3"), "unknown option '--mdp'; did you mean '--mdps'"),
    ],
)
def test_refused(capsys, arguments, said):
    code, out, err = munchausen(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert said in err
    assert len(err.splitlines()) <= 2


def test_figures_need_a_folder(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = munchausen(capsys, "--figures", str(tmp_path / "file"))
    assert code == 2
    assert "cannot make the folder" in err


@pytest.mark.slow
def test_figures(tmp_path, monkeypatch):
    from munchausen._src.tabular import studies

    small = {"over_iterations": 12, "over_discounts": 20, "action_gap": 50}
    small |= {"bounds": 12, "clipping": 20, "policy_change": 12}
    for name, iterations in small.items():
        study = getattr(studies, name)
        extra = {"short": 4} if name == "bounds" else {}
        monkeypatch.setattr(
            studies,
            name,
            lambda seed, study=study, k=iterations, extra=extra: study(
                seed, mdps=4, iterations=k, **extra
            ),
        )
    paths = theory.save_figures(tmp_path, 0)
    assert [p.name for p in paths] == [
        *("averaging.png", "action_gap.png", "bounds.png", "clipping.png", "policy_change.png")
    ]
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG")
