package session

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"text/template"

	"amnesia/pkg/memory"
)

// Personas describes the users of a run and what they have to tell.
type Personas struct {
	Seed uint64
	Run  string
	// Accounts is a template of names over .Run and .N; default amnesia-{{.Run}}-{{.N}}.
	Accounts string
	// Payloads are the shapes of text to use; default all.
	Payloads []memory.Payload
}

// Teller makes users and memories up. It is a pure function of its Personas: the same user and number give the same
// memory, in any order and from any goroutine.
type Teller struct {
	p     Personas
	key   [32]byte
	names *template.Template
}

// Bounds of what a Teller can number, from the 50 bits of a token.
const (
	MaxUsers    = 1 << 20
	MaxMemories = 1 << 30 // of one user
)

// NewTeller checks the personas.
func NewTeller(p Personas) (*Teller, error) {
	if p.Accounts == "" {
		p.Accounts = "amnesia-{{.Run}}-{{.N}}"
	}
	if len(p.Payloads) == 0 {
		p.Payloads = memory.Payloads[:]
	}
	for _, k := range p.Payloads {
		if !slices.Contains(memory.Payloads[:], k) {
			return nil, fmt.Errorf("sessions.payloads: %q is no payload — fix: some of %v", k, memory.Payloads)
		}
	}
	t := &Teller{p: p, key: sha256.Sum256(fmt.Appendf(nil, "%d\x00%s", p.Seed, p.Run))}
	var err error
	if t.names, err = template.New("accounts").Option("missingkey=error").Parse(p.Accounts); err != nil {
		return nil, fmt.Errorf("sessions.accounts: %w — fix: write a name with {{.Run}} and {{.N}}", err)
	}
	a, err := t.name(0)
	if err != nil {
		return nil, fmt.Errorf("sessions.accounts: %w — fix: use {{.Run}} and {{.N}} only", err)
	}
	if b, err := t.name(1); err != nil || a == b {
		return nil, errors.New("sessions.accounts: every user would have the same name — fix: put {{.N}} into it")
	}
	return t, nil
}

func (t *Teller) name(n int) (string, error) {
	var b strings.Builder
	err := t.names.Execute(&b, map[string]any{"Run": t.p.Run, "N": n})
	return b.String(), err
}

// User gives user n, counted from 0. The password is strong enough for the usual rules, and the same for the same seed.
func (t *Teller) User(n int) User {
	name, err := t.name(n)
	if err != nil {
		panic("session: the accounts template worked for user 0: " + err.Error())
	}
	h := t.hash("password", uint64(n), 0)
	return User{Run: t.p.Run, N: n, Name: name, Password: "Am-" + base32(binary.BigEndian.Uint64(h[:]), 12) + "-7"}
}

// Memory gives memory k of the user, counted from 0. ID, Cycle and Views are the caller's to set.
//
// No two memories of a user have the same subject, so that none corrects another.
func (t *Teller) Memory(u User, k int) memory.Memory {
	h := t.hash("memory", uint64(u.N), uint64(k))
	rng := rand.New(rand.NewPCG(binary.BigEndian.Uint64(h[:]), binary.BigEndian.Uint64(h[8:])))
	token := t.token(u.N, k)
	payload := t.payload(u.N, k)
	text, question := compose(rng, payload, token, k+1)
	return memory.Memory{Run: t.p.Run, User: u.Name, Text: text, Token: token, Question: question, Payload: payload}
}

func (t *Teller) hash(what string, a, b uint64) [32]byte {
	buf := append(t.key[:], what...)
	buf = binary.BigEndian.AppendUint64(buf, a)
	return sha256.Sum256(binary.BigEndian.AppendUint64(buf, b))
}

// payload deals the shapes of a user's memories as from a deck: each once in the first hand, then hands in which the
// short one lies as often as all others together.
func (t *Teller) payload(user, k int) memory.Payload {
	deck := slices.Clone(t.p.Payloads)
	hand := 0
	if k >= len(deck) {
		k -= len(deck)
		if n := len(deck) - 1; slices.Contains(deck, memory.PayloadShort) {
			for len(deck) < 2*n {
				deck = append(deck, memory.PayloadShort)
			}
		}
		hand, k = 1+k/len(deck), k%len(deck)
	}
	h := t.hash("payloads", uint64(user), uint64(hand))
	rng := rand.New(rand.NewPCG(binary.BigEndian.Uint64(h[:]), binary.BigEndian.Uint64(h[8:])))
	rng.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck[k]
}

// token numbers (user, k) in 50 bits and scatters the numbers by a keyed permutation (a Feistel network of six rounds):
// within a run no two are alike, whatever the key, and another run has another key.
func (t *Teller) token(user, k int) string {
	if user < 0 || user >= MaxUsers || k < 0 || k >= MaxMemories {
		panic(fmt.Sprintf("session: no token for memory %d of user %d", k, user))
	}
	const half = 25
	const mask = 1<<half - 1
	n := uint64(user)<<30 | uint64(k)
	l, r := n>>half, n&mask
	for round := range uint64(6) {
		h := t.hash("token", round, r)
		l, r = r, l^(binary.BigEndian.Uint64(h[:])&mask)
	}
	return "amn" + base32(l<<half|r, 10)
}

// base32 writes the lowest 5·n bits in lower-case letters and digits, without i, l, o and u.
func base32(v uint64, n int) string {
	const digits = "0123456789abcdefghjkmnpqrstvwxyz"
	b := make([]byte, n)
	for i := n - 1; i >= 0; i-- {
		b[i] = digits[v&31]
		v >>= 5
	}
	return string(b)
}
