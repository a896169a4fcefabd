// Package soak is the loop that runs cycles: traffic, a fault at a random point, recovery, settle, sweep, judge. It
// brings users, faults, views, ledger and oracle together over their contracts, and knows none of their adapters.
package soak

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
	"amnesia/pkg/session"
)

// Ledger is where facts go. Append is durable when it returns.
type Ledger interface {
	Append(ctx context.Context, facts ...fact.Fact) error
	NextMemory() memory.ID
	NextInjection() int64
	NextSweep() int64
	NextCycle() int
}

// Freezer keeps what can be had only while a cycle lasts, and makes evidence of it when the cycle has found something.
type Freezer interface {
	Line(fact.Log) // every line of every service
	Event(fact.ServiceEvent)
	Seen(user string, g session.Glance) // the page, as the user left it
	Traced(user, file string)
	// Freeze gives the evidence for what verdicts add to incidents, in a bounded time.
	Freeze(ctx context.Context, cycle int, verdicts []fact.Judged, told func(memory.ID) memory.Memory) []fact.Frozen
}

// Loop runs cycles. Fill the fields, then call Start once.
type Loop struct {
	Run  string
	Seed uint64

	Users       int // at the same time
	Memories    int // that each tells in a cycle
	Accounts    func(n int) session.User
	PerAccount  int     // most memories of an account, then a new one; 0: never
	ForgetShare float64 // of the kept memories that their users delete again; needs the script's forget section
	Retire      time.Duration
	Rotation    int              // in so many cycles each account is read though nothing asks for it; 1 or less: all in each cycle
	Pace        [2]time.Duration // drawn from this range, between two messages of a user

	Plan     func(cycle int) (inj chaos.Injection, control bool)
	Every    time.Duration   // least time from one cycle's start, and from its fault, to the next
	Cycles   int             // 0: no end
	For      time.Duration   // 0: no end
	Finish   <-chan struct{} // closed: the cycle under way is the last; may be nil
	Services []string
	App      string // the service that users talk to

	TrafficWithin time.Duration // bound on the traffic of a cycle
	SettleWithin  time.Duration // bound on settling beyond the longest contract's settle

	Driver   string
	Player   *session.Player
	Teller   func(u session.User, k int) memory.Memory // the k-th memory of a user, from 0
	Looks    []Look
	Ledger   Ledger
	Docket   *Docket
	Engine   chaos.Engine
	Prober   *chaos.Prober
	Injector *chaos.Injector
	Recovery time.Duration // how long a service may take to be healthy again
	Clock    memory.Clock
	Log      *zap.Logger
	Freezer  Freezer // nil: no evidence is frozen
	// SelfTested is told of every self-test that could be made, with what was wrong; may be nil.
	SelfTested func(at memory.Instant, wrong error)

	// Past is what earlier daemons left in the ledger, taken before this run's own facts; Reach reports why a memory of
	// theirs can no longer be looked for. Both may be left empty.
	Past  Past
	Reach func(memory.Memory) error

	mu       sync.Mutex
	live     map[memory.ID]memory.Memory
	tokens   map[string]memory.ID
	last     map[memory.ID]memory.Verdict
	drawnFor map[memory.ID]bool // for deletion by its user
	begun    map[memory.ID]memory.Instant
	gate     memory.Instant
	told     map[string]int // memories composed, by user
	turn     []int          // how many accounts each user has used up
	unkept   atomic.Int64   // log lines that came too fast to be kept
	trig     *trigger
	firing   bool
	fired    memory.Instant // the last fault
	// recovered is what the services were like when they were healthy again after the fault, until a sweep takes it.
	recovered []fact.Health
	cycles    int            // run so far by this loop
	tested    memory.Instant // the last self-test that could be made
}

// Watch is the session.Watcher of the traffic's player.
func (l *Loop) Watch(p session.Point, _ session.User, _ memory.ID) {
	l.mu.Lock()
	t := l.trig
	l.mu.Unlock()
	if t != nil {
		t.point(p)
	}
}

