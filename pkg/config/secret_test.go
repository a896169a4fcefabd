package config

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// TestSecretNeverPrints tries every way out that a logger, an encoder or a careless %+v has.
func TestSecretNeverPrints(t *testing.T) {
	const word = "sesame-open"
	s := NewSecret(word)
	type outer struct {
		Public Secret
		hidden Secret // fmt cannot call its methods
		list   []Secret
		inMap  map[string]Secret
	}
	o := outer{s, s, []Secret{s}, map[string]Secret{"a": s}}
	values := Values{"a": s}
	for _, v := range []any{s, &s, o, &o, values, Login{"anna", s}, Sessions{Password: s}, []any{s}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if out := fmt.Sprintf(verb, v); leaks(out, word) {
				t.Errorf("%s of %T: %s", verb, v, out)
			}
		}
	}
	for name, marshal := range map[string]func(any) ([]byte, error){"json": json.Marshal, "yaml": yaml.Marshal} {
		for _, v := range []any{s, &s, o, values, Login{"anna", s}} {
			out, err := marshal(v)
			if err != nil || leaks(string(out), word) || !strings.Contains(string(out), redacted) {
				t.Errorf("%s of %T: %s, %v", name, v, out, err)
			}
		}
	}
	if out, err := xml.Marshal(s); err != nil || leaks(string(out), word) {
		t.Errorf("xml: %s, %v", out, err)
	}
	var log bytes.Buffer
	for _, encoder := range []zapcore.Encoder{
		zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()),
	} {
		logger := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(&log), zap.DebugLevel))
		logger.Info("x", zap.Any("any", s), zap.Reflect("reflect", s), zap.Stringer("stringer", s), zap.Any("outer", o), zap.Any("values", values))
		logger.Sugar().Infof("%+v", o)
	}
	if leaks(log.String(), word) || !strings.Contains(log.String(), redacted) {
		t.Errorf("zap: %s", log.String())
	}
	if s.Reveal() != word || !s.IsSet() || (Secret{}).IsSet() || (Secret{}).Reveal() != "" || (Secret{}).String() != "" {
		t.Error("a secret does not hold what it was given")
	}
}

// TestRedact takes the secrets out of what others may say of them.
func TestRedact(t *testing.T) {
	c := Config{hidden: hide([]Secret{NewSecret("postgres://app:ses%40me-dsn@db/chat"), NewSecret("host=db password='two words' user=app"),
		NewSecret("host=db password=second-dsn"), NewSecret("Bearer header-token"), NewSecret(`quo"ted\pw`), NewSecret("abc"), NewSecret(""),
		NewSecret("postgres://chat:memory@db/chat"), NewSecret("correcthorsebattery"), NewSecret("pw12")})}
	for text, want := range map[string]string{
		"dial postgres://app:ses%40me-dsn@db/chat: refused": "dial [redacted]: refused",
		"password ses@me-dsn is wrong":                      "password [redacted] is wrong",
		"?p=ses%40me-dsn":                                   "?p=[redacted]",
		"the password is two words":                         "the password is [redacted]",
		"?p=two+words&q=two%20words":                        "?p=[redacted]&q=[redacted]",
		"second-dsn":                                        "[redacted]",
		"Authorization: Bearer header-token":                "Authorization: [redacted]",
		"header-token":                                      "[redacted]",
		`{"pw": "quo\"ted\\pw"} quo"ted\pw`:                 `{"pw": "[redacted]"} [redacted]`,
		"abc app db chat":                                   "abc app db chat",        // too short, and no secrets
		"a memory of postgres://chat:memory@db/chat":        "a memory of [redacted]", // a word, and an address
		"correcthorsebattery pw12":                          "[redacted] [redacted]",
	} {
		if got := c.Redact(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	full, err := Load([]string{"testdata/full.yaml"}, environment)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"sesame-api", "sesame-pw", "sesame-token", "sesame-dsn", "sesame-token-of-the-web", "not a real key"} {
		if got := full.Redact("x " + s + " y"); got != "x [redacted] y" {
			t.Errorf("%q is left: %q", s, got)
		}
	}
	if text := "debug application/json redis://127.0.0.1:6379/0"; full.Redact(text) != text {
		t.Errorf("what the file says in the clear is no secret: %q", full.Redact(text))
	}
	if got := (&Config{}).Redact("a"); got != "a" {
		t.Errorf("without secrets: %q", got)
	}
}

// leaks looks for the word as it is and in hexadecimal.
func leaks(out, word string) bool {
	return strings.Contains(out, word) || strings.Contains(strings.ToLower(out), fmt.Sprintf("%x", word))
}

// TestLoadedConfigPrintsNoSecret prints all that a file can hold.
func TestLoadedConfigPrintsNoSecret(t *testing.T) {
	c, err := Load([]string{"testdata/full.yaml"}, environment)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if out := fmt.Sprintf("%+v %#v %s", c, c, text); strings.Contains(out, "sesame") || strings.Contains(out, "not a real key") {
		t.Errorf("a secret is in %s", out)
	}
}
