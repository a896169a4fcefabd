package oracle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

const (
	present    = memory.Present
	absent     = memory.Absent
	altered    = memory.Altered
	unreadable = memory.Unreadable
)

// want is what a test cares for.
type want struct {
	Kind    memory.Kind
	Class   memory.Class
	Fault   string
	Service string
	Level   string
	Defects []memory.Defect
	Open    bool
	During  bool
}

func got(v memory.Verdict) want {
	return want{v.Kind, v.Class, v.Fault, v.Service, v.Level, v.Defects, v.Open, v.During}
}

func defects(ds ...memory.Defect) []memory.Defect { return ds }

// silent is a silent loss without a cause, of a memory acknowledged up to the last level.
func silent(kind memory.Kind, service string) want {
	return want{Kind: kind, Class: memory.Silent, Fault: memory.FaultNone, Service: service, Level: "settled"}
}

// open says that some view is still tried again.
func open(w want) want {
	w.Open = true
	return w
}

// clause is an example of one: what the tape says, and what the judge has to say of m1 at its end.
type clause struct {
	name  string
	views []memory.Contract // default: the stack
	tape  func(p *tape)
	want  want
}

func TestClauses(t *testing.T) {
	check(t, []clause{
		// §1 The write.
		{"1 a rejected write that is nowhere is no loss", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Rejected, 2)
			p.all(absent, 20, 40)
		}, want{Kind: memory.Indeterminate}},
		{"1 an unknown write that is nowhere is no loss", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2)
			p.all(absent, 20, 40)
		}, want{Kind: memory.Indeterminate}},
		{"1 a write that never settled is unknown", nil, func(p *tape) {
			p.begin(1, 1)
			p.all(absent, 20, 40)
		}, want{Kind: memory.Indeterminate}},
		{"1 a level before counts_from does not count", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2, p.level("shown", 1.9))
			p.all(absent, 20, 40)
		}, want{Kind: memory.Indeterminate}},
		{"1 a level at counts_from counts though the outcome is unknown", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2, p.level("settled", 2))
			p.all(absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"1 without levels the outcome is the acknowledgement", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Acknowledged, 2)
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: memory.FaultNone, Service: "db"}},
		{"1 a rejected write that a fresh page shows is observed", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Rejected, 2)
			p.all(present, 20)
			p.all(absent, 30, 50)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: memory.FaultNone, Service: "db", Level: memory.LevelObserved}},
		{"1 absences before it was observed say nothing", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2)
			p.read("db", absent, 20, 40)
			p.read("page", present, 50)
			p.read("db", absent, 70)
		}, want{Kind: memory.Unverified, Open: true}},
		{"1 a returning browser observes nothing", append(stack(), look("returning")), func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2)
			p.read("returning", present, 20)
			p.all(absent, 30, 50)
		}, want{Kind: memory.Indeterminate}},
		{"1 a deletion that held", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.forget(1, 5, memory.Acknowledged)
			p.all(absent, 20)
		}, want{Kind: memory.Released}},

		// §2 The observation.
		{"2 absent before the acknowledgement is no evidence", nil, func(p *tape) {
			p.begin(1, 1)
			p.all(absent, 1.5)
			p.settle(1, memory.Acknowledged, 30, p.level("settled", 30))
			p.all(absent, 60)
		}, want{Kind: memory.Unverified, Open: true}},
		{"2 a read that began before the acknowledgement is no evidence", nil, func(p *tape) {
			p.tell(1, 1)
			for _, view := range []string{"db", "vec", "redis", "page"} {
				f := p.swept(view, 1.5, obs(1, absent))
				f.Ended = p.at(20)
				p.add(f)
			}
			p.all(absent, 30)
		}, want{Kind: memory.Unverified, Open: true}},
		{"2 an incomplete read proves no absence", nil, func(p *tape) {
			p.tell(1, 1)
			for _, at := range []float64{20, 40} {
				for _, view := range []string{"db", "vec", "redis", "page"} {
					f := p.swept(view, at, obs(1, absent))
					f.Complete = false
					p.add(f)
				}
			}
		}, want{Kind: memory.Unverified, Open: true}},
		{"2 a read with an error proves no absence", nil, func(p *tape) {
			p.tell(1, 1)
			for _, at := range []float64{20, 40} {
				for _, view := range []string{"db", "vec", "redis", "page"} {
					f := p.swept(view, at, obs(1, absent))
					f.Error = "cut off"
					p.add(f)
				}
			}
		}, want{Kind: memory.Unverified, Open: true}},
		{"2 unhealthy before proves no absence", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			for _, at := range []float64{20, 40} {
				f := p.swept("db", at, obs(1, absent))
				f.Before, f.After = p.health("db", "a", at, false), p.health("db", "a", at+.1, true)
				p.add(f)
			}
		}, want{Kind: memory.Unverified, Open: true}},
		{"2 unhealthy after proves no absence", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			for _, at := range []float64{20, 40} {
				f := p.swept("db", at, obs(1, absent))
				f.Before, f.After = p.health("db", "a", at, true), p.health("db", "a", at+.1, false)
				p.add(f)
			}
		}, want{Kind: memory.Unverified, Open: true}},
		{"2 another identity after proves no absence", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			f := p.swept("db", 20, obs(1, absent))
			f.Before, f.After = p.health("db", "a", 20, true), p.health("db", "b", 20.1, true)
			p.add(f)
			p.read("db", absent, 40)
		}, want{Kind: memory.Unverified, Open: true}},
		{"2 health known on one side only proves no absence", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			for _, at := range []float64{20, 40} {
				f := p.swept("db", at, obs(1, absent))
				f.Before = p.health("db", "a", at, true)
				p.add(f)
			}
		}, want{Kind: memory.Unverified, Open: true}},
		{"2 a view without a service needs no health", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"2 altered counts as present", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(altered, 3)
		}, want{Kind: memory.Kept, Defects: defects(memory.AlteredText)}},
		{"2 a returning browser is never evidence", append(stack(), look("returning")), func(p *tape) {
			p.tell(1, 1)
			p.all(absent, 20, 40)
			p.read("returning", present, 41)
		}, silent(memory.Lost, "db")},
		{"2 members of Read without a row were read again as before", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 20)
			f := p.swept("db", 40)
			f.Read = memory.SetOf(1)
			p.add(f)
		}, silent(memory.Lost, "db")},
		{"2 those that are no members were not read", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 20)
			f := p.swept("db", 40)
			f.Read = memory.SetOf(2)
			p.add(f)
		}, want{Kind: memory.Unverified, Open: true}},

		// §3 The contract.
		{"3 an empty cache is excused", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.read("redis", absent, 20, 40)
		}, want{Kind: memory.Kept}},
		{"3 a cache that holds four of five is torn", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			for _, at := range []float64{20, 40} {
				o := obs(1, absent)
				o.Siblings = 4
				p.add(p.swept("redis", at, o))
			}
		}, silent(memory.Torn, "redis")},
		{"3 others of the user in the same sweep are siblings too", nil, func(p *tape) {
			p.tell(1, 1)
			p.tell(2, 1)
			p.all(present, 3)
			for _, at := range []float64{20, 40} {
				p.add(p.swept("redis", at, obs(1, absent), obs(2, present)))
			}
		}, silent(memory.Torn, "redis")},
		{"3 a cache that lost one of its user and then all is excused", nil, func(p *tape) {
			p.tell(1, 1)
			p.tell(2, 1)
			p.all(present, 3)
			p.add(p.swept("redis", 20, obs(1, absent), obs(2, present)))
			p.add(p.swept("redis", 40, obs(1, absent), obs(2, absent)))
		}, want{Kind: memory.Kept}},
		{"3 a cache must be readable before it is excused", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.read("redis", unreadable, 20)
		}, want{Kind: memory.Unverified, Open: true}},
		{"3 a TTL that is over releases", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second}}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 3)
			p.read("db", absent, 102, 120)
		}, want{Kind: memory.Released}},
		{"3 gone before its TTL is a loss and expired early", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second}}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 3)
			p.read("db", absent, 30, 50)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: memory.FaultNone, Service: "db", Level: "settled", Defects: defects(memory.ExpiredEarly)}},
		{"3 ttl_slack shortens what must be", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second, Slack: 60 * time.Second}}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 3)
			p.read("db", absent, 42, 60)
		}, want{Kind: memory.Released}},
		{"3 last_write: a later write renews", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second, TTLFrom: memory.TTLFromLastWrite}}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 3)
			p.tell(2, 50)
			p.read("db", absent, 110, 120)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: memory.FaultNone, Service: "db", Level: "settled", Defects: defects(memory.ExpiredEarly)}},
		{"3 last_write: a write that is not acknowledged renews nothing", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second, TTLFrom: memory.TTLFromLastWrite}}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 3)
			p.begin(2, 50)
			p.settle(2, memory.Unknown, 51)
			p.read("db", absent, 110, 120)
		}, want{Kind: memory.Released}},
		{"3 write: a later write renews nothing", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second}}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 3)
			p.tell(2, 50)
			p.read("db", absent, 110, 120)
		}, want{Kind: memory.Released}},
		{"3 last_access: judged by the remaining TTL that was read", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second, TTLFrom: memory.TTLFromLastAccess}}, func(p *tape) {
			p.tell(1, 1)
			o := obs(1, present)
			o.TTL = 99_000
			p.add(p.swept("db", 90, o))
			p.read("db", absent, 150, 170)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: memory.FaultNone, Service: "db", Level: "settled", Defects: defects(memory.ExpiredEarly)}},
		{"3 last_access: after the remaining TTL nothing is owed", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second, TTLFrom: memory.TTLFromLastAccess}}, func(p *tape) {
			p.tell(1, 1)
			o := obs(1, present)
			o.TTL = 99_000
			p.add(p.swept("db", 90, o))
			p.read("db", absent, 190, 210)
		}, want{Kind: memory.Released}},
		{"3 keep_last: as many later writes release", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, KeepLast: 2}}, func(p *tape) {
			p.tell(1, 1)
			p.tell(2, 3)
			p.begin(3, 5)
			p.settle(3, memory.Unknown, 6)
			p.read("db", absent, 20, 40)
		}, want{Kind: memory.Released}},
		{"3 keep_last: fewer do not", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, KeepLast: 2}}, func(p *tape) {
			p.tell(1, 1)
			p.tell(2, 3)
			p.begin(3, 5)
			p.settle(3, memory.Rejected, 6)
			p.read("db", absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"3 keep_last: what a write in flight might have pushed out is asked for again when that is refused", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, KeepLast: 1}}, func(p *tape) {
			p.tell(1, 1)
			p.begin(2, 3)
			p.read("db", absent, 20)
			p.settle(2, memory.Rejected, 30)
		}, want{Kind: memory.Unverified, Open: true}},
		{"3 keep_last: a write in flight may have pushed it out", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, KeepLast: 1}}, func(p *tape) {
			p.tell(1, 1)
			p.begin(2, 5)
			p.read("db", absent, 20, 40)
		}, want{Kind: memory.Released}},
		{"3 keep_unit message: answers count", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, KeepLast: 3, KeepUnit: "message"}}, func(p *tape) {
			p.tell(1, 1)
			p.tell(2, 3)
			p.read("db", absent, 20, 40)
		}, want{Kind: memory.Released}},
		{"3 keep_unit message: one write of four messages leaves it", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, KeepLast: 4, KeepUnit: "message"}}, func(p *tape) {
			p.tell(1, 1)
			p.tell(2, 3)
			p.read("db", absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"3 keep_unit message: our own questions count", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, KeepLast: 6, KeepUnit: "message"}, look("answer")}, func(p *tape) {
			p.tell(1, 1)
			p.read("answer", present, 5)
			p.fault(1, "kill", "app", 10, 11)
			p.read("db", absent, 30, 50)
		}, want{Kind: memory.Released}},
		{"3 a begun forget makes it may", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.forget(1, 5, "")
			p.all(absent, 20, 40)
		}, want{Kind: memory.Released}},
		{"3 a rejected forget may still land", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.forget(1, 5, memory.Rejected)
			p.all(absent, 20, 40)
		}, want{Kind: memory.Released}},
		{"3 present within settle of a forget is no defect", nil, func(p *tape) {
			p.tell(1, 1)
			p.forget(1, 5, memory.Acknowledged)
			p.all(present, 15)
		}, want{Kind: memory.Released, Open: true}},
		{"3 settle: absent twice within it is no loss", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(absent, 3, 11)
		}, want{Kind: memory.Unverified, Open: true}},
		{"3 settle: one absent read after it is no loss", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(absent, 20)
		}, want{Kind: memory.Unverified, Open: true}},
		{"3 settle: two absent reads, the last after it, are a loss", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(absent, 3, 13)
		}, silent(memory.Lost, "db")},
		{"3 settle: a read that began before the deadline and ended after it does not count", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(absent, 3)
			for _, view := range []string{"db", "vec", "redis", "page"} {
				f := p.swept(view, 11.9, obs(1, absent))
				f.Ended = p.at(30)
				p.add(f)
			}
		}, want{Kind: memory.Unverified, Open: true}},
		{"3 settle counts from the recovery", nil, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 5, 20)
			p.all(absent, 21, 29)
		}, want{Kind: memory.Unverified, Open: true}},
		{"3 settle: no deadline while the target is down", nil, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 5, 0)
			p.all(absent, 21, 60)
		}, want{Kind: memory.Unverified, Open: true}},
		{"3 settle is begun anew by a further death of the view's service", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 5)
			p.add(fact.Death{Service: "db", Cause: "oom", NotBefore: p.at(6), At: p.at(6), Healthy: p.at(8)})
			p.read("db", absent, 17)
		}, want{Kind: memory.Unverified, Open: true}},
		{"3 settle is not begun anew by the death of another service", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 5)
			p.add(fact.Death{Service: "vec", Cause: "oom", NotBefore: p.at(6), At: p.at(6), Healthy: p.at(8)})
			p.read("db", absent, 17)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: memory.FaultForeign, Service: "vec", Level: "settled"}},
		{"3 a proof stands when the promise ends", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(absent, 20, 40)
			p.forget(1, 50, memory.Acknowledged)
			p.all(absent, 70)
		}, silent(memory.Lost, "db")},
		{"3 a contract holds for the memories that were begun under it", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.contracts(cache("db"))
			p.read("db", absent, 20, 40)
		}, silent(memory.Lost, "db")},

		// §4 The verdicts.
		{"4.1 recovered if a store has it", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2)
			p.read("db", present, 20)
		}, want{Kind: memory.Indeterminate}},
		{"4.9 kept: a fault on one store touches no other, and not the page", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.fault(1, "kill", "db", 5, 6)
			p.read("db", present, 7)
		}, want{Kind: memory.Kept}},
		{"4.9 a store that was struck is to be read again", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.fault(1, "kill", "db", 5, 6)
			for _, view := range []string{"vec", "redis", "page"} {
				p.read(view, present, 7)
			}
		}, want{Kind: memory.Unverified, Open: true}},
		{"4.9 a fault on the service that users talk to touches every view", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.fault(1, "kill", "app", 5, 6)
			for _, view := range []string{"vec", "redis", "page"} {
				p.read(view, present, 7)
			}
		}, want{Kind: memory.Unverified, Open: true}},
		{"4.9 a fault on a service without a view touches every view", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.fault(1, "kill", "worker", 5, 6)
			for _, view := range []string{"vec", "redis", "page"} {
				p.read(view, present, 7)
			}
		}, want{Kind: memory.Unverified, Open: true}},
		{"4.9 where no user looks every fault touches every view", []memory.Contract{store("db"), store("vec")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 3)
			p.read("vec", present, 3)
			p.fault(1, "kill", "db", 5, 6)
			p.read("db", present, 7)
		}, want{Kind: memory.Unverified, Open: true}},
		{"4.9 a death of its own service makes a view unread, whoever was struck", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.add(fact.Death{Service: "vec", Cause: "oom", NotBefore: p.at(4), At: p.at(4), Healthy: p.at(5)})
		}, want{Kind: memory.Unverified, Open: true}},
		{"4.9 what is missing in one view is not judged on an old reading of another", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.fault(1, "wipe", "db", 5, 6)
			p.read("db", absent, 20, 40)
		}, want{Kind: memory.Unverified, Open: true}},
		{"4.5 torn once the others were read after the fault", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.fault(1, "kill", "db", 5, 6)
			p.read("db", absent, 20, 40)
			for _, view := range []string{"vec", "redis", "page"} {
				p.read(view, present, 41)
			}
		}, want{Kind: memory.Torn, Class: memory.Silent, Fault: "kill", Service: "db", Level: "settled"}},
		{"4.7 an answer is evidence until the next fault, whatever that strikes", []memory.Contract{store("db"), look("page"), look("answer")}, func(p *tape) {
			p.add(fact.Begun{Memory: memory.Memory{ID: 1, User: "ann", Cycle: 1, Views: []string{"answer"}}, At: p.at(1)})
			p.settle(1, memory.Acknowledged, 2, p.level("shown", 1.9), p.level("settled", 2))
			p.read("answer", present, 3)
			p.fault(1, "kill", "db", 5, 6)
		}, want{Kind: memory.Released}},
		{"4.3 volatile: only the page has it", nil, func(p *tape) {
			p.tell(1, 1)
			for _, view := range []string{"db", "vec", "redis"} {
				p.read(view, absent, 20, 40)
			}
			p.read("page", present, 41)
		}, want{Kind: memory.Volatile}},
		{"4.3 volatile: without a page, only a cache has it", []memory.Contract{store("db"), cache("redis")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 20, 40)
			p.read("redis", present, 41)
		}, want{Kind: memory.Volatile}},
		{"4.3 a cache does not save what the page misses", []memory.Contract{store("db"), cache("redis"), look("page")}, func(p *tape) {
			p.tell(1, 1)
			p.all(absent, 20, 40)
			p.read("redis", present, 41)
		}, silent(memory.Lost, "db")},
		{"4.4 lost: without store views the page decides", []memory.Contract{look("page")}, func(p *tape) {
			p.tell(1, 1)
			p.read("page", absent, 20, 40)
		}, silent(memory.Lost, "app")},
		{"4.4 lost: with an excused cache the page decides", []memory.Contract{cache("redis"), look("page")}, func(p *tape) {
			p.tell(1, 1)
			p.read("redis", absent, 20, 40)
			p.read("page", absent, 20, 40)
		}, silent(memory.Lost, "app")},
		{"4.4 not lost while the page is unreadable", nil, func(p *tape) {
			p.tell(1, 1)
			for _, view := range []string{"db", "vec", "redis"} {
				p.read(view, absent, 20, 40)
			}
			p.read("page", unreadable, 41)
		}, want{Kind: memory.Unverified, Open: true}},
		{"4.5 torn: one store misses it", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 20)
			p.read("vec", absent, 30, 50)
		}, silent(memory.Torn, "vec")},
		{"4.5 torn is not hidden by a third view that is unreadable", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 20)
			p.read("vec", absent, 30, 50)
			p.read("page", unreadable, 51)
		}, open(silent(memory.Torn, "vec"))},
		{"4.5 a proven loss is not hidden when all else turns unreadable", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 20)
			p.read("vec", absent, 30, 50)
			p.all(unreadable, 60)
		}, open(silent(memory.Torn, "vec"))},
		{"4.6 hidden: the stores have it, the page does not", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 20)
			p.read("page", absent, 30, 50)
		}, silent(memory.Hidden, "app")},
		{"4.7 unverified: never read", nil, func(p *tape) {
			p.tell(1, 1)
		}, want{Kind: memory.Unverified, Open: true}},
		{"4.7 unverified: one view unreadable", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 20)
			p.read("vec", unreadable, 30)
		}, want{Kind: memory.Unverified, Open: true}},
		{"4.7 unverified: unreadable never ages into a loss", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(unreadable, 3, 20, 40, 1000)
		}, want{Kind: memory.Unverified, Open: true}},
		{"4.7 unverified: not read since the last fault", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.fault(1, "kill", "app", 5, 6)
		}, want{Kind: memory.Unverified, Open: true}},
		{"4.7 unreadable reads between two absent ones change nothing", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 20)
			p.read("db", unreadable, 30)
			p.read("db", absent, 40)
		}, silent(memory.Lost, "db")},
		{"4.7 an answer that was never asked is no gap", append(stack(), look("answer")), func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
		}, want{Kind: memory.Kept}},
		{"4.7 nor one that was not asked since the last fault", append(stack(), look("answer")), func(p *tape) {
			p.tell(1, 1)
			p.read("answer", absent, 3)
			p.fault(1, "kill", "app", 5, 6)
			p.all(present, 7)
		}, want{Kind: memory.Kept}},
		{"4.8 late: absent at first, there by the deadline", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(absent, 3)
			p.all(present, 8)
		}, want{Kind: memory.Late}},
		{"4.8 a cache that was empty at first is not late", nil, func(p *tape) {
			p.tell(1, 1)
			p.read("redis", absent, 3)
			p.all(present, 8)
		}, want{Kind: memory.Kept}},
		{"4.9 kept", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
		}, want{Kind: memory.Kept}},
		{"4.9 only the views in which it is due count", []memory.Contract{store("db"), store("vec")}, func(p *tape) {
			p.add(fact.Begun{Memory: memory.Memory{ID: 1, User: "ann", Views: []string{"db"}}, At: p.at(1)})
			p.settle(1, memory.Acknowledged, 2)
			p.read("db", present, 3)
			p.read("vec", absent, 20, 40)
		}, want{Kind: memory.Kept}},

		// §4 The defects.
		{"4 leaked, whatever the outcome", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Rejected, 2)
			o := obs(1, absent)
			o.Strangers = []string{"bob"}
			p.add(p.swept("db", 3, o))
		}, want{Kind: memory.Indeterminate, Defects: defects(memory.Leaked)}},
		{"4 leaked masks nothing", nil, func(p *tape) {
			p.tell(1, 1)
			o := obs(1, present)
			o.Strangers = []string{"bob"}
			p.add(p.swept("db", 3, o))
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: memory.FaultNone, Service: "db", Level: "settled", Defects: defects(memory.Leaked)}},
		{"4 duplicated", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			o := obs(1, present)
			o.Copies = 2
			p.add(p.swept("db", 5, o))
		}, want{Kind: memory.Kept, Defects: defects(memory.Duplicated)}},
		{"4 duplicated: as many as the contract says is right", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, Copies: 2}}, func(p *tape) {
			p.tell(1, 1)
			o := obs(1, present)
			o.Copies = 2
			p.add(p.swept("db", 5, o))
		}, want{Kind: memory.Kept}},
		{"4 duplicated: acknowledged only", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2)
			o := obs(1, present)
			o.Copies = 2
			p.add(p.swept("db", 5, o))
		}, want{Kind: memory.Indeterminate}},
		{"4 altered: acknowledged only", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2)
			p.read("db", altered, 5)
		}, want{Kind: memory.Indeterminate}},
		{"4 outlived: never expires", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second}}, func(p *tape) {
			p.tell(1, 1)
			o := obs(1, present)
			o.TTL = -1
			p.add(p.swept("db", 5, o))
		}, want{Kind: memory.Kept, Defects: defects(memory.Outlived)}},
		{"4 outlived: a remaining TTL that is too long", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second, Slack: time.Second}}, func(p *tape) {
			p.tell(1, 1)
			o := obs(1, present)
			o.TTL = 101_001
			p.add(p.swept("db", 5, o))
		}, want{Kind: memory.Kept, Defects: defects(memory.Outlived)}},
		{"4 outlived: there after it is over", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second}}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 5, 106)
		}, want{Kind: memory.Released, Defects: defects(memory.Outlived)}},
		{"4 outlived: not while it may have landed late", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second}}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 5, 105)
		}, want{Kind: memory.Released}},
		{"4 outlived: not when a later write renewed it", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second, TTLFrom: memory.TTLFromLastWrite}}, func(p *tape) {
			p.tell(1, 1)
			p.tell(2, 60)
			p.read("db", present, 5, 150)
		}, want{Kind: memory.Kept}},
		{"4 a TTL that holds is no defect", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second}}, func(p *tape) {
			p.tell(1, 1)
			o := obs(1, present)
			o.TTL = 96_900
			p.add(p.swept("db", 5, o))
			p.read("db", absent, 110, 130)
		}, want{Kind: memory.Released}},
		{"4 expired_early: a remaining TTL that is too short", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second, Slack: time.Second}}, func(p *tape) {
			p.tell(1, 1)
			o := obs(1, present)
			o.TTL = 90_000
			p.add(p.swept("db", 5, o))
		}, want{Kind: memory.Kept, Defects: defects(memory.ExpiredEarly)}},
		{"4 expired_early: never refreshed by the later write", []memory.Contract{{View: "redis", Service: "redis", Settle: settle, TTL: 100 * time.Second, Slack: time.Second, TTLFrom: memory.TTLFromLastWrite}}, func(p *tape) {
			p.tell(1, 1)
			p.tell(2, 50)
			o := obs(1, present)
			o.TTL = 31_000
			p.add(p.swept("redis", 70, o))
		}, want{Kind: memory.Kept, Defects: defects(memory.ExpiredEarly)}},
		{"4 expired_early: a cache that had said it would stay longer", []memory.Contract{store("db"), {View: "redis", Service: "redis", Settle: settle, TTL: 100 * time.Second}}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 5)
			o := obs(1, present)
			o.TTL = 98_000
			p.add(p.swept("redis", 5, o))
			p.read("redis", absent, 30, 50)
		}, want{Kind: memory.Kept, Defects: defects(memory.ExpiredEarly)}},
		{"4 expired_early: not when a fault took the cache", []memory.Contract{store("db"), {View: "redis", Service: "redis", Settle: settle, TTL: 100 * time.Second}}, func(p *tape) {
			p.tell(1, 1)
			o := obs(1, present)
			o.TTL = 98_000
			p.add(p.swept("redis", 5, o))
			p.fault(1, "kill", "redis", 10, 11)
			p.read("db", present, 20)
			p.read("redis", absent, 30, 50)
		}, want{Kind: memory.Kept}},
		{"4 resurfaced: there after an acknowledged forget", nil, func(p *tape) {
			p.tell(1, 1)
			p.forget(1, 5, memory.Acknowledged)
			p.all(absent, 20)
			p.read("db", present, 30)
		}, want{Kind: memory.Released, Defects: defects(memory.Resurfaced)}},
		{"4 resurfaced: not after a forget that was not acknowledged", nil, func(p *tape) {
			p.tell(1, 1)
			p.forget(1, 5, memory.Unknown)
			p.all(absent, 20)
			p.read("db", present, 30)
		}, want{Kind: memory.Released}},
		{"4 resurfaced: back after a confirmed loss", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(absent, 20, 40)
			p.all(present, 50)
		}, want{Kind: memory.Kept, Defects: defects(memory.Resurfaced)}},
		{"4 resurfaced: an answer that failed once is not", append(stack(), look("answer")), func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.read("answer", absent, 20, 40)
			p.read("answer", present, 50)
		}, want{Kind: memory.Kept}},

		// §5 The class.
		{"5 reported by the page", nil, func(p *tape) {
			p.tell(1, 1)
			p.add(fact.Told{Memory: 1, By: "page", At: p.at(5)})
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Reported, Fault: memory.FaultNone, Service: "db", Level: "settled"}},
		{"5 reported by an error line with its token", nil, func(p *tape) {
			p.tell(1, 1)
			p.add(fact.Log{Service: "app", Level: "error", Memory: 1, At: p.at(5)})
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Reported, Fault: memory.FaultNone, Service: "db", Level: "settled"}},
		{"5 a line below error reports nothing", nil, func(p *tape) {
			p.tell(1, 1)
			p.add(fact.Log{Service: "app", Level: "warn", Memory: 1, At: p.at(5)})
			p.all(absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"5 an unrelated error excuses nothing", nil, func(p *tape) {
			p.tell(1, 1)
			p.tell(2, 1)
			p.add(fact.Log{Service: "app", Level: "error", At: p.at(5)})
			p.add(fact.Told{Memory: 2, By: "page", At: p.at(5)})
			p.all(absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"5 told before the acknowledgement reports nothing", nil, func(p *tape) {
			p.begin(1, 1)
			p.add(fact.Told{Memory: 1, By: "page", At: p.at(1.5)})
			p.settle(1, memory.Acknowledged, 2, p.level("settled", 2))
			p.all(absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"5 told after the detection reports nothing", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(absent, 20, 40)
			p.add(fact.Told{Memory: 1, By: "page", At: p.at(41)})
		}, silent(memory.Lost, "db")},
		{"5 refused after the level that counts is reported", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Rejected, 3, p.level("settled", 2))
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Reported, Fault: memory.FaultNone, Service: "db", Level: "settled"}},
		{"5 permitted inside may_lose", []memory.Contract{lossy(time.Second, "power_cut")}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "power_cut", "db", 3, 4)
			p.read("db", absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Permitted, Fault: "power_cut", Service: "db", Level: "settled"}},
		{"5 not permitted: acknowledged longer before the fault than the window", []memory.Contract{lossy(time.Second, "power_cut")}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "power_cut", "db", 3.01, 4)
			p.read("db", absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: "power_cut", Service: "db", Level: "settled"}},
		{"5 not permitted: another kind", []memory.Contract{lossy(time.Second, "power_cut")}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "db", 2.5, 4)
			p.read("db", absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "db", Level: "settled"}},
		{"5 not permitted: another service", []memory.Contract{lossy(time.Second, "power_cut")}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "power_cut", "app", 2.5, 4)
			p.read("db", absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: "power_cut", Service: "app", Level: "settled"}},
		{"5 not permitted: acknowledged after the fault had struck", []memory.Contract{lossy(time.Second, "power_cut")}, func(p *tape) {
			p.begin(1, 1)
			p.fault(1, "power_cut", "db", 1.2, 0)
			p.settle(1, memory.Acknowledged, 2, p.level("settled", 2))
			p.add(fact.Step{Injection: 1, Name: fact.StepRecovered, At: p.at(4)})
			p.read("db", absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: "power_cut", Service: "db", Level: "settled", During: true}},
		{"5 not permitted: another store that promises more misses it too", []memory.Contract{lossy(time.Second, "power_cut"), store("vec")}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "power_cut", "db", 3, 4)
			p.read("db", absent, 20, 40)
			p.read("vec", absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: "power_cut", Service: "db", Level: "settled"}},
		{"5 permitted: the page follows the stores", []memory.Contract{lossy(time.Second, "power_cut"), look("page")}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "power_cut", "db", 3, 4)
			p.read("db", absent, 20, 40)
			p.read("page", absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Permitted, Fault: "power_cut", Service: "db", Level: "settled"}},
		{"5 unsure: hidden in the answer alone", append(stack(), look("answer")), func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.read("answer", absent, 20, 40)
		}, want{Kind: memory.Hidden, Class: memory.Unsure, Fault: memory.FaultNone, Service: "app", Level: "settled"}},
		{"5 not unsure: hidden on the page too", append(stack(), look("answer")), func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.read("answer", absent, 20, 40)
			p.read("page", absent, 20, 40)
		}, silent(memory.Hidden, "app")},

		// §6 The cause.
		{"6 one fault after the acknowledgement", nil, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "app", Level: "settled"}},
		{"6 during: the fault fired before the acknowledgement", nil, func(p *tape) {
			p.begin(1, 1)
			p.fault(1, "pause", "db", 1.5, 5)
			p.settle(1, memory.Acknowledged, 2, p.level("settled", 2))
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: "pause", Service: "db", Level: "settled", During: true}},
		{"6 a fault that was over before the write began is no suspect", nil, func(p *tape) {
			p.fault(1, "kill", "app", 1, 2)
			p.tell(1, 3)
			p.all(absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"6 a fault that was over before the last presence is no suspect", nil, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.all(present, 5)
			p.all(absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"6 a fault after the first absence is no suspect", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.all(absent, 5)
			p.fault(1, "kill", "app", 6, 7)
			p.all(absent, 20)
		}, silent(memory.Lost, "db")},
		{"6 never seen: an absence before the deadline may only have been late", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(absent, 3)
			p.fault(1, "kill", "app", 4, 5)
			p.all(absent, 20)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "app", Level: "settled"}},
		{"6 several", nil, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.fault(2, "kill", "db", 5, 6)
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: memory.FaultSeveral, Service: "app+db", Level: "settled"}},
		{"6 foreign", nil, func(p *tape) {
			p.tell(1, 1)
			p.add(fact.Death{Service: "db", Cause: "oom", NotBefore: p.at(3), At: p.at(3), Healthy: p.at(4)})
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: memory.FaultForeign, Service: "db", Level: "settled"}},
		{"6 foreign: an identity that changed between two gates", nil, func(p *tape) {
			p.add(fact.Gate{Cycle: 1, Services: []fact.Health{*p.health("db", "a", 0.5, true)}, At: p.at(0.5)})
			p.tell(1, 1)
			p.add(fact.Gate{Cycle: 2, Services: []fact.Health{*p.health("db", "b", 5, true)}, At: p.at(5)})
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: memory.FaultForeign, Service: "db", Level: "settled"}},
		{"6 not foreign: a change that an injection explains", nil, func(p *tape) {
			p.add(fact.Gate{Cycle: 1, Services: []fact.Health{*p.health("db", "a", 0.5, true)}, At: p.at(0.5)})
			p.tell(1, 1)
			p.fault(1, "kill", "db", 3, 4)
			p.add(fact.Gate{Cycle: 2, Services: []fact.Health{*p.health("db", "b", 5, true)}, At: p.at(5)})
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "db", Level: "settled"}},
		{"6 foreign and ours are several", nil, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.add(fact.Death{Service: "db", Cause: "oom", NotBefore: p.at(3), At: p.at(3), Healthy: p.at(4)})
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: memory.FaultSeveral, Service: "app+db", Level: "settled"}},
		{"6 a dry run is no suspect", nil, func(p *tape) {
			p.tell(1, 1)
			inj := fact.Injection{ID: 1, Cycle: 1, Kind: "kill", Service: "app", DryRun: true}
			p.add(fact.Step{Injection: 1, Name: fact.StepPlanned, Plan: &inj, At: p.at(3)})
			p.add(fact.Step{Injection: 1, Name: fact.StepFiring, Plan: &inj, At: p.at(3)})
			p.add(fact.Step{Injection: 1, Name: fact.StepClosed, At: p.at(3)})
			p.all(absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"6 a loss in two views has the suspects of both", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 2.5)
			p.fault(1, "kill", "vec", 3, 4)
			p.read("vec", absent, 5, 20)
			for _, view := range []string{"db", "redis", "page"} {
				p.read(view, present, 20)
			}
			p.fault(2, "wipe", "db", 30, 31)
			p.all(absent, 42, 44)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: memory.FaultSeveral, Service: "db+vec", Level: "settled"}},

		// §8 Clocks.
		{"8 a rule that spans a reboot yields unverified", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.boot = "boot-2"
			p.read("db", absent, 100, 200)
		}, want{Kind: memory.Unverified}},
		{"8 after the reboot a recovery gives a base again", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.boot = "boot-2"
			p.fault(1, "kill", "db", 90, 91)
			p.read("db", absent, 100, 200)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "db", Level: "settled"}},
		{"4.7 unreadable is tried again, also where no clock tells of the deadline", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.add(fact.Gap{Of: "clock", From: p.at(5), To: p.at(6)})
			p.read("db", unreadable, 20)
		}, want{Kind: memory.Unverified, Open: true}},
		{"8 a rule that spans a clock gap yields unverified", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.add(fact.Gap{Of: "clock", From: p.at(5), To: p.at(6)})
			p.read("db", absent, 100, 200)
		}, want{Kind: memory.Unverified}},
		{"8 a gap in the logs is none in the clock", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.add(fact.Gap{Of: "logs", From: p.at(5), To: p.at(6)})
			p.read("db", absent, 100, 200)
		}, silent(memory.Lost, "db")},
		{"8 a TTL that spans a reboot is undecided", []memory.Contract{{View: "db", Service: "db", Durable: true, Settle: settle, TTL: 100 * time.Second}}, func(p *tape) {
			p.tell(1, 1)
			p.boot = "boot-2"
			p.fault(1, "kill", "db", 50, 51)
			p.read("db", absent, 70, 90)
		}, want{Kind: memory.Unverified}},
		{"8 presence needs no clock", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.boot = "boot-2"
			p.read("db", present, 100)
		}, want{Kind: memory.Kept}},
	})
}

func check(t *testing.T, clauses []clause) {
	for _, tt := range clauses {
		t.Run(tt.name, func(t *testing.T) {
			views := tt.views
			if views == nil {
				views = stack()
			}
			p := newTape(views...)
			tt.tape(p)
			v := p.verdict(t)
			if diff := cmp.Diff(tt.want, got(v)); diff != "" {
				t.Errorf("because: %s\n(-want +got):\n%s", v.Because, diff)
			}
			if v.Because == "" {
				t.Error("no reason is given")
			}
		})
	}
}

func lossy(window time.Duration, on ...string) memory.Contract {
	k := store("db")
	k.MayLose = &memory.MayLose{Window: window, On: on}
	return k
}
