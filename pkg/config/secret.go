package config

import (
	"encoding/json"
	"fmt"
)

const redacted = "[redacted]"

// Secret is a text that never prints: fmt, JSON, YAML, text encoders and loggers all get [redacted]. The zero value is
// unset.
type Secret struct {
	// A pointer, so that fmt shows an address even where it cannot call the methods below: inside an unexported field.
	value *string
}

// NewSecret wraps a text.
func NewSecret(s string) Secret { return Secret{&s} }

// Reveal gives the text in the clear; empty when unset.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsSet reports whether there is a text at all.
func (s Secret) IsSet() bool { return s.value != nil }

func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return redacted
}

// Format and the marshallers say what String says, whatever the verb or the encoder.
func (s Secret) Format(f fmt.State, _ rune)   { fmt.Fprint(f, s.String()) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }
func (s Secret) MarshalYAML() (any, error)    { return s.String(), nil }
