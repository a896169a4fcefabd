package sessiontest

import (
	"context"
	"testing"
	"time"

	"amnesia/pkg/session"
)

// Script is what a user does on the server's pages.
func Script() *session.Script {
	return &session.Script{
		Login: []session.Step{
			{Goto: "/login"},
			{Fill: &session.Fill{Selector: "input[name=username]", Text: "{{.User}}"}},
			{Fill: &session.Fill{Selector: "input[name=password]", Text: "{{.Password}}"}},
			{Click: "button[type=submit]"},
			{Expect: &session.Expect{URL: "**/chat"}},
			{Rejected: &session.Expect{Selector: "[role=alert]"}},
		},
		Tell: []session.Step{
			{Fill: &session.Fill{Selector: "#message", Text: "{{.Memory}}"}},
			{Click: "#send"},
			{Acknowledged: &session.Ack{Level: "shown", Expect: session.Expect{Selector: ".message.assistant", Contains: "{{.Token}}"}}},
			{Acknowledged: &session.Ack{Level: "settled", Expect: session.Expect{Response: "**/api/chat"}}},
			{Rejected: &session.Expect{Selector: "[role=alert]"}},
		},
		Recall: []session.Step{
			{Goto: "/chat"},
			{Read: &session.Read{Selector: ".message.user .text", More: &session.More{Click: "#older"}}},
		},
		Ask: []session.Step{
			{Goto: "/chat"},
			{Fill: &session.Fill{Selector: "#message", Text: "{{.Question}}"}},
			{Click: "#send"},
			{Read: &session.Read{Selector: ".message.assistant .text", Last: true, Role: "assistant"}},
		},
		Forget: []session.Step{
			{Goto: "/chat"},
			{Click: `.message.user:has-text("{{.Token}}") button.forget`},
			{Acknowledged: &session.Ack{Expect: session.Expect{Selector: "[role=status]", Contains: "Forgotten"}}},
		},
		Logout: []session.Step{
			{Click: "#logout"},
			{Expect: &session.Expect{URL: "**/login"}},
		},
	}
}

// APIScript tells and recalls by requests of the script's own; it logs in by the page.
func APIScript() *session.Script {
	s := Script()
	s.Tell = []session.Step{
		{Request: &session.Request{Path: "/api/chat", JSON: map[string]any{"message": "{{.Memory}}"},
			Expect: &session.ExpectResponse{JSON: "$.reply"}, Capture: map[string]string{"id": "$.id"}}},
		{Acknowledged: &session.Ack{Expect: session.Expect{Response: "**/api/chat", JSON: "$.reply", Contains: "{{.Token}}"}}},
	}
	s.Recall = []session.Step{
		{Request: &session.Request{Path: "/api/history"}},
		{Read: &session.Read{JSON: "$.messages[?(@.Role == 'user')].Text", More: &session.More{JSON: "$.next"}}},
	}
	s.Ask, s.Forget = nil, nil
	return s
}

// short is a time-out for what is not going to come.
const short = 400 * time.Millisecond

// timeout gives a context that ends soon.
func timeout(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), short)
	t.Cleanup(cancel)
	return ctx
}
