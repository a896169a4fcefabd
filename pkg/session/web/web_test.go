package web_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"amnesia/pkg/clock"
	"amnesia/pkg/memory"
	"amnesia/pkg/session"
	"amnesia/pkg/session/sessiontest"
	"amnesia/pkg/session/web"
)

func open(t *testing.T, url string) session.Driver {
	t.Helper()
	d, err := web.New(web.Config{BaseURL: url, Clock: clock.System(), Evidence: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSuite(t *testing.T) { sessiontest.Run(t, open, sessiontest.Features{}) }

// Many users at once share the driver's connections and nothing else.
func TestUsersAtOnce(t *testing.T) {
	srv := sessiontest.NewServer(t, false)
	d := open(t, srv.URL)
	p, err := session.NewPlayer(d, sessiontest.Script(), session.Options{Clock: clock.System()})
	must(t, err)
	var wg sync.WaitGroup
	for n := range 60 {
		wg.Go(func() {
			if err := oneUser(t.Context(), p, n, 2); err != nil {
				t.Errorf("user %d: %v", n, err)
			}
		})
	}
	wg.Wait()
}

// oneUser logs in, tells its memories, and recalls them all.
func oneUser(ctx context.Context, p *session.Player, n, memories int) error {
	s, err := p.Open(ctx, session.User{Name: fmt.Sprintf("u%d", n), N: n, Password: sessiontest.Password})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Login(ctx); err != nil {
		return err
	}
	for k := range memories {
		token := fmt.Sprintf("amn%dx%d", n, k)
		if rc, err := s.Tell(ctx, memory.Memory{Text: "It is " + token, Token: token}); err != nil || rc.Outcome != memory.Acknowledged {
			return fmt.Errorf("tell: %+v, %w", rc, err)
		}
	}
	tr, err := s.Recall(ctx)
	if err != nil || !tr.Complete || len(tr.Utterances) != memories {
		return fmt.Errorf("recall: %+v, %w", tr, err)
	}
	return nil
}

// BenchmarkUsers plays whole users, a thousand at a time.
func BenchmarkUsers(b *testing.B) {
	srv := sessiontest.NewServer(b, false)
	d, err := web.New(web.Config{BaseURL: srv.URL, Clock: clock.System()})
	if err != nil {
		b.Fatal(err)
	}
	p, err := session.NewPlayer(d, sessiontest.Script(), session.Options{Clock: clock.System(), StepTimeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	var g errgroup.Group
	g.SetLimit(1000)
	for n := range b.N {
		g.Go(func() error { return oneUser(b.Context(), p, n, 3) })
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(3*b.N)/b.Elapsed().Seconds(), "tells/s")
}
