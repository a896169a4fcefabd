package zoo

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
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

// probe is the connection of a view to the app, which can be cut.
type probe struct {
	addr string // where the view finds the app
	to   string

	ln   net.Listener
	wg   sync.WaitGroup
	mu   sync.Mutex
	cut  bool
	open []net.Conn
}

func openProbe(ctx context.Context, addr, to string) (*probe, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	p := &probe{addr: addr, to: to, ln: ln}
	p.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return // closed
			}
			p.wg.Go(func() { p.carry(ctx, conn) })
		}
	})
	return p, nil
}

// carry lets one connection through, until it ends or is cut.
func (p *probe) carry(ctx context.Context, in net.Conn) {
	defer in.Close()
	out, err := new(net.Dialer).DialContext(ctx, "tcp", p.to)
	if err != nil {
		return // the app is down
	}
	defer out.Close()
	p.mu.Lock()
	if p.cut {
		p.mu.Unlock()
		return
	}
	p.open = append(p.open, in, out)
	p.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(out, in) // ends with the connection
		out.Close()
	})
	_, _ = io.Copy(in, out)
	in.Close()
	back.Wait()
}

// set cuts the connection, or lets it through again.
func (p *probe) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	if cut {
		p.end()
	}
}

func (p *probe) end() {
	for _, conn := range p.open {
		conn.Close()
	}
	p.open = nil
}

func (p *probe) close() error {
	err := p.ln.Close()
	p.set(true)
	p.wg.Wait()
	return err
}

// tap blinds the rig as the case has it, before a cycle begins, and passes facts on.
func (p *probe) tap(b *Blind, next func([]fact.Entry)) func([]fact.Entry) {
	return func(entries []fact.Entry) {
		for _, e := range entries {
			if c, ok := e.Fact.(fact.Cycle); ok && c.Phase == fact.PhaseTraffic {
				p.set(b.in(c.N))
			}
		}
		next(entries)
	}
}
