package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/playwright-community/playwright-go"

	"amnesia/pkg/session"
)

var _ session.Inspector = (*surface)(nil)

// mostElements bounds how many elements of one page are described.
const mostElements = 400

// rolesWanted are the roles of elements that a person acts on, or is told something by.
var rolesWanted = []string{"textbox", "searchbox", "combobox", "checkbox", "button", "link", "alert", "status", "log"}

// axNode is a node of the accessibility tree, as the DevTools protocol has it
// (https://chromedevtools.github.io/devtools-protocol/tot/Accessibility/#type-AXNode).
type axNode struct {
	Ignored          bool
	Role, Name       struct{ Value any }
	BackendDOMNodeID int `json:"backendDOMNodeId"`
}

// Elements reads the accessibility tree of Chromium, and of each node that counts what the document says of it.
func (s *surface) Elements(ctx context.Context) ([]session.Element, error) {
	elements, err := do(ctx, s.e, func() ([]session.Element, error) {
		cdp, err := s.context.NewCDPSession(s.page)
		if err != nil {
			return nil, err
		}
		defer func() { _ = cdp.Detach() }()
		return elementsOf(cdp)
	})
	return elements, s.failure(ctx, "looking at what the page has", err)
}

func elementsOf(cdp playwright.CDPSession) ([]session.Element, error) {
	var tree struct{ Nodes []axNode }
	if err := send(cdp, &tree, "Accessibility.getFullAXTree", nil); err != nil {
		return nil, err
	}
	type placed struct {
		session.Element
		At int
	}
	var all []placed
	for _, n := range tree.Nodes {
		role, _ := n.Role.Value.(string)
		if n.Ignored || n.BackendDOMNodeID == 0 || !slices.Contains(rolesWanted, role) || len(all) >= mostElements {
			continue
		}
		var node struct{ Object struct{ ObjectID string } }
		if err := send(cdp, &node, "DOM.resolveNode", map[string]any{"backendNodeId": n.BackendDOMNodeID}); err != nil {
			continue // it has gone meanwhile
		}
		name, _ := n.Name.Value.(string)
		var told struct{ Result struct{ Value string } }
		if err := send(cdp, &told, "Runtime.callFunctionOn", map[string]any{"objectId": node.Object.ObjectID, "returnByValue": true,
			"functionDeclaration": elementScript, "arguments": []map[string]any{{"value": role}, {"value": name}}}); err != nil || told.Result.Value == "" {
			continue
		}
		p := placed{}
		if err := json.Unmarshal([]byte(told.Result.Value), &p); err != nil {
			return nil, err
		}
		p.Role, p.Name = role, name
		if p.Selector == "" && name != "" {
			p.Selector = fmt.Sprintf("role=%s[name=%s]", role, strconv.Quote(name))
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b placed) int { return a.At - b.At })
	out := make([]session.Element, len(all))
	for i, p := range all {
		out[i] = p.Element
	}
	return out, nil
}

