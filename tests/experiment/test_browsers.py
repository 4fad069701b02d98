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


def test_second_browser_is_counted_and_gets_no_codes(recruited: Study) -> None:
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


def test_missing_request_id_matches_no_browser(recruited: Study) -> None:
    with Store(recruited) as store:
        token, bundle, _ = store.open(opening(recruited, "P")).result()
        store.add_answers(token, answers_to(bundle["trials"])).result()
        assert store.finish(token).result()["code"] == "DONE1"
        with pytest.raises(RequestError) as error:
            store.open(opening(recruited, "P")).result()
        assert error.value.details["code"] is None


def test_finishing_browser_gets_the_code(recruited: Study) -> None:
    with Store(recruited) as store:
        store.open(opening(recruited, "P", MINE)).result()
        token, bundle, _ = store.open(opening(recruited, "P", OTHER)).result()
        store.add_answers(token, answers_to(bundle["trials"])).result()
        for _ in range(2):
            assert store.finish(token).result()["code"] == "DONE1"


def test_other_browsers_do_not_invalidate_tokens(recruited: Study) -> None:
    with Store(recruited) as store:
        token, bundle, _ = store.open(opening(recruited, "P", MINE)).result()
        others = [store.open(opening(recruited, "P")).result()[0] for _ in range(50)]
        one = answer(bundle["trials"][0]["trial"])
        assert store.add_answers(token, [one]).result().acknowledged
        with pytest.raises(RequestError, match="there is no such session"):
            store.resume(others[0]).result()
        assert store.resume(others[-1]).result()["session"] == bundle["session"]
