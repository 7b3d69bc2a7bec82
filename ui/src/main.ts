import './app.css';
import { createBackend } from '#backend';
import { bootWords } from './bootWords';

// Whatever keeps the app from drawing is said in words: a blank window tells nobody anything.
const backend = createBackend();
import('./boot')
	.then(({ boot }) => boot(backend))
	.catch((thrown: unknown) => {
		const details = thrown instanceof Error ? `${thrown.message}\n${thrown.stack ?? ''}` : String(thrown);
		void backend.reportUiFailure(details).catch(() => {});
		const app = document.querySelector('#app');
		if (!app) return;
		const words = bootWords(navigator.languages);
		const title = document.createElement('h1');
		title.textContent = words.title;
		const advice = document.createElement('p');
		advice.textContent = words.advice;
		const reload = document.createElement('button');
		reload.textContent = words.reload;
		reload.addEventListener('click', () => location.reload());
		const shown = document.createElement('pre');
		shown.textContent = details;
		app.replaceChildren(title, advice, reload, shown);
		app.classList.add('boot-failure');
	});
