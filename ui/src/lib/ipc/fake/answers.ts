import type { SamplingSettings } from '../wire';
import { longAnswer } from './longTexts';

/** What the scripted engine says: its thinking, then its answer, in tokens. */
export interface AnswerScript {
	thinking: string[];
	answer: string[];
}

/** The script of a conversation's answer. A seed of its own gives a text of its own; the same seed the same. */
export function scriptOf(conversation: number, settings: SamplingSettings, question = ''): AnswerScript {
	const json = settings.structuredOutput?.kind === 'jsonSchema' ? structured : null;
	const asked = /formula/i.test(question) ? formulas : null;
	const text = json ?? asked ?? answers[(conversation + answers.length - 1) % answers.length] ?? '';
	const wantsThinking = settings.thinkingBudget !== null;
	const thought = wantsThinking ? tokensOf(thoughts).slice(0, settings.thinkingBudget ?? undefined) : [];
	const variant = json === null && settings.seed !== null ? `With seed ${settings.seed}: ` : '';
	return { thinking: thought, answer: tokensOf(variant + text) };
}

/** A long answer, another one in each turn. */
export function longScriptOf(seed: number, characters: number): AnswerScript {
	return { thinking: [], answer: tokensOf(longAnswer(seed, characters)) };
}

export function tokensOf(text: string): string[] {
	return text.match(/\s*\S{1,6}|\s+$/g) ?? [];
}

/** Long enough to be watched while it is written. */
const structured = JSON.stringify(
	{
		city: 'Paris',
		population: 2_102_650,
		districts: Array.from({ length: 20 }, (_, i) => ({ number: i + 1, name: `Arrondissement ${i + 1}` })),
	},
	null,
	1,
);

const thoughts =
	'The person asks about a city. I should name the city first, then the two or three facts that matter most, and keep the answer short.';

/** Answers that the scripted engine streams: each exercises another part of Markdown. */
export const answers: readonly string[] = [
	`Paris is the capital of France. It has been the country's political centre **for most of the last thousand years**, and today it holds the parliament, the presidency and most ministries.

- **Population:** about 2.1 million in the city, 11 million around it
- **River:** the Seine, with the *Île de la Cité* in the middle
- **Known for:** the Louvre, Notre-Dame and the Eiffel Tower

> “Paris is always a good idea.”

If you plan a visit, spring and early autumn are the calmest seasons.
`,
	`A rainbow needs sunlight *behind* you and drops of water in front of you. Three things happen inside each drop:

1. The light **bends** as it enters, because water slows it down.
2. It **reflects** off the back of the drop.
3. It **bends again** on the way out, and every colour leaves at its own angle.

Red leaves at about 42°, violet at about 40°. Because each of your eyes sees other drops, nobody else sees quite *your* rainbow.

### Why a second bow?

Some light reflects twice before it leaves. The second bow is fainter and its colours run the other way round.
`,
	`Here is a small function that counts the words of a text:

\`\`\`rust
use std::collections::HashMap;

/// Counts how often each word occurs, ignoring case.
fn word_counts(text: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for word in text.split_whitespace() {
        *counts.entry(word.to_lowercase()).or_insert(0) += 1;
    }
    counts
}
\`\`\`

It walks through the text once, so the cost is \`O(n)\`. To ignore punctuation, trim each word with \`trim_matches\` first.
`,
	`Both are good choices; they differ in what they make easy.

| | Tea | Coffee |
| --- | --- | --- |
| Caffeine per cup | 30–50 mg | 80–120 mg |
| Brewing | 3–5 minutes | 2–4 minutes |
| Good with | a long afternoon | an early morning |

Start with **tea** if you want a gentle curve, with **coffee** if you want a clear start. Either way, drink water beside it. 🙂 More under [brewing basics](https://example.test/brewing).

![A cup](https://example.test/cup.png)
`,
];

/** The answer to every question about formulas. */
export const formulas = String.raw`The roots of $ax^2 + bx + c = 0$ are

$$
x_{1,2} = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}
$$

With \(a = 1\), **the sum is $-b$** and the product is $c$. A matrix does the same for two lines:

\[
\begin{aligned}
\begin{pmatrix} 2 & 1 \\ 1 & 3 \end{pmatrix}
\begin{pmatrix} x \\ y \end{pmatrix}
&= \begin{pmatrix} 3 \\ 5 \end{pmatrix}
\end{aligned}
\]

A pocket calculator for it costs $5 to $10, and $\int_0^1 x^2\,dx = \tfrac{1}{3}$ it does not know.
`;
