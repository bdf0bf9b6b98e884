"""The pages of all studies, of runs at smoke and at standard, opened in a browser."""

import pytest

from data.errors import Unreachable
from flows.studies.find_study import study_names
from tasks.run_options import RunOptions
from tests.plain_runs import run_plainly
from tests.reports.test_browser import fits_a_phone, javascript, look

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST_BYTES = 1_300_000
CONTROLS = javascript("controls")


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """A function that runs a study and returns the folder of all reports."""
    folder, done = tmp_path_factory.mktemp("smoke"), set()

    def run(study):
        if study not in done:
            try:
                run_plainly(study, RunOptions(out=str(folder), profile="smoke", offline=True))
            except Unreachable:
                pytest.skip("no source has its data")
            done.add(study)
        return folder

    with pytest.MonkeyPatch.context() as patch:
        (folder / "home").mkdir()
        patch.setenv("DPCOST_HOME", str(folder / "home"))
        yield run


@pytest.mark.parametrize("study", study_names())
def test_pages_of_a_study_can_be_read_on_a_phone_and_their_controls_change_what_is_shown(
    reports, study, tmp_path
):
    folder = reports(study) / study
    fits_a_phone((folder / "report.html").read_text(encoding="utf-8"), tmp_path)
    assert (folder / "report.html").stat().st_size <= MOST_BYTES
    for page in [folder / "report.html", *folder.glob("data-*.html")]:
        (tmp_path / page.stem).mkdir()
        seen = look(page.read_text(encoding="utf-8"), 1100, tmp_path / page.stem, CONTROLS)
        assert seen["requests"] == []
        assert seen["same"] == []
        assert len(set(seen["metrics"])) == 1  # each is drawn, and none as another
        assert seen["scroll"] <= seen["width"]
