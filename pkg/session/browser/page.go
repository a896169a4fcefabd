package browser

import "regexp"

// The code that runs in the page. Arguments and results cross as JSON texts.

// seeing is what both looks mean by an element being there: Playwright's own definition of visible, a box that is not
// empty and no visibility:hidden.
const seeing = `
const words = s => s.replace(/\s+/g, ' ').trim();
const holds = (s, want) => !want || s.includes(want) || words(s).includes(words(want));
const text = el => (el.matches('input, textarea') ? el.value : el.textContent).trim();
const shown = el => el.checkVisibility({visibilityProperty: true, checkVisibilityCSS: true});
const visible = el => { const r = el.getBoundingClientRect(); return r.width > 0 && r.height > 0 && shown(el); };
const disabled = el => el.matches(':disabled, [aria-disabled="true"]');
const find = (els, c) => {
	const seen = els.filter(el => visible(el) && holds(text(el), c.contains));
	if (c.state === 'hidden') return seen.length ? null : {text: ''};
	const el = c.state === 'enabled' ? seen.find(el => !disabled(el)) : c.state === 'disabled' ? seen.find(disabled) : seen[0];
	return el ? {text: text(el).slice(0, 4096)} : null;
};
`

// lookScript looks every few milliseconds until one of the conditions holds, the address changes, or wait is over. It
// gives, as offsets from its start in milliseconds, its last look and the one before.
const lookScript = `async arg => {` + seeing + `
	const {href, conditions, wait} = JSON.parse(arg);
	const start = performance.now();
	let before = -1;
	for (;;) {
		const at = performance.now() - start;
		const held = conditions.map(c => c && find([...document.querySelectorAll(c.selector)], c));
		if (location.href !== href || held.some(Boolean) || at >= wait) {
			const pierce = [...document.querySelectorAll('*')].some(el => el.shadowRoot);
			return JSON.stringify({href: location.href, held, at, before, pierce});
		}
		before = at;
		await new Promise(done => setTimeout(done, 5));
	}
}`

// findScript looks once at the elements that a selector of Playwright's found.
const findScript = `(els, arg) => {` + seeing + ` return JSON.stringify(find(els, JSON.parse(arg))); }`

// collectScript reads a list. What the page does not show is no part of it.
const collectScript = `els => {` + seeing + `
	return JSON.stringify({born: performance.timeOrigin, texts: els.filter(shown).map(text)});
}`

// moreScript says whether there is a button or link for more.
const moreScript = `els => {` + seeing + ` return els.some(el => visible(el) && !disabled(el)); }`

// scrollScript scrolls most of a screen up (-1) or down (1), and says whether there was any way to go.
const scrollScript = `(el, way) => {
	const was = el.scrollTop;
	el.scrollTop += way * Math.max(1, el.clientHeight * 0.8);
	return el.scrollTop !== was;
}`

// beyondCSS finds what Playwright's selectors have and the browser's own do not: engines, chains, XPath, quoted texts, and
// the pseudo-classes that Playwright adds.
var beyondCSS = regexp.MustCompile(`>>|^\s*[\w:*+-]+\s*=|^\s*(//|\.\.|["'])|` +
	`:(has-text|text|text-is|text-matches|visible|nth-match|light|right-of|left-of|above|below|near)\b`)
