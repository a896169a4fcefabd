package oracle

import (
	"slices"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// Context is what a memory's own facts do not hold: contracts, faults and foreign deaths, the other writes of its user,
// calibration, and where the clocks cannot be trusted.
type Context struct {
	// Enough is how many acknowledged memories must be at stake before the fault for a cycle to be conclusive.
	Enough int
	// Doubt is how improbable bad answers must be until a memory that only they miss counts as lost (forgetful); 0.01
	// unless set.
	Doubt float64

	terms    []*terms
	faults   map[int64]*injection // planned, until they can matter to no live memory
	struck   []*injection         // those that fired, in order
	open     int                  // how many of struck are not over
	over     memory.Instant       // the latest end of an injection
	services map[string]*service
	deaths   []*death // foreign
	users    map[string]*user
	jump     memory.Instant // the end of the latest clock gap
	copies   map[shape]map[int]int
	learning int // the run's first control cycle while it is running, in which copies are calibrated; else 0
	learned  bool
	recalls  map[int]*recall // by cycle
}

// terms is one version of the contracts.
type terms struct {
	views      []contract
	levels     []string
	countsFrom string
}

// contract is what one view promises, with what is known of the service behind it.
type contract struct {
	memory.Contract
	by      *service
	touched memory.Instant // the latest end of an injection that touched the view
}

// touches reports whether a fault on a service may change what the view of k holds or shows. One that only stores are behind
// touches their views; of any other (the application, a worker) nobody knows where it writes, and where no user looks at
// the target nobody knows which service that is: it touches every view.
func (t *terms) touches(s *service, k *contract) bool {
	behind, users := false, false
	for i := range t.views {
		o := &t.views[i]
		if o.User && o.by == s {
			return true
		}
		behind, users = behind || o.by == s, users || o.User
	}
	return k.by == s || !behind || !users
}

// injection is one fault of ours, as an interval from firing to healthy.
type injection struct {
	plan     fact.Injection
	services []string
	fired    memory.Instant // zero: it never fired
	struck   memory.Instant // the engine had done it; zero: unknown
	reverted memory.Instant
	failed   memory.Instant
	closed   memory.Instant
	healthy  memory.Instant // the end of the interval; zero: open
	over     memory.Instant // healthy, or given up: from here the deadlines run
	proven   bool
	gated    gate
	refused  string
	failure  string
}

type gate int

const (
	gateUnread gate = iota
	gateGreen
	gateRed
)

func (i *injection) hits(service string) bool { return slices.Contains(i.services, service) }

// done reports whether no more is to come but the recovery of the services.
func (i *injection) done() bool {
	return !i.reverted.IsZero() || !i.failed.IsZero() || !i.closed.IsZero()
}

// death is a foreign death, as an interval.
type death struct {
	service   string
	instance  fact.Instance
	notBefore memory.Instant
	at        memory.Instant
	healthy   memory.Instant // zero: not back yet
}

// service is who runs as one service.
type service struct {
	who     []fact.Instance
	seen    memory.Instant // when who was read last
	healthy memory.Instant // last healthy reading
	sick    memory.Instant // last reading that was not
	over    memory.Instant // the latest recovery from a foreign death
	down    int            // foreign deaths that it has not recovered from
}

// user is the writes of one user, in the order in which they began.
type user struct {
	writes  []write
	dropped int // how many older writes are no longer in writes
	asked   []asked
	touched memory.Instant // the last write or deletion begun
}

type write struct {
	began   memory.Instant
	outcome memory.Outcome // empty while in flight
	ack     memory.Instant // zero: not acknowledged
	settled memory.Instant
}

// asked is the questions that one sweep of the view answer put to the user's assistant.
type asked struct {
	at memory.Instant
	n  int
}

func newContext() Context {
	return Context{
		Enough: 1, Doubt: 0.01, faults: map[int64]*injection{}, services: map[string]*service{}, users: map[string]*user{},
		copies: map[shape]map[int]int{}, recalls: map[int]*recall{},
	}
}

func (c *Context) service(name string) *service {
	s := c.services[name]
	if s == nil {
		s = &service{}
		c.services[name] = s
	}
	return s
}

func (c *Context) user(name string) *user {
	u := c.users[name]
	if u == nil {
		u = &user{}
		c.users[name] = u
	}
	return u
}

// contracts takes a new version in.
func (c *Context) contracts(f fact.Contracts) {
	t := &terms{levels: f.Levels, countsFrom: f.CountsFrom}
	for _, k := range f.Contracts {
		if k.Service == "" {
			k.Service = k.View
		}
		t.views = append(t.views, contract{k, c.service(k.Service), c.over})
	}
	c.terms = append(c.terms, t)
}

// current is the version in force; the zero one, which promises nothing, before the first.
func (c *Context) current() *terms {
	if n := len(c.terms); n > 0 {
		return c.terms[n-1]
	}
	return &terms{}
}

// step moves an injection to its next station and gives it.
func (c *Context) step(f fact.Step) *injection {
	i := c.faults[f.Injection]
	if i == nil {
		i = &injection{plan: fact.Injection{ID: f.Injection}}
		c.faults[f.Injection] = i
	}
	if f.Plan != nil {
		i.plan = *f.Plan
		i.plan.Undo = nil // the engines' own
		i.services = f.Plan.Services
		if len(i.services) == 0 && f.Plan.Service != "" {
			i.services = []string{f.Plan.Service}
		}
	}
	switch f.Name {
	case fact.StepGated:
		i.gated = green(f.Before)
	case fact.StepFiring:
		if i.plan.DryRun || !i.fired.IsZero() {
			break
		}
		i.fired = f.At
		c.struck = append(c.struck, i)
		c.open++
	case fact.StepInjected:
		i.struck = f.At
		i.let(f.Fired)
	case fact.StepProven:
		i.proven = true
	case fact.StepReverted:
		i.reverted = f.At
		if !i.over.IsZero() {
			c.finish(i, f.At) // an undo touches the service once more
		}
	case fact.StepRecovered:
		c.recovered(i, f.At)
	case fact.StepClosed:
		i.closed = f.At
	case fact.StepRefused:
		i.refused = f.Detail
	case fact.StepFailed:
		i.failed, i.failure = f.At, f.Detail
		i.let(f.Fired)
	}
	// Given up: the deadlines run from here, though the services may still be down.
	if !i.fired.IsZero() && i.over.IsZero() && (!i.closed.IsZero() || (!i.failed.IsZero() && !i.reverted.IsZero())) {
		c.finish(i, f.At)
	}
	return i
}

// let corrects the firing from "the journal is about to hold it" to the moment at which the fault was let loose.
func (i *injection) let(fired memory.Instant) {
	if !i.fired.IsZero() && !fired.IsZero() {
		i.fired = fired
	}
}

func (c *Context) recovered(i *injection, at memory.Instant) {
	if !i.fired.IsZero() {
		i.healthy = memory.Later(i.healthy, at)
		c.finish(i, at)
	}
}

// finish ends the waiting for an injection, or moves that end.
func (c *Context) finish(i *injection, at memory.Instant) {
	if i.over.IsZero() {
		c.open--
	}
	i.over = memory.Later(i.over, at)
	c.over = memory.Later(c.over, at)
	for _, t := range c.terms {
		for n := range t.views {
			k := &t.views[n]
			if len(i.services) == 0 || slices.ContainsFunc(i.services, func(name string) bool { return t.touches(c.service(name), k) }) {
				k.touched = memory.Later(k.touched, at)
			}
		}
	}
}

// giveUp ends the waiting for injections of cycles before n: nothing new is told while an earlier cycle is unjudged, so
// no step of theirs is to come.
func (c *Context) giveUp(n int, at memory.Instant) {
	if c.open == 0 {
		return
	}
	for _, i := range c.struck {
		if i.over.IsZero() && i.plan.Cycle < n {
			c.finish(i, at)
		}
	}
}

func green(services []fact.Health) gate {
	for _, h := range services {
		if !h.Healthy {
			return gateRed
		}
	}
	if len(services) == 0 {
		return gateUnread
	}
	return gateGreen
}

// reading takes in one reading of a service: who it is, and whether it answers.
func (c *Context) reading(h *fact.Health, at memory.Instant) {
	if h == nil {
		return
	}
	if !h.At.IsZero() {
		at = h.At
	}
	s := c.service(h.Service)
	if len(h.Instances) > 0 {
		if died, who := gone(s.who, h.Instances); died && !c.explained(h.Service, s.seen, at) {
			d := &death{service: h.Service, instance: who, notBefore: s.seen, at: at}
			c.deaths = append(c.deaths, d)
			s.down++
		}
		s.who, s.seen = h.Instances, at
	}
	if h.Healthy {
		c.healthy(h.Service, at)
	} else if !h.Unread {
		s.sick = memory.Later(s.sick, at)
	}
}

// gone reports whether an instance of was is not among is any more. One more instance is no death.
func gone(was, is []fact.Instance) (bool, fact.Instance) {
	for _, w := range was {
		if !slices.Contains(is, w) {
			return true, w
		}
	}
	return false, fact.Instance{}
}

// explained reports whether an injection of ours, or a death already known, explains a change of the service's
// identity between from and to.
func (c *Context) explained(service string, from, to memory.Instant) bool {
	for _, i := range c.struck {
		if i.hits(service) && !i.fired.After(to) && (i.healthy.IsZero() || !i.healthy.Before(from)) {
			return true
		}
	}
	for _, d := range c.deaths {
		if d.service == service && !d.notBefore.After(to) && !d.at.Before(from) {
			return true
		}
	}
	return false
}

// healthy ends what was waiting for the service to answer again.
func (c *Context) healthy(name string, at memory.Instant) {
	s := c.service(name)
	s.healthy = memory.Later(s.healthy, at)
	if s.down > 0 {
		for _, d := range c.deaths {
			if d.service == name && d.healthy.IsZero() && !at.Before(d.at) {
				c.back(d, at)
			}
		}
	}
	for _, i := range c.struck {
		if i.healthy.IsZero() && i.done() && i.hits(name) && c.allHealthy(i) {
			c.recovered(i, at)
		}
	}
}

// allHealthy reports whether every service of an injection has answered since it was done with.
func (c *Context) allHealthy(i *injection) bool {
	since := i.reverted
	if since.IsZero() {
		since = memory.Later(i.struck, i.fired)
	}
	for _, name := range i.services {
		if h := c.service(name).healthy; h.IsZero() || h.Before(since) {
			return false
		}
	}
	return true
}

func (c *Context) back(d *death, at memory.Instant) {
	d.healthy = at
	s := c.service(d.service)
	s.down--
	s.over = memory.Later(s.over, at)
}

// died takes in a foreign death, or the news that the service is back from it.
func (c *Context) died(f fact.Death) {
	s := c.service(f.Service)
	var d *death
	for _, known := range c.deaths {
		if known.service == f.Service && known.instance == f.Instance && !known.at.Before(f.NotBefore) {
			d = known
		}
	}
	if d == nil {
		d = &death{service: f.Service, instance: f.Instance, notBefore: f.NotBefore, at: f.At}
		c.deaths = append(c.deaths, d)
		s.down++
	}
	if !f.Healthy.IsZero() {
		if d.healthy.IsZero() {
			c.back(d, f.Healthy)
		} else {
			s.over = memory.Later(s.over, f.Healthy)
		}
	}
}

// gap takes in a stretch in which the clock could not be trusted.
func (c *Context) gap(f fact.Gap) {
	if f.Of == "clock" {
		c.jump = memory.Later(c.jump, f.To)
	}
}

// forgetBefore drops what ended before at, when no live memory is older. What may yet explain a change of identity stays
// until the service has been read again.
func (c *Context) forgetBefore(at memory.Instant) {
	c.struck = slices.DeleteFunc(c.struck, func(i *injection) bool {
		gone := !i.healthy.IsZero() && i.healthy.Before(at) && !slices.ContainsFunc(i.services, func(name string) bool {
			s := c.services[name]
			return s != nil && len(s.who) > 0 && s.seen.Before(i.healthy)
		})
		if gone {
			delete(c.faults, i.plan.ID)
		}
		return gone
	})
	for id, i := range c.faults {
		if i.fired.IsZero() && (!i.closed.IsZero() || i.refused != "") {
			delete(c.faults, id)
		}
	}
	c.deaths = slices.DeleteFunc(c.deaths, func(d *death) bool {
		s := c.service(d.service)
		return !d.healthy.IsZero() && d.healthy.Before(at) && (len(s.who) == 0 || !s.seen.Before(d.at))
	})
}
