"""Test sessions that are opened in several browsers."""

import pytest
from client_messages import answer, answers_to, session_request
from studies import RECRUITER, add

from contstim.experiment.messages import RequestError
from contstim.experiment.store import Store
from contstim.experiment.study import Study
from contstim.experiment.study_data import read_study_data

MINE, OTHER = "request-of-one", "request-of-another"
NO_CODE = {"code": None, "redirect": None}


@pytest.fixture
def recruiter_study(study: Study) -> Study:
    return add(study, RECRUITER)


def test_second_browser_is_counted_and_gets_no_codes(recruiter_study: Study) -> None:
    with Store(recruiter_study) as store:
        token, bundle, _ = store.open(session_request(recruiter_study, "P", MINE)).result()
        store.add_answers(token, answers_to(bundle["trials"][:2], 3)).result()
        # The reply was lost: the same browser asks again.
        assert (
            store.open(session_request(recruiter_study, "P", MINE)).result()[1]["session"]
            == bundle["session"]
        )
        other, resumed, new = store.open(session_request(recruiter_study, "P", OTHER)).result()
        assert not new
        assert resumed["answered"] == {"n1": {}, "n2": {}}
        assert store.add_answers(other, answers_to(bundle["trials"][2:])).result().acknowledged
        assert store.finish(token).result()["code"] == "DONE1"
        assert store.finish(other).result() == {"complete": True, "outcome": "complete", **NO_CODE}
        for request in (OTHER, None):
            with pytest.raises(RequestError, match="finished already") as error:
                store.open(session_request(recruiter_study, "P", request)).result()
            assert error.value.details == {"outcome": "complete", **NO_CODE}
        with pytest.raises(RequestError) as error:
            store.open(session_request(recruiter_study, "P", MINE)).result()
        assert error.value.details["code"] == "DONE1"
    assert read_study_data(recruiter_study).sessions["browsers"].tolist() == [2]


def test_missing_request_id_matches_no_browser(recruiter_study: Study) -> None:
    with Store(recruiter_study) as store:
        token, bundle, _ = store.open(session_request(recruiter_study, "P")).result()
        store.add_answers(token, answers_to(bundle["trials"])).result()
        assert store.finish(token).result()["code"] == "DONE1"
        with pytest.raises(RequestError) as error:
            store.open(session_request(recruiter_study, "P")).result()
        assert error.value.details["code"] is None


def test_finishing_browser_gets_the_code(recruiter_study: Study) -> None:
    with Store(recruiter_study) as store:
        store.open(session_request(recruiter_study, "P", MINE)).result()
        token, bundle, _ = store.open(session_request(recruiter_study, "P", OTHER)).result()
        store.add_answers(token, answers_to(bundle["trials"])).result()
        for _ in range(2):
            assert store.finish(token).result()["code"] == "DONE1"


def test_other_browsers_do_not_invalidate_tokens(recruiter_study: Study) -> None:
    with Store(recruiter_study) as store:
        token, bundle, _ = store.open(session_request(recruiter_study, "P", MINE)).result()
        others = [store.open(session_request(recruiter_study, "P")).result()[0] for _ in range(50)]
        one = answer(bundle["trials"][0]["trial"])
        assert store.add_answers(token, [one]).result().acknowledged
        with pytest.raises(RequestError, match="there is no such session"):
            store.resume(others[0]).result()
        assert store.resume(others[-1]).result()["session"] == bundle["session"]
