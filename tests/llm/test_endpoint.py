"""The client over real HTTP: streaming, budgets, and every way an endpoint can fail."""

from __future__ import annotations

import threading
import time

import pytest

from sollens.analysis.llm import endpoint as endpoints
from sollens.analysis.llm.config import BadConfig, LlmConfig, load
from sollens.analysis.llm.endpoint import EndpointFailed, Message, OpenAIEndpoint, Reply
from tests.llm.loopback import KEY, Answer, Loopback, event, loopback

ASKED = [Message("system", "rules"), Message("user", "source")]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_FIRST_WAIT_S", 0.0)


def ask(server: Loopback, seconds: float = 20.0, cancel: threading.Event | None = None, **options: object) -> Reply:
    config = LlmConfig(base_url=server.url, model="scripted", **options)  # pyright: ignore[reportArgumentType]
    client = OpenAIEndpoint(config, KEY)
    try:
        return client.complete(
            ASKED, deadline=time.monotonic() + seconds, max_tokens=500, cancel=cancel or threading.Event()
        )
    finally:
        client.close()


def failure(answers: list[Answer], seconds: float = 20.0) -> tuple[EndpointFailed, Loopback]:
    with loopback(answers) as server, pytest.raises(EndpointFailed) as caught:
        ask(server, seconds)
    assert KEY not in str(caught.value)
    return caught.value, server


def test_a_reply_is_streamed_and_counted() -> None:
    with loopback([Answer("program p\n  output x — ∑\n")]) as server:
        reply = ask(server)
    assert reply == Reply(text="program p\n  output x — ∑\n", prompt_tokens=100, completion_tokens=10)
    asked = server.requests[0]
    assert asked["path"] == "/v1/chat/completions" and asked["stream"] is True and asked["temperature"] == 0
    assert asked["model"] == "scripted" and asked["max_tokens"] == 500
    assert asked["messages"] == [{"role": "system", "content": "rules"}, {"role": "user", "content": "source"}]
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


def test_identifiers_of_an_organisation_in_the_environment_are_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    with loopback([Answer("x")]) as server:
        ask(server)
    assert "secret" not in str(server.headers) and "sk-other" not in str(server.headers)


def test_tokens_are_estimated_where_the_endpoint_does_not_count_them() -> None:
    with loopback([Answer("a" * 300, usage=False)]) as server:
        assert ask(server).completion_tokens == 100


def test_a_reply_at_the_limit_of_tokens_says_so() -> None:
    with loopback([Answer("program p", finish="length")]) as server:
        assert ask(server).cut


def test_a_wrong_key_is_said_once_with_the_variable_to_set() -> None:
    failed, server = failure([Answer(status=401, body={"error": {"message": f"bad key {KEY}"}})])
    assert failed.kind == "unauthorized" and "SOLLENS_LLM_KEY" in str(failed) and len(server.requests) == 1


@pytest.mark.parametrize(("status", "kind"), [(429, "rate-limited"), (500, "unavailable"), (503, "unavailable")])
def test_an_overloaded_endpoint_is_asked_again_and_then_given_up(status: int, kind: str) -> None:
    failed, server = failure([Answer(status=status)])
    assert failed.kind == kind and len(server.requests) == 3
    with loopback([Answer(status=status), Answer("fine")]) as server:
        assert ask(server).text == "fine"


def test_the_wait_that_an_endpoint_asks_for_is_not_waited_beyond_the_deadline() -> None:
    failed, server = failure([Answer(status=429, headers={"retry-after": "3600"})], seconds=5)
    assert failed.kind == "rate-limited" and len(server.requests) == 1


def test_a_request_that_is_refused_is_not_repeated() -> None:
    failed, server = failure([Answer(status=400, body={"error": {"message": "no such model"}})])
    assert failed.kind == "rejected" and "no such model" in str(failed) and len(server.requests) == 1


def test_options_that_an_endpoint_does_not_know_are_left_out() -> None:
    answers = [
        Answer(status=400, body={"error": {"message": "Unsupported parameter: 'max_tokens'"}}),
        Answer(status=400, body={"error": {"message": "temperature does not support 0"}}),
        Answer("fine"),
    ]
    with loopback(answers) as server:
        assert ask(server).text == "fine"
    assert server.requests[2]["max_completion_tokens"] == 500
    assert "max_tokens" not in server.requests[2] and "temperature" not in server.requests[2]


