//! What requests share, and what an answer that goes on takes over.

use std::time::{Duration, Instant};

use crate::support::{Chat, PROMPTS, prompt};
use engine::{
    EngineEvent, EventReceiver, NewRequest, OverlapMode, OwnerId, RequestSummary, TokenId,
    params::SamplingParams,
};

const FAN: usize = 4;

fn request(prompt: &[TokenId], params: SamplingParams) -> NewRequest {
    NewRequest {
        prompt: prompt.to_vec(),
        answer_so_far: Vec::new(),
        params: params.validate().unwrap(),
        owner: None,
        arrived_at: Instant::now(),
    }
}

/// Runs the engine until it is idle. Returns what each request said, and its summary.
fn run(chat: &mut Chat, receivers: Vec<EventReceiver>) -> Vec<(String, RequestSummary)> {
    while !chat.engine.is_idle() {
        chat.engine.step().unwrap();
    }
    let read = |mut receiver: EventReceiver| {
        let (mut text, mut end) = (String::new(), None);
        for event in receiver.try_drain() {
            match event {
                EngineEvent::Resumed { answer, .. } => text.push_str(&answer),
                EngineEvent::Text { delta, .. } => text.push_str(&delta),
                EngineEvent::Finished { summary, .. } => end = Some(summary),
                EngineEvent::Failed { error, .. } => panic!("{error}"),
                _ => {}
            }
        }
        (text, end.expect("it has finished"))
    };
    receivers.into_iter().map(read).collect()
}

/// A prompt of about 600 tokens that begins with `name`.
fn long_prompt(chat: &Chat, name: &str) -> Vec<TokenId> {
    let question = format!("{name}. {}", PROMPTS.join(" ").repeat(7));
    let mut tokens = prompt(&chat.tokenizer, &question);
    // The end of the question and the opening of the answer stay.
    let end = tokens.split_off(tokens.len() - 30);
    tokens.truncate(600 - end.len());
    tokens.extend(end);
    tokens
}

fn answer_params(seed: u64) -> SamplingParams {
    SamplingParams { seed: Some(seed), max_tokens: 24, ..SamplingParams::default() }
}

fn fan_out(chat: &mut Chat, prompt: &[TokenId]) -> Vec<(String, RequestSummary)> {
    let submit = |seed| chat.engine.submit(request(prompt, answer_params(seed))).unwrap().1;
    let receivers = (0..FAN as u64).map(submit).collect();
    run(chat, receivers)
}

fn mean_ttft(answers: &[(String, RequestSummary)]) -> Duration {
    answers.iter().filter_map(|(_, summary)| summary.ttft).sum::<Duration>() / answers.len() as u32
}

#[test]
fn a_fan_out_reads_its_prompt_once_and_each_answer_is_its_own() {
    let mut chat = Chat::load();
    let alone_with = |chat: &mut Chat, prompt: &[TokenId], seed| {
        let receiver = chat.engine.submit(request(prompt, answer_params(seed))).unwrap().1;
        run(chat, vec![receiver]).remove(0)
    };
    let warm_up = long_prompt(&chat, "zero");
    alone_with(&mut chat, &warm_up, 0);
    let shared = long_prompt(&chat, "one");
    let together = fan_out(&mut chat, &shared);
    let cached: Vec<u32> = together.iter().map(|(_, summary)| summary.cached_tokens).collect();
    assert_eq!(cached, [0, 599, 599, 599], "of 600 tokens, the last one starts the answer");
    let texts: Vec<&String> = together.iter().map(|(text, _)| text).collect();
    assert!(texts.iter().enumerate().all(|(at, text)| !texts[..at].contains(text)), "four seeds: {texts:?}");
    // Four prompts that nobody shares.
    let apart: Vec<_> = ["two", "three", "four", "five"].map(|name| long_prompt(&chat, name)).into();
    let receivers =
        apart.iter().map(|prompt| chat.engine.submit(request(prompt, answer_params(0))).unwrap().1);
    let receivers: Vec<_> = receivers.collect();
    let unshared = run(&mut chat, receivers);
    let read = |answers: &[(String, RequestSummary)]| -> u32 {
        answers.iter().map(|(_, summary)| summary.prompt_tokens - 1 - summary.cached_tokens).sum()
    };
    println!(
        "fan-out of {FAN} x 600 tokens: {} tokens read, mean TTFT {:?}; apart: {} tokens read, mean TTFT {:?}",
        read(&together),
        mean_ttft(&together),
        read(&unshared),
        mean_ttft(&unshared),
    );
    assert_eq!(read(&together), 599);
    assert!(read(&unshared) > 3 * 599 - 3 * 40, "they share the template's beginning at most");
}

#[test]
fn an_answer_cut_anywhere_and_continued_is_the_answer_that_was_never_cut() {
    let mut chat = Chat::load();
    // One kernel class: the same shapes for a row alone.
    chat.engine.set_overlap(OverlapMode::Off);
    let question = prompt(&chat.tokenizer, PROMPTS[1]);
    let cases = [
        SamplingParams { seed: Some(5), max_tokens: 40, ..SamplingParams::default() },
        SamplingParams {
            seed: Some(6),
            max_tokens: 40,
            repetition_penalty: 1.2,
            frequency_penalty: 0.3,
            top_p: 0.9,
            ..SamplingParams::default()
        },
    ];
    let mut same = 0;
    for params in cases {
        let receiver = chat.engine.submit(request(&question, params.clone())).unwrap().1;
        let (whole, measured) = run(&mut chat, vec![receiver]).remove(0);
        for cut in [1, 7, 20, 39] {
            let so_far = measured.tokens[..cut].to_vec();
            // Its owner has a snapshot of nothing: prompt and answer are read anew.
            let more = NewRequest {
                answer_so_far: so_far,
                owner: Some(OwnerId(cut as u64)),
                ..request(&question, params.clone())
            };
            let receiver = chat.engine.submit(more).unwrap().1;
            let (text, after) = run(&mut chat, vec![receiver]).remove(0);
            assert_eq!(after.tokens[..cut], measured.tokens[..cut]);
            assert_eq!(after.answer_tokens, measured.answer_tokens);
            let common = after.tokens.iter().zip(&measured.tokens).take_while(|(a, b)| a == b).count();
            println!("cut at {cut}: {common} of {} tokens in common", measured.tokens.len());
            same += usize::from((text, after.tokens) == (whole.clone(), measured.tokens.clone()));
        }
    }
    // Prefill and decode run other kernels, so a near-tie may fall the other way (docs/jitter.md).
    assert!(same >= 6, "{same} of 8 continuations are the same");
}
