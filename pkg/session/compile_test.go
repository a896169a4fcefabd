package session_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/session"
)

const good = `
login: [{goto: /login}, {fill: {selector: "#u", text: "{{.User}}"}}, {request: {path: /token, form: {u: "{{.User}}"}, capture: {token: $.token}}}]
tell:
  - request: {path: /say, headers: {Authorization: "Bearer {{.Captured.token}}"}, json: {text: ["{{.Memory}}", {n: 1}]}}
  - acknowledged: {response: "**/say", json: $.reply, contains: "{{.Token}}", timeout: 30s}
  - rejected: {selector: "[role=alert]"}
recall: [{goto: /chat}, {read: {selector: .m, more: {click: "#older"}, ready: {selector: "#end"}}}]
ask: [{fill: {selector: "#m", text: "{{.Question}}"}}, {click: "#send"}, {read: {selector: .a, last: true, role: assistant}}]
forget: [{click: '.m:has-text("{{.Token}}") button'}, {acknowledged: {selector: .m, state: hidden}}]
logout: [{click: "#out"}]
`

func load(t testing.TB, text string) *session.Script {
	t.Helper()
	var s session.Script
	if err := yaml.UnmarshalWithOptions([]byte(text), &s, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return &s
}

func TestCompileAGoodScript(t *testing.T) {
	c, err := session.CompileScript(load(t, good))
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	c.Each(func(section string, n int, s session.Step) {
		steps = append(steps, section)
		if section == "tell" && n == 1 {
			want := &session.Request{Path: "/say", Headers: map[string]string{"Authorization": "Bearer captured"},
				JSON: map[string]any{"text": []any{"The sample is amnsample.", map[string]any{"n": uint64(1)}}}}
			if d := cmp.Diff(want, s.Request); d != "" {
				t.Error(d)
			}
		}
	})
	if len(steps) != 14 {
		t.Errorf("steps of %v", steps)
	}
}

// Each case replaces a part of the good script and names the one mistake that must be found.
func TestCompileFindsEveryMistake(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"{{.User}}"}}, {request`, `"{{.Usr}}"}}, {request`, "login step 2: "},
		{`capture: {token: $.token}}}]`, `capture: {token: $.token}}}, {click: "#in"}]`, "login: no step says how the user sees that it worked"},
		{`"{{.User}}"}}, {request`, `"{{.User"}}, {request`, "login step 2: the template"},
		{`"{{.User}}"}}, {request`, `"{{.Memory}}"}}, {request`, `login step 2: `},
		{`Captured.token`, `Captured.tokem`, "tell step 1: "},
		{`"{{.Memory}}"`, `"{{.Question}}"`, "tell: no step sends the memory"},
		{`- acknowledged: {response`, `- expect: {response`, "tell: no step says when it is acknowledged"},
		{`contains: "{{.Token}}", timeout: 30s`, `state: shown`, `tell step 2, acknowledged.state: "shown" is no state`},
		{`response: "**/say", json: $.reply, contains`, `response: "**/[say", contains`, "tell step 2, acknowledged.response: the glob"},
		{`response: "**/say", json`, `selector: .a, json`, "tell step 2, acknowledged.json: the JSON of what?"},
		{`json: $.reply`, `json: "$.["`, "tell step 2, acknowledged.json: the JSONPath"},
		{`- rejected: {selector: "[role=alert]"}`, `- rejected: {}`, "tell step 3, rejected: it waits for nothing"},
		{`- rejected: {selector`, `- rejected: {contains: x, url`, "tell step 3, rejected.contains: the text of what?"},
		{`- rejected: {selector: "[role=alert]"}`, `- {goto: /a, click: b}`, "tell step 3: a step is one action, this one has 2"},
		{`- rejected: {selector: "[role=alert]"}`, `- {}`, "tell step 3: a step is one action, this one has 0"},
		{`- rejected: {selector: "[role=alert]"}`, `- acknowledged: {level: settled, url: "**"}`, `tell step 3, acknowledged.level: "settled" is named twice`},
		{`- rejected: {selector: "[role=alert]"}`, `- read: {selector: .x}`, "tell step 3, read: only recall and ask read"},
		{`timeout: 30s`, `timeout: -1s`, "tell step 2, acknowledged.timeout: it is negative"},
		{`selector: .m, more: {click`, `selector: .m, json: $.x, more: {click`, "recall step 2, read: it reads either elements or JSON"},
		{`more: {click: "#older"}`, `more: {}`, "recall step 2, read.more: there is one way"},
		{`more: {click: "#older"}`, `more: {json: $.next}`, "recall step 2, read.more: elements and JSON do not mix"},
		{`ready: {selector: "#end"}`, `ready: {}`, "recall step 2, read.ready: it waits for nothing"},
		{`, {read: {selector: .a, last: true, role: assistant}}`, ``, "ask: it reads nothing"},
		{`selector: "#m", text`, `selector: "", text`, "ask step 1, fill.selector: it is empty"},
		{`acknowledged: {selector: .m, state: hidden}`, `expect: {selector: .m, state: hidden}`, "forget: no step says"},
		{`logout: [{click: "#out"}]`, `logout: [{acknowledged: {url: "**"}}]`, "logout step 1, acknowledged: only tell and forget"},
		{`path: /token, form`, `path: "", form`, "login step 3, request.path: it is empty"},
		{`path: /token, form`, `path: /token, method: get, form`, `login step 3, request.method: "get" is no method`},
		{`path: /token, form`, `path: /token, json: {a: b}, form`, "login step 3, request: a body is either"},
		{`path: /token, form`, `path: /token, expect: {status: 99}, form`, "login step 3, request.expect.status: 99 is no status"},
		{`capture: {token: $.token}`, `capture: {token: "$.["}`, "login step 3, request.capture.token: the JSONPath"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Fatalf("%q is not in the script", c.old)
		}
		_, err := session.CompileScript(load(t, text))
		var se *session.ScriptError
		if err == nil || !errors.As(err, &se) || !strings.HasPrefix(se.Error(), c.want) || !strings.Contains(se.Error(), "fix:") {
			t.Errorf("%s → %s:\n got  %v\n want %s … fix: …", c.old, c.new, err, c.want)
		}
	}
}

func TestCompileNamesAllMistakesAtOnce(t *testing.T) {
	_, err := session.CompileScript(load(t, `
tell: [{fill: {selector: "", text: "{{.Nope}}"}}, {acknowledged: {}}]
recall: [{goto: /chat}]
`))
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || len(joined.Unwrap()) != 3 {
		t.Errorf("got %v", err)
	}
}