// Start goes on where an earlier daemon ended (Past), then runs cycles until the bound is reached or ctx ends; an ended ctx is
// no error.
func (l *Loop) Start(ctx context.Context) error {
	l.live, l.tokens = map[memory.ID]memory.Memory{}, map[string]memory.ID{}
	l.last, l.drawnFor = map[memory.ID]memory.Verdict{}, map[memory.ID]bool{}
	l.begun, l.told = map[memory.ID]memory.Instant{}, map[string]int{}
	l.turn = make([]int, l.Users)

	fctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var followers sync.WaitGroup
	defer followers.Wait()
	defer stop()
	if e, ok := l.Engine.(chaos.EventSource); ok {
		events := e.Events(fctx)
		followers.Go(func() { l.followEvents(fctx, events) })
	}
	if e, ok := l.Engine.(chaos.LogReader); ok {
		lines := e.Logs(fctx)
		followers.Go(func() { l.followLogs(fctx, lines) })
	}

	followers.Go(func() { l.followGaps(fctx) })

	began := l.Clock.Now()
	if err := l.resume(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return nil
		}
		return err
	}
	for ctx.Err() == nil {
		if l.Cycles > 0 && l.cycles >= l.Cycles || l.For > 0 && l.Clock.Now().Sub(began) >= l.For || l.finished() {
			return nil
		}
		start := l.Clock.Now()
		err := l.cycle(ctx)
		l.cycles++
		if err != nil {
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil
			}
			return err
		}
		l.selfTest(ctx, oracle.NewBook())
		if l.Cycles > 0 && l.cycles >= l.Cycles {
			return nil
		}
		l.rest(ctx, start)
	}
	return nil
}

// rest waits until the next cycle may begin, and the guard would let it have a fault: Every from the start of the last
// cycle, and from its fault, which came later than that.
func (l *Loop) rest(ctx context.Context, start memory.Instant) {
	l.mu.Lock()
	from := memory.Later(start, l.fired)
	l.mu.Unlock()
	timer := time.NewTimer(l.Every - l.Clock.Now().Sub(from))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-l.Finish:
	case <-ctx.Done():
	}
}

func (l *Loop) finished() bool {
	select {
	case <-l.Finish:
		return true
	default:
		return false
	}
}

// Ran is how many cycles the loop has run. Not while it runs.
func (l *Loop) Ran() int { return l.cycles }

// retire drops the memories that are older than Retire from the sweeps.
func (l *Loop) retire(ctx context.Context) error {
	if l.Retire <= 0 {
		return nil
	}
	now := l.Clock.Now()
	var ids []memory.ID
	l.mu.Lock()
	for id, at := range l.begun {
		if now.Sub(at) > l.Retire {
			ids = append(ids, id)
		}
	}
	l.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	if err := l.Ledger.Append(ctx, fact.Retired{Memories: memory.SetOf(ids...), At: now}); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.tokens, l.live[id].Token)
		delete(l.live, id)
		delete(l.last, id)
		delete(l.begun, id)
		delete(l.drawnFor, id)
	}
	return nil
}

func (l *Loop) adopt(m memory.Memory) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.live[m.ID], l.tokens[m.Token], l.begun[m.ID] = m, m.ID, l.Clock.Now()
}

// memory gives one that is swept.
func (l *Loop) memory(id memory.ID) memory.Memory {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live[id]
}

// drawn reports whether the memory was drawn for deletion before, and marks it so.
func (l *Loop) drawn(id memory.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.drawnFor[id]
	l.drawnFor[id] = true
	return was
}

func (l *Loop) kept(id memory.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[id].Kind == memory.Kept
}

// alive gives the memories that are swept, by id.
func (l *Loop) alive() []memory.Memory {
	l.mu.Lock()
	defer l.mu.Unlock()
	ms := make([]memory.Memory, 0, len(l.live))
	for _, m := range l.live {
		ms = append(ms, m)
	}
	slices.SortFunc(ms, func(a, b memory.Memory) int { return int(a.ID - b.ID) })
	return ms
}

// await waits until a service is healthy, for no longer than a recovery may take.
func (l *Loop) await(ctx context.Context, service string) fact.Health {
	ctx, cancel := context.WithTimeout(ctx, l.Recovery)
	defer cancel()
	h, _ := l.Prober.Await(ctx, l.Engine, []string{service}) // what is wrong is in the reading
	return h[0]
}

func (l *Loop) setTrigger(t *trigger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trig = t
}

func (l *Loop) setFiring(on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.firing = on
}

func (l *Loop) underFire() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.firing
}

// struck reports whether a fault is let loose now, or was after an instant.
func (l *Loop) struck(since memory.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.firing || !l.fired.IsZero() && l.fired.After(since)
}

func (l *Loop) lastGate() memory.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gate
}

// random is a stream of its own for each user and cycle, so that the order in which goroutines run decides nothing.
func (l *Loop) random(cycle, n int) *rand.Rand {
	return rand.New(rand.NewPCG(l.Seed, uint64(cycle)<<20|uint64(n)))
}