// send is one call of the DevTools protocol.
func send(cdp playwright.CDPSession, out any, method string, params map[string]any) error {
	reply, err := cdp.Send(method, params)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(reply)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

// Places looks through the whole document.
func (s *surface) Places(ctx context.Context, texts, marks []string) ([]session.Place, error) {
	arg, err := json.Marshal(map[string]any{"texts": texts, "marks": marks})
	if err != nil {
		return nil, &session.RigError{Err: err}
	}
	var out []session.Place
	err = s.evaluate(ctx, &out, func() (any, error) { return s.page.Evaluate(placesScript, string(arg)) })
	if err != nil {
		return nil, s.failure(ctx, "looking for what was told", err)
	}
	return out, nil
}

// Traffic gives the requests of documents and scripts, by the first address where they were redirected, and the frames of
// WebSockets.
func (s *surface) Traffic() (out []session.Exchange) {
	exchanges, _ := s.net.exchanges()
	for _, x := range exchanges {
		if x.ofPage() || x.kind == kindFrame {
			address := x.url
			if len(x.via) > 0 {
				address = x.via[0]
			}
			out = append(out, session.Exchange{Method: x.method, URL: address, Kind: x.kind, Status: x.status, Ended: x.ended && x.failure == ""})
		}
	}
	return out
}

// Address is where the page is now.
func (s *surface) Address() string { return s.page.URL() }

// naming makes selectors. An id, a class or a value that holds digits, or is long, was probably made by a program, and is
// another one tomorrow.
const naming = `
const stable = word => /^[A-Za-z][A-Za-z_-]{0,39}$/.test(word) && !/^(css|sc|jss|svelte|emotion|chakra|mui|Mui)[-_A-Z]/.test(word) && !/[a-z][A-Z][a-z]?[A-Z]/.test(word);
const attr = (name, value) => '[' + name + '=' + (/^[A-Za-z][A-Za-z0-9_-]*$/.test(value) ? value : JSON.stringify(value)) + ']';
const alone = (selector, el) => { const found = document.querySelectorAll(selector); return found.length === 1 && found[0] === el; };
`

// elementScript describes the element that it is called on; nothing where nobody can see it.
const elementScript = `function (role, name) {` + seeing + naming + `
	const el = this;
	if (el.nodeType !== 1 || !visible(el)) return '';
	const tag = el.tagName.toLowerCase(), field = el.getAttribute('name') || '', type = el.getAttribute('type') || '';
	const tries = [];
	if (stable(el.id)) tries.push('#' + el.id);
	if (field) tries.push(tag + attr('name', field));
	for (const key of ['data-testid', 'data-test', 'data-cy', 'aria-label', 'placeholder']) {
		const value = el.getAttribute(key);
		if (value && value.length < 60) tries.push(tag + attr(key, value));
	}
	if (type) tries.push(tag + attr('type', type));
	if (tag === 'textarea') tries.push(tag);
	if (el.isContentEditable) tries.push('[contenteditable=true]');
	const every = [...document.querySelectorAll('*')];
	return JSON.stringify({
		tag, type: tag === 'textarea' ? '' : type, field, selector: tries.find(s => alone(s, el)) || '',
		form: el.closest('form') ? [...document.querySelectorAll('form')].indexOf(el.closest('form')) : -1,
		required: el.matches(':required, [aria-required="true"]'), disabled: disabled(el), at: every.indexOf(el),
	});
}`

// placesScript pairs the elements that show the first text with those that show the others, in the page's order, and finds
// for each set the simplest selector that gives all of the set and none of the other sets.
const placesScript = `arg => {` + seeing + naming + `
	const {texts, marks} = JSON.parse(arg);
	const skip = el => el.matches('script, style, input, textarea, title, head');
	const deepest = mark => [...document.body.querySelectorAll('*')].filter(el => !skip(el) && el.textContent.includes(mark) &&
		shown(el) && ![...el.children].some(c => c.textContent.includes(mark)));
	// A text that is drawn in several pieces is that of the element around them.
	const whole = (el, want) => {
		for (let up = el, n = 0; up && up !== document.body && n < 4; up = up.parentElement, n++) {
			if (words(up.textContent).includes(words(want))) return up;
		}
		return el;
	};
	const found = texts.map((want, i) => deepest(marks[i]).map(el => whole(el, want)));
	const n = Math.min(...found.map(f => f.length));
	const sets = [];
	for (let k = 0; k < n; k++) sets.push(found.map(f => f[k]));
	// The simple selectors of one element that every element of its set has.
	const simple = els => {
		const el = els[0], out = [];
		const classes = [...el.classList].filter(c => stable(c) && els.every(e => e.classList.contains(c)));
		for (const c of classes) out.push(['.' + c, 1]);
		for (let i = 0; i < classes.length; i++) for (let j = i + 1; j < classes.length; j++) out.push(['.' + classes[i] + '.' + classes[j], 2]);
		for (const a of el.attributes) {
			if (/^(data-|aria-label$|role$)/.test(a.name) && a.value.length < 40 && /^[A-Za-z][\w -]*$/.test(a.value) &&
				els.every(e => e.getAttribute(a.name) === a.value)) out.push([attr(a.name, a.value), 2]);
		}
		const tag = el.tagName.toLowerCase();
		if (els.every(e => e.tagName === el.tagName)) {
			out.push([tag, 3]);
			for (const [s, cost] of [...out]) if (s[0] !== tag[0] && cost < 3) out.push([tag + s, cost + 1]);
		}
		return out;
	};
	const up = (els, n) => { for (; n > 0; n--) els = els.map(e => e && e.parentElement); return els.every(Boolean) && els[0] !== document.documentElement ? els : null; };
	const others = (set, all) => all.filter(s => s !== set).flat();
	return JSON.stringify(sets.map(set => {
		// The name of a tag alone is that of much else.
		const own = simple(set), tries = own.map(([s, cost]) => [s, /^[a-z]/.test(s) && !/[.[]/.test(s) ? cost + 6 : cost]);
		for (let n = 1; n <= 5; n++) {
			const above = up(set, n);
			if (!above || above[0] === document.body) break;
			for (const [a, ca] of simple(above)) for (const [s, cost] of own) tries.push([a + ' ' + s, ca + cost + n / 10]);
		}
		tries.sort((a, b) => a[1] - b[1]);
		const foreign = others(set, sets);
		const good = tries.find(([s]) => {
			const got = new Set(document.querySelectorAll(s));
			return set.every(e => got.has(e)) && !foreign.some(e => got.has(e)) && [...got].filter(shown).every(e => !set.some(x => x !== e && (e.contains(x) || x.contains(e))));
		});
		return {selector: good ? good[0] : '', exact: set.every((e, i) => text(e) === texts[i].trim()), text: text(set[0]).slice(0, 200)};
	}).filter(p => p.selector));
}`
