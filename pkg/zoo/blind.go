package zoo

import (
	"fmt"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
	"amnesia/pkg/view/viewtest"
)

// Blind is a rig that cannot see: the connection of a view's probe is cut while whole cycles run. What the view would have
// shown nobody knows then.
type Blind struct {
	View        string // vectors
	From, Until int    // cycles; Until is the first that can be seen again, 0: none is
}

// in reports whether the rig is blind in a cycle.
func (b *Blind) in(cycle int) bool {
	return b != nil && cycle >= b.From && (b.Until == 0 || cycle < b.Until)
}

// check holds that no cycle counts as passed in which the rig was blind.
func (b *Blind) check(c *chronicle) error {
	for _, cy := range c.closed {
		if b.in(cy.N) && cy.Outcome != fact.CycleInconclusive && cy.Outcome != fact.CycleLosses {
			return fmt.Errorf("cycle %d is %s, and the rig was blind in it", cy.N, cy.Outcome)
		}
	}
	return nil
}

// unseen reports whether the view was blind when it was last read for the memory.
func (c *chronicle) unseen(b *Blind, id memory.ID) bool {
	last := 0
	for i := range c.sweeps {
		if s := &c.sweeps[i]; b != nil && s.View == b.View && s.Read.Has(id) {
			last = s.Cycle
		}
	}
	return b.in(last)
}

// tap cuts what the view reads through, as the case has it, before a cycle begins, and passes facts on.
func (b *Blind) tap(p *viewtest.Proxy, next func([]fact.Entry)) func([]fact.Entry) {
	return func(entries []fact.Entry) {
		for _, e := range entries {
			if c, ok := e.Fact.(fact.Cycle); !ok || c.Phase != fact.PhaseTraffic {
				continue
			} else if b.in(c.N) {
				p.Cut(0)
			} else {
				p.Mend()
			}
		}
		next(entries)
	}
}
