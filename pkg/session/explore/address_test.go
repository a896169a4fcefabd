package explore

import (
	"testing"
	"time"
)

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"http://a:1/api/chat":            "**/api/chat",
		"http://a:1/api/v1/chat?x=1":     "**/api/v1/chat",
		"http://a:1/c/9f86d081-884c/say": "**/c/*/say",
		"http://a:1/chats/17/messages":   "**/chats/*/messages",
		"http://a:1/u/k3n5x9q2/m":        "**/u/*/m",
		"http://a:1/":                    "**/",
		"ws://a:1/socket/":               "**/socket",
	} {
		if got := pattern(address); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
	for address, want := range map[string]string{
		"http://a:1/app/chat?new=1": "/app/chat", "http://a:1": "/", "http://a:1/#/login": "/#/login", "http://a:1/x#top": "/x", "http://b/login": "http://b/login",
	} {
		if got := relative("http://a:1/app", address); got != want {
			t.Errorf("%s: %s", address, got)
		}
	}
	if stable("/chat/17") || !stable("/chat") {
		t.Error("what is of one visit is not told from what stays")
	}
}

func TestPatience(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{time.Second: 0, 4 * time.Second: 20 * time.Second, 20 * time.Second: 90 * time.Second} {
		if got := (&explorer{slowest: took}).patience(); got != want {
			t.Errorf("%s: %s", took, got)
		}
	}
}
