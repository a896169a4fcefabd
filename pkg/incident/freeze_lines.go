package incident

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

const (
	// BeforeFault is how far before the fault the frozen lines and events begin.
	BeforeFault = 30 * time.Second
	// afterFault is how long after a fault lines still count as near it.
	afterFault = 10 * time.Second
	// shelfAge and shelfBytes bound what is held of one service: the bytes twice, of the lines near the fault and of the
	// others.
	shelfAge   = 15 * time.Minute
	shelfBytes = 512 << 10
	// lineBytes is what a line takes beside its text.
	lineBytes = 128
	// eventsHeld bounds the engine's events that are held.
	eventsHeld = 512
)

// shelf holds the newest lines of one service and, apart from them, those near the last fault: what a healthy service
// prints meanwhile must not push out what will be asked for.
type shelf struct {
	near, rest lines
	fault      memory.Instant
}

// lines are in the order in which they came, and know how large they are.
type lines struct {
	list  []fact.Log
	bytes int
}

func weigh(f fact.Log) int { return len(f.Line) + lineBytes }

func (l *lines) push(f fact.Log) {
	l.list = append(l.list, f)
	l.bytes += weigh(f)
}

// drop forgets the oldest line.
func (l *lines) drop() {
	l.bytes -= weigh(l.list[0])
	l.list[0] = fact.Log{}
	l.list = l.list[1:]
}

func (s *shelf) push(f fact.Log) {
	if !s.fault.IsZero() && f.At.Sub(s.fault) <= afterFault && s.near.bytes+weigh(f) <= shelfBytes {
		s.near.push(f)
		return
	}
	s.rest.push(f)
	// A line may be larger than all that is held.
	for len(s.rest.list) > 0 && (s.rest.bytes > shelfBytes || f.At.Sub(s.rest.list[0].At) > shelfAge) {
		s.rest.drop()
	}
}

// strike says when the last fault was let loose: the lines just before it are near it, of too many the newest.
func (s *shelf) strike(at memory.Instant) {
	all := s.all()
	s.fault, s.near, s.rest = at, lines{}, lines{}
	from, bytes := len(all), 0
	for from > 0 && at.Sub(all[from-1].At) <= BeforeFault && bytes+weigh(all[from-1]) <= shelfBytes/2 {
		from--
		bytes += weigh(all[from])
	}
	for _, f := range all[from:] {
		s.near.push(f)
	}
	for _, f := range all[:from] {
		s.rest.push(f)
	}
	for s.rest.bytes > shelfBytes {
		s.rest.drop()
	}
}

// all gives the lines, oldest first.
func (s *shelf) all() []fact.Log {
	all := slices.Concat(s.near.list, s.rest.list)
	slices.SortStableFunc(all, func(a, b fact.Log) int { return cmp.Compare(a.At.Wall, b.At.Wall) })
	return all
}

// since gives the lines from an instant on.
func (s *shelf) since(from memory.Instant) []fact.Log {
	return slices.DeleteFunc(s.all(), func(f fact.Log) bool { return f.At.Before(from) })
}

// longestLine is how much of one line is frozen.
const longestLine = 4 << 10

// choose keeps, of the lines of one service, as many as fit: first the errors and those about the memories that were found
// wanting, then those nearest to the fault. They stay in their order.
func choose(all []fact.Log, fault memory.Instant, about memory.Set, budget int, clean func(string) string) (kept []fact.Log, cut int) {
	type line struct {
		fact.Log
		n int
	}
	list := make([]line, len(all))
	for i, f := range all {
		list[i] = line{f, i}
	}
	rank := func(l line) int {
		if l.Level == "error" || l.Memory != 0 && about.Has(l.Memory) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b line) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.At.Sub(fault).Abs(), b.At.Sub(fault).Abs()))
	})
	n := 0
	for ; n < len(list); n++ {
		// Cleaned before it is cut: a secret that is cut in two is not known again.
		text := clean(list[n].Line)
		if len(text) > longestLine {
			text = strings.ToValidUTF8(text[:longestLine], "") + " …"
		}
		if budget -= len(text) + lineBytes; budget < 0 {
			break
		}
		list[n].Line = text
	}
	cut = len(list) - n
	list = list[:n]
	slices.SortFunc(list, func(a, b line) int { return cmp.Compare(a.n, b.n) })
	for _, l := range list {
		kept = append(kept, l.Log)
	}
	return kept, cut
}
