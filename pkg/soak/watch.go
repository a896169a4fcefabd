package soak

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"

	"go.uber.org/zap"

	"amnesia/chaos"
	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

const (
	// errorsPerSecond bounds the error lines that are kept beside those with a token of ours, and tokensPerSecond those.
	errorsPerSecond = 20
	tokensPerSecond = 200
	// oomApart is the most that can lie between a kill for want of memory and the death by it.
	oomApart = 5 * time.Second
	// linesWaiting is how many lines that are to be kept may wait for the ledger.
	linesWaiting = 1024
)

// followEvents turns deaths that were not ours into facts, and brings the service back as its operator would.
func (l *Loop) followEvents(ctx context.Context, events <-chan chaos.Event) {
	oom := map[string]chaos.Event{} // the last of each service; no death by itself: the kernel may have killed a child
	last := map[string]fact.Instance{}
	for e := range events {
		if l.Freezer != nil {
			l.Freezer.Event(fact.ServiceEvent{Service: e.Service, Kind: e.Kind, Exit: e.Exit, Ours: e.Ours, Instance: e.Instance, At: e.At})
		}
		if e.Kind == "oom" {
			oom[e.Service] = e
		}
		if e.Ours || e.Kind != "die" || last[e.Service] == e.Instance {
			continue
		}
		last[e.Service] = e.Instance
		d := fact.Death{Service: e.Service, Instance: e.Instance, Cause: cause(e, oom[e.Service]), NotBefore: l.lastGate(), At: l.Clock.Now()}
		l.Log.Warn("a service died that we did not hurt", zap.String("service", e.Service), zap.String("cause", d.Cause), zap.Int("exit", e.Exit))
		if err := l.Ledger.Append(ctx, d); err != nil {
			l.Log.Error("could not record a foreign death", zap.Error(err))
			continue
		}
		if s, ok := l.Engine.(chaos.Starter); ok {
			if err := s.Start(ctx, e.Service); err != nil {
				l.Log.Error("could not start a service that died", zap.String("service", e.Service), zap.Error(err))
				continue
			}
		}
		if h := l.await(ctx, e.Service); h.Healthy {
			d.Healthy = h.At
			if err := l.Ledger.Append(ctx, d); err != nil {
				l.Log.Error("could not record a recovery", zap.Error(err))
			}
		}
	}
}

// cause tells why an instance died, given the last time that the kernel killed it, or a part of it, for want of memory.
func cause(died, oom chaos.Event) string {
	switch {
	case died.Exit != 137 && died.Exit != -9: // no SIGKILL
		return "exit"
	case died.Instance == oom.Instance && died.At.Sub(oom.At).Abs() < oomApart:
		return "oom"
	}
	return "external"
}

// followLogs keeps the lines that carry a token of ours, and errors, both up to a rate. It reads on while the ledger
// writes: the noise of one service must not crowd out the lines of another.
func (l *Loop) followLogs(ctx context.Context, lines <-chan chaos.Line) {
	kept := make(chan fact.Fact, linesWaiting)
	var writing sync.WaitGroup
	writing.Go(func() { l.keepLines(ctx, kept) })
	defer writing.Wait()
	defer close(kept)
	var second int64
	var errs, tokens int
	for line := range lines {
		level := logLevel(line.Text)
		id := l.tokenIn(line.Text)
		now := l.Clock.Now()
		f := fact.Log{Service: line.Service, Level: level, Line: line.Text, Memory: id, At: now.Add(-time.Duration(now.Wall - line.At.UnixNano()))}
		if l.Freezer != nil {
			l.Freezer.Line(f)
		}
		if id == 0 && level != "error" {
			continue
		}
		if s := line.At.Unix(); s != second {
			second, errs, tokens = s, 0, 0
		}
		if id == 0 {
			if errs++; errs > errorsPerSecond {
				continue
			}
		} else if tokens++; tokens > tokensPerSecond {
			l.unkept.Add(1)
			continue
		}
		select {
		case kept <- f:
		default:
			l.unkept.Add(1)
		}
	}
}

// keepLines records what waits, all that waits at once.
func (l *Loop) keepLines(ctx context.Context, kept <-chan fact.Fact) {
	for f := range kept {
		batch := []fact.Fact{f}
		for len(kept) > 0 {
			batch = append(batch, <-kept)
		}
		if err := l.lastAppend(ctx, batch...); err != nil {
			l.Log.Error("could not keep log lines", zap.Int("lines", len(batch)), zap.Error(err))
		}
	}
}

// logLevel reads the level of a structured line, or guesses it from the upper-case word that most loggers write.
func logLevel(line string) string {
	if strings.HasPrefix(line, "{") {
		var j struct {
			Level    string `json:"level"`
			Severity string `json:"severity"`
			Lvl      string `json:"lvl"`
		}
		if json.Unmarshal([]byte(line), &j) == nil {
			switch s := strings.ToLower(j.Level + j.Severity + j.Lvl); s {
			case "fatal", "panic", "critical", "crit", "dpanic", "emergency", "alert":
				return "error"
			case "warning":
				return "warn"
			default:
				return s
			}
		}
	}
	head := line[:min(len(line), 120)]
	for _, w := range strings.FieldsFunc(head, func(r rune) bool { return !unicode.IsLetter(r) }) {
		switch w {
		case "ERROR", "FATAL", "PANIC", "CRITICAL":
			return "error"
		case "WARN", "WARNING":
			return "warn"
		case "INFO", "DEBUG":
			return strings.ToLower(w)
		}
	}
	return ""
}

// tokenIn finds the first token of a live memory among the words of a line. The letters of an escape (\n, \u0022) are no
// part of the word that follows them.
func (l *Loop) tokenIn(line string) memory.ID {
	l.mu.Lock()
	defer l.mu.Unlock()
	plain := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
	for part := range strings.SplitSeq(line, `\\`) { // an escaped backslash begins no escape
		for i, text := range strings.Split(part, `\`) {
			if i > 0 {
				text = escapes.ReplaceAllString(text, " ")
			}
			for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !plain(r) }) {
				if id, ok := l.tokens[w]; ok {
					return id
				}
			}
		}
	}
	return 0
}

// escapes are the letters after a backslash in JSON and Go.
var escapes = regexp.MustCompile(`^([abfnrtv]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})`)