def test_a_silent_endpoint_ends_at_the_deadline() -> None:
    begun = time.monotonic()
    failed, _ = failure([Answer(hold=True)], seconds=0.3)
    assert failed.kind == "timeout" and time.monotonic() - begun < 10


def test_a_cancellation_ends_a_call_at_once() -> None:
    cancel = threading.Event()
    threading.Timer(0.2, cancel.set).start()
    with loopback([Answer(hold=True)]) as server, pytest.raises(EndpointFailed) as caught:
        ask(server, 60, cancel)
    assert caught.value.kind == "cancelled"


def test_no_endpoint_at_all() -> None:
    with loopback([Answer("x")]) as server:
        pass
    with pytest.raises(EndpointFailed) as caught:
        ask(server)
    assert caught.value.kind == "unavailable"


def test_a_stream_that_is_cut_off_is_asked_for_again() -> None:
    failed, server = failure([Answer("program p" * 100, drop_after=300)])
    assert failed.kind in ("interrupted", "malformed", "unavailable") and len(server.requests) == 3
    failed, server = failure([Answer("half a program", finish=None)])
    assert failed.kind == "interrupted" and len(server.requests) == 3


@pytest.mark.parametrize(
    "raw",
    [
        b"data: {not json\n\n",
        b"\xff\xfe\x00garbage",
        b"data: []\n\n",
        b"data: 7\n\n",
        event({"choices": [{"index": 0, "delta": {"content": {"a": 1}}}]}),
        event({"choices": "none"}),
        event({"choices": [{"index": 0, "delta": {"content": ["x"] * 3}}]}),
        b"",
    ],
)
def test_malformed_chunks_are_a_failure_and_no_crash(raw: bytes) -> None:
    failed, _ = failure([Answer(raw=raw)])
    assert failed.kind in ("malformed", "interrupted")


def test_a_refusal_is_told_and_not_repeated() -> None:
    failed, server = failure([Answer(refusal="I cannot help with that.")])
    assert failed.kind == "refused" and "cannot help" in str(failed) and len(server.requests) == 1
    failed, server = failure([Answer("", finish="content_filter")])
    assert failed.kind == "refused"


def test_an_endless_reply_is_ended() -> None:
    failed, _ = failure([Answer("x" * 2_000_000)])
    assert failed.kind == "too-long"


def test_a_redirect_does_not_carry_the_source_elsewhere() -> None:
    with loopback([Answer("stolen")]) as other:
        failed, _ = failure([Answer(status=307, headers={"location": f"{other.url}/chat/completions"})])
    assert failed.kind == "rejected" and not other.requests


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("ftp://host/v1", "https://HOST"),
        ("https://user:pw@host/v1", "no key in it"),
        ("https://host/v1?key=abc", "no key in it"),
        ("http://example.com/v1", "expected https"),
        ("https://[bad/v1", "https://HOST"),
    ],
)
def test_an_address_that_would_give_something_away_is_refused(url: str, expected: str) -> None:
    with pytest.raises(BadConfig, match=expected):
        LlmConfig(base_url=url, model="m").checked()


def test_the_configuration_is_off_until_an_address_and_a_model_are_set(tmp_path: object) -> None:
    from pathlib import Path

    file = Path(str(tmp_path)) / "llm.toml"
    assert not load({}, file).is_on
    file.write_text('base_url = "https://api.example.com/v1"\nmodel = "m"\nrounds = 3\n')
    config = load({"SOLLENS_LLM_TEMPERATURE": "0.5"}, file)
    assert config.is_on and config.rounds == 3 and config.temperature == 0.5 and config.host == "api.example.com"
    file.write_text('key = "sk-1"\n')
    with pytest.raises(BadConfig, match="found key"):
        load({}, file)
    file.write_text("rounds = 99\n")
    with pytest.raises(BadConfig, match="rounds"):
        load({"SOLLENS_LLM_URL": "https://h/v1", "SOLLENS_LLM_MODEL": "m"}, file)
