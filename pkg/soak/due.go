package soak

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"amnesia/pkg/memory"
	"amnesia/pkg/oracle"
)

// wanted gives the memories that are to be read in a view, by id.
type wanted func(Look) []memory.Memory

// due is what cycle n must read of all: whatever something may have changed since it was last read (oracle.Book.Due), and
// beside it each account once in Rotation cycles, in turns, for what nobody would think of. A run's first reading is of
// everything, since nobody watched until then, and so is that of a run's last cycle: nobody watches from then on.
func (l *Loop) due(n int, all []memory.Memory) (want wanted, whole bool) {
	everything := func(Look) []memory.Memory { return all }
	if l.Rotation <= 1 || l.cycles == 0 || l.cycles == l.Cycles-1 {
		return everything, true
	}
	var owed map[string][]memory.ID
	l.Docket.Read(func(b *oracle.Book) { owed = b.Due(l.Clock.Now()) })
	turn := map[string]bool{}
	for _, m := range all {
		if _, known := turn[m.User]; !known {
			h := fnv.New32a()
			h.Write([]byte(m.User))
			turn[m.User] = int(h.Sum32()%uint32(l.Rotation)) == n%l.Rotation
		}
	}
	return func(k Look) []memory.Memory {
		ids := owed[k.Contract.View] // rising, as all are
		var ms []memory.Memory
		for _, m := range all {
			for len(ids) > 0 && ids[0] < m.ID {
				ids = ids[1:]
			}
			if turn[m.User] || len(ids) > 0 && ids[0] == m.ID {
				ms = append(ms, m)
			}
		}
		return ms
	}, false
}

// settle sweeps what is due until no verdict of a live memory can change by another read, or the bound is reached. Once
// one is found lost or with a defect that was not before, whatever is left is read too: what befell one may have befallen
// any. What was read is recorded once ready has returned.
func (l *Loop) settle(ctx context.Context, n int, ready func() error) error {
	all := l.alive()
	due, whole := l.due(n, all)
	if err := l.sweep(ctx, n, false, ready, due); err != nil {
		return err
	}
	mine := slices.DeleteFunc(slices.Clone(all), func(m memory.Memory) bool { return m.Cycle != n })
	if err := l.sweep(ctx, n, true, ready, func(Look) []memory.Memory { return mine }); err != nil {
		return err
	}
	if err := l.poll(ctx, n, ready, all); err != nil || whole || !l.troubled(all) {
		return err
	}
	rest := func(k Look) []memory.Memory {
		read := due(k)
		return slices.DeleteFunc(slices.Clone(all), func(m memory.Memory) bool {
			_, was := slices.BinarySearchFunc(read, m.ID, func(r memory.Memory, id memory.ID) int { return int(r.ID - id) })
			return was
		})
	}
	if err := l.sweep(ctx, n, false, ready, rest); err != nil {
		return err
	}
	return l.poll(ctx, n, ready, all)
}

// poll reads what is open again and again, until nothing is or the bound is reached.
func (l *Loop) poll(ctx context.Context, n int, ready func() error, all []memory.Memory) error {
	longest := time.Duration(0)
	for _, k := range l.Looks {
		longest = max(longest, k.Contract.Settle)
	}
	// The traffic is over and the fault too, so by then every deadline has passed, and one more read decides.
	deadline := l.Clock.Now().Add(longest)
	end := deadline.Add(l.SettleWithin)
	wait := 5 * time.Millisecond
	for {
		open := l.open(all)
		now := l.Clock.Now()
		if len(open) == 0 || now.After(end) {
			return nil
		}
		rest := wait
		if left := deadline.Sub(now) + time.Millisecond; left > 0 {
			rest = min(wait, left)
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		wait = min(2*wait, 200*time.Millisecond)
		due := func(k Look) []memory.Memory { return open[k.Contract.View] }
		for _, last := range []bool{false, true} {
			if err := l.sweep(ctx, n, last, ready, due); err != nil {
				return err
			}
		}
	}
}

// open gives, by view, the memories whose verdict another read of that view could still change.
func (l *Loop) open(ms []memory.Memory) map[string][]memory.Memory {
	byID := make(map[memory.ID]memory.Memory, len(ms))
	for _, m := range ms {
		byID[m.ID] = m
	}
	open := map[string][]memory.Memory{}
	l.Docket.Read(func(b *oracle.Book) {
		for view, ids := range b.Open(l.Clock.Now()) {
			for _, id := range ids {
				if m, ok := byID[id]; ok {
					open[view] = append(open[view], m)
				}
			}
		}
	})
	return open
}

// troubled reports whether a memory is lost or has a defect that its last recorded verdict does not say.
func (l *Loop) troubled(ms []memory.Memory) (found bool) {
	l.Docket.Read(func(b *oracle.Book) {
		l.mu.Lock()
		defer l.mu.Unlock()
		now := l.Clock.Now()
		found = slices.ContainsFunc(ms, func(m memory.Memory) bool {
			v, _ := b.Verdict(m.ID, now)
			return (v.Kind.Loss() || v.Kind == memory.Volatile || len(v.Defects) > 0) && !same(l.last[m.ID], v)
		})
	})
	return found
}
