package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"amnesia/pkg/discover"
	"amnesia/pkg/session"
	"amnesia/pkg/view"
)

// lives finds out, for keys that end by themselves, how long they live and what prolongs that: it watches what is left of
// a key's time while nothing happens, over a look at the page, and over one more memory.
func (v *verification) lives(ctx context.Context, s *session.Session, user session.User) error {
	for k := range v.draft.Looks {
		l := &v.draft.Looks[k]
		ttl := slices.IndexFunc(l.Contract, func(s discover.Setting) bool { return s.Key == "ttl" })
		if ttl < 0 || l.Gap != "" {
			continue
		}
		contract, err := v.life(ctx, l.Name, s, user)
		if err != nil {
			return err
		}
		// What ends by itself is a cache where the same is kept elsewhere for good.
		elsewhere := slices.ContainsFunc(v.draft.Looks, func(o discover.Look) bool {
			return o.Gap == "" && o.Name != "page" && !slices.ContainsFunc(o.Contract, func(s discover.Setting) bool { return s.Key == "ttl" })
		})
		durable := discover.Setting{Key: "durable", Value: fmt.Sprint(!elsewhere)}
		l.Note = "its keys end by themselves; that it is a cache is taken from the same being kept elsewhere"
		if !elsewhere {
			l.Note = "its keys end by themselves, and yet nothing else was found that keeps memories: until then they must be here"
		}
		l.Contract = append([]discover.Setting{durable}, contract...)
	}
	return nil
}

// leaver is a view that says how long a user's records still live; 0: for ever.
type leaver interface {
	Left(ctx context.Context, user string) (time.Duration, error)
}

func (v *verification) life(ctx context.Context, name string, s *session.Session, user session.User) (contract []discover.Setting, err error) {
	opened, err := v.open(name, view.MatchExact)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	key, ok := opened.(leaver)
	if !ok {
		return nil, fmt.Errorf("the view %s does not say how long its records live", name)
	}
	const a = 1200 * time.Millisecond // long enough to be told from the time that anything takes
	// prolonged reports whether a key has more of its time left than before.
	before, err := key.Left(ctx, user.Name)
	if err != nil {
		return nil, err
	}
	prolonged := func() (bool, error) {
		was := before
		before, err = key.Left(ctx, user.Name)
		return before > was, err
	}
	select {
	case <-time.After(a):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if _, err := prolonged(); err != nil {
		return nil, err
	}
	from, since := "write", v.began
	if len(v.draft.Script.Recall) > 0 {
		began := time.Now()
		if _, err := s.Recall(ctx); err != nil {
			return nil, err
		}
		longer, err := prolonged()
		if err != nil {
			return nil, err
		}
		if longer {
			from, since = "last_access", began
		}
	}
	if from == "write" {
		if err := v.tell(ctx, s, user, len(v.told)); err != nil {
			return nil, err
		}
		longer, err := prolonged()
		if err != nil {
			return nil, err
		}
		if longer {
			from, since = "last_write", v.last
		}
	}
	ttl := discover.Roundest(before, before+time.Since(since)+time.Second)
	return []discover.Setting{discover.Duration("ttl", ttl), {Key: "ttl_from", Value: from}}, nil
}
