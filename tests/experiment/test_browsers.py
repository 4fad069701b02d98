"""Whose a session is: the browser in which it was begun, and others that know the id."""

import pytest
from studies import RECRUITER, add
from talking import answer, answers_to, opening

from contstim.experiment.messages import RequestError
from contstim.experiment.store import Store
from contstim.experiment.study import Study
from contstim.experiment.study_data import read_study_data

MINE, OTHER = "request-of-one", "request-of-another"
NO_CODE = {"code": None, "redirect": None}


@pytest.fixture
def recruited(study: Study) -> Study:
    return add(study, RECRUITER)


def test_another_browser_goes_on_is_counted_and_learns_nothing(recruited: Study) -> None:
    with Store(recruited) as store:
        token, bundle, _ = store.open(opening(recruited, "P", MINE)).result()
        store.add_answers(token, answers_to(bundle["trials"][:2], 3)).result()
        # The reply was lost: the same browser asks again.
        assert store.open(opening(recruited, "P", MINE)).result()[1]["session"] == bundle["session"]
        other, resumed, new = store.open(opening(recruited, "P", OTHER)).result()
        assert not new
        assert resumed["answered"] == {"n1": {}, "n2": {}}
        assert store.add_answers(other, answers_to(bundle["trials"][2:])).result().acknowledged
        assert store.finish(token).result()["code"] == "DONE1"
        assert store.finish(other).result() == {"complete": True, "outcome": "complete", **NO_CODE}
        for request in (OTHER, None):
            with pytest.raises(RequestError, match="finished already") as error:
                store.open(opening(recruited, "P", request)).result()
            assert error.value.details == {"outcome": "complete", **NO_CODE}
        with pytest.raises(RequestError) as error:
            store.open(opening(recruited, "P", MINE)).result()
        assert error.value.details["code"] == "DONE1"
    assert read_study_data(recruited).sessions["browsers"].tolist() == [2]


def test_who_names_no_request_is_not_the_browser_that_named_none(recruited: Study) -> None:
    with Store(recruited) as store:
        token, bundle, _ = store.open(opening(recruited, "P")).result()
        store.add_answers(token, answers_to(bundle["trials"])).result()
        assert store.finish(token).result()["code"] == "DONE1"
        with pytest.raises(RequestError) as error:
            store.open(opening(recruited, "P")).result()
        assert error.value.details["code"] is None


def test_the_browser_that_ends_a_session_has_its_code(recruited: Study) -> None:
    with Store(recruited) as store:
        store.open(opening(recruited, "P", MINE)).result()
        token, bundle, _ = store.open(opening(recruited, "P", OTHER)).result()
        store.add_answers(token, answers_to(bundle["trials"])).result()
        for _ in range(2):
            assert store.finish(token).result()["code"] == "DONE1"


def test_nobody_is_locked_out_by_openings_of_others(recruited: Study) -> None:
    with Store(recruited) as store:
        token, bundle, _ = store.open(opening(recruited, "P", MINE)).result()
        others = [store.open(opening(recruited, "P")).result()[0] for _ in range(50)]
        one = answer(bundle["trials"][0]["trial"])
        assert store.add_answers(token, [one]).result().acknowledged
        with pytest.raises(RequestError, match="there is no such session"):
            store.resume(others[0]).result()
        assert store.resume(others[-1]).result()["session"] == bundle["session"]


def test_browsers_with_sessions_that_the_data_do_not_have_are_counted(study: Study) -> None:
    with Store(study) as store:
        token, _, _ = store.open(opening(study)).result()
        unknown = token[::-1]
        for given in (unknown, unknown, "short"):
            with pytest.raises(RequestError, match="there is no such session"):
                store.resume(given).result()
        assert store.summary().result()["orphaned_sessions"] == 1
