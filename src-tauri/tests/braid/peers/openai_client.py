"""What OpenAI's own client for Python makes of Braid's local server. Arguments: base address, key."""

import json
import sys
import threading

import openai

address, key = sys.argv[1:3]
client = openai.OpenAI(base_url=address, api_key=key, max_retries=0, timeout=120)
question = [
    {"role": "system", "content": "Answer in one short sentence."},
    {"role": "user", "content": "What is the capital of France?"},
]

models = [model.id for model in client.models.list()]
assert len(models) == 1, models
model = models[0]
assert client.models.retrieve(model).id == model

whole = client.chat.completions.create(model=model, messages=question, temperature=0, max_tokens=24)
text = whole.choices[0].message.content
assert "Paris" in text, text
assert whole.choices[0].finish_reason in ("stop", "length"), whole
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens > 0, whole

stream = client.chat.completions.create(
    model=model,
    messages=question,
    temperature=0,
    max_completion_tokens=24,
    stream=True,
    stream_options={"include_usage": True},
)
pieces = list(stream)
streamed = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
assert streamed == text, (streamed, text)
assert pieces[-1].usage.completion_tokens == whole.usage.completion_tokens, pieces[-1]

told = client.chat.completions.create(
    model=model, messages=question, temperature=0, max_tokens=4, logprobs=True, top_logprobs=2
)
tokens = told.choices[0].logprobs.content
assert "".join(token.token for token in tokens) == told.choices[0].message.content, told
assert all(len(token.top_logprobs) == 2 and token.logprob <= 0 for token in tokens), told

schema = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}
formed = client.chat.completions.create(
    model=model,
    messages=question,
    temperature=0,
    max_tokens=60,
    response_format={"type": "json_schema", "json_schema": {"name": "place", "schema": schema}},
)
assert list(json.loads(formed.choices[0].message.content)) == ["city"], formed

seeded = [
    client.chat.completions.create(model=model, messages=question, temperature=1, seed=7, max_tokens=8)
    .choices[0]
    .message.content
    for _ in range(2)
]
assert seeded[0] == seeded[1], seeded


def expect(error, **arguments):
    try:
        client.chat.completions.create(**{"model": model, "messages": question, "max_tokens": 4, **arguments})
    except error as found:
        return found
    raise AssertionError(f"{arguments} was answered")


assert expect(openai.BadRequestError, n=2).param == "n"
assert expect(openai.BadRequestError, temperature=9).param == "temperature"
assert expect(openai.NotFoundError, model="gpt-4o").code == "model_not_found"
stranger = openai.OpenAI(base_url=address, api_key="wrong", max_retries=0)
try:
    stranger.models.list()
    raise AssertionError("another key opened")
except openai.AuthenticationError as refused:
    assert refused.code == "invalid_api_key", refused

# One that is broken off does not keep the others waiting.
endless = client.chat.completions.create(model=model, messages=question, max_tokens=2000, stream=True)
next(iter(endless))
endless.close()
answers = []
ask = lambda: answers.append(client.chat.completions.create(model=model, messages=question, temperature=0, max_tokens=24))
threads = [threading.Thread(target=ask) for _ in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert [answer.choices[0].message.content for answer in answers] == [text, text], answers
print("every claim holds")
