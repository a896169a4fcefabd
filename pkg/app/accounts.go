package app

import (
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"sync"

	"amnesia/pkg/config"
	"amnesia/pkg/fact"
	"amnesia/pkg/session"
)

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newRun names a run, so that the accounts and tokens of two runs on one target never meet.
func newRun() string {
	var b [5]byte
	rand.Read(b[:]) // never fails
	return lowerBase32.EncodeToString(b[:])
}

// accounts gives the n-th account of a run, and finds an account by its name again.
type accounts struct {
	teller *session.Teller
	conf   config.Sessions

	mu     sync.Mutex
	byName map[string]session.User
}

func newAccounts(teller *session.Teller, conf config.Sessions) *accounts {
	return &accounts{teller: teller, conf: conf, byName: map[string]session.User{}}
}

// user gives the n-th account, from 0.
func (a *accounts) user(n int) session.User {
	u := a.of(a.teller, n)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.byName[u.Name] = u
	return u
}

// of gives the n-th account of a teller's run.
func (a *accounts) of(teller *session.Teller, n int) session.User {
	u := teller.User(n)
	switch {
	case len(a.conf.Logins) > 0:
		login := a.conf.Logins[n%len(a.conf.Logins)]
		u.Name, u.Password = login.Name, login.Password.Reveal()
	case a.conf.Password.IsSet():
		u.Password = a.conf.Password.Reveal()
	}
	return u
}

// recall makes the accounts of an earlier run again, with its seed, so that named finds those that are called names.
func (a *accounts) recall(run fact.Run, names map[string]bool) error {
	teller, err := session.NewTeller(session.Personas{Seed: run.Seed, Run: run.ID, Accounts: a.conf.Accounts})
	if err != nil {
		return err
	}
	most := session.MaxUsers // the ledger knows names, and no numbers
	if n := len(a.conf.Logins); n > 0 {
		most = n
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, missing := 0, len(names); n < most && missing > 0; n++ {
		if u := a.of(teller, n); names[u.Name] {
			a.byName[u.Name] = u
			missing--
		}
	}
	return nil
}

// named finds the account that user gave before.
func (a *accounts) named(name string) (session.User, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	u, ok := a.byName[name]
	if !ok {
		return u, fmt.Errorf("the account %s is of no run of this ledger, as sessions.accounts is now", name)
	}
	return u, nil
}
