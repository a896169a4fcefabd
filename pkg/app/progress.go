package app

import (
	"fmt"
	"sync"

	"github.com/schollz/progressbar/v3"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// progress draws a bar of cycles on a terminal, and elsewhere says nothing.
type progress struct {
	name string

	mu           sync.Mutex
	bar          *progressbar.ProgressBar // nil: not a terminal
	acknowledged int
	lost         map[memory.ID]bool
}

func (c Console) progress(name string, cycles int) *progress {
	p := &progress{name: name, lost: map[memory.ID]bool{}}
	if c.Progress != nil {
		p.bar = progressbar.NewOptions(cycles, progressbar.OptionSetWriter(c.Progress), progressbar.OptionSetWidth(30),
			progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionSetDescription(name))
	}
	return p
}

// tap counts what the facts say.
func (p *progress) tap(entries []fact.Entry) {
	if p.bar == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range entries {
		switch f := e.Fact.(type) {
		case fact.Settled:
			if f.Outcome == memory.Acknowledged {
				p.acknowledged++
			}
		case fact.Judged:
			if f.Verdict.Alarming() {
				p.lost[f.Verdict.Memory] = true
			}
		case fact.Cycle:
			p.bar.Describe(fmt.Sprintf("%s: %d acknowledged, %d lost, cycle %d: %s", p.name, p.acknowledged, len(p.lost), f.N, f.Phase))
			if f.Phase == fact.PhaseClosed {
				_ = p.bar.Add(1) // a terminal that is gone is no reason to stop
			}
		}
	}
}

func (p *progress) close() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
