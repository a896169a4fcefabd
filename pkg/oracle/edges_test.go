package oracle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"amnesia/pkg/fact"
	"amnesia/pkg/memory"
)

// under gives a store with one more promise or excuse.
func under(change func(k *memory.Contract)) memory.Contract {
	k := store("db")
	change(&k)
	return k
}

func lasting(ttl, slack time.Duration, from memory.TTLFrom) memory.Contract {
	return under(func(k *memory.Contract) { k.TTL, k.Slack, k.TTLFrom = ttl, slack, from })
}

func keeping(n int, unit string) memory.Contract {
	return under(func(k *memory.Contract) { k.KeepLast, k.KeepUnit = n, unit })
}

func left(ttl int64) memory.Observation {
	o := obs(1, present)
	o.TTL = ttl
	return o
}

// promise sets where a loss counts from.
func (p *tape) promise(countsFrom string) {
	p.add(fact.Contracts{Version: 2, Contracts: stack(), Levels: []string{"shown", "settled"}, CountsFrom: countsFrom, At: p.at(0)})
}

// is reads who runs a service.
func (p *tape) is(service string, at float64, who ...fact.Instance) {
	p.add(fact.Gate{Cycle: 1, Services: []fact.Health{{Service: service, Healthy: true, Instances: who, At: p.at(at)}}, At: p.at(at)})
}

func (p *tape) recovered(at float64) {
	p.add(fact.Step{Injection: 1, Name: fact.StepRecovered, At: p.at(at)})
}

// struck is a loss of everything to one fault, in silence.
func struck(kind memory.Kind, fault, service string) want {
	return want{Kind: kind, Class: memory.Silent, Fault: fault, Service: service, Level: "settled"}
}

// TestEdges has examples of where a clause begins and ends, and of what it does not say.
func TestEdges(t *testing.T) {
	const hundred = 100 * time.Second
	unverified := want{Kind: memory.Unverified, Open: true}
	check(t, []clause{
		// §1 The write.
		{"1 a level after counts_from counts too", nil, func(p *tape) {
			p.promise("shown")
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2, p.level("settled", 2))
			p.all(absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"1 counts_from is the last level by default", nil, func(p *tape) {
			p.promise("")
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2, p.level("shown", 2))
			p.all(absent, 20, 40)
		}, want{Kind: memory.Indeterminate}},
		{"1 the outcome is recorded once", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2)
			p.settle(1, memory.Acknowledged, 3, p.level("settled", 3))
			p.all(absent, 20, 40)
		}, want{Kind: memory.Indeterminate}},
		{"1 observed: a read that began before it says nothing", []memory.Contract{store("db"), look("page")}, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Unknown, 2)
			p.read("page", present, 50)
			f := p.swept("db", 49, obs(1, absent))
			f.Ended = p.at(60)
			p.add(f)
			p.read("db", absent, 70)
		}, unverified},
		{"1 a deletion that never settled is unknown", nil, func(p *tape) {
			p.tell(1, 1)
			p.forget(1, 5, "")
			p.add(fact.Run{ID: "second", At: p.at(10)})
			p.all(present, 30)
		}, want{Kind: memory.Released}},
		{"1 a rejected deletion promises nothing", nil, func(p *tape) {
			p.tell(1, 1)
			p.forget(1, 5, memory.Rejected)
			p.all(present, 30)
		}, want{Kind: memory.Released}},

		// §2 The observation.
		{"2 absent while the write is in flight says nothing, later too", []memory.Contract{store("db"), store("vec")}, func(p *tape) {
			p.begin(1, 1)
			p.read("db", absent, 1.5)
			p.settle(1, memory.Acknowledged, 2, p.level("settled", 2))
			p.read("vec", absent, 20, 40)
			p.read("db", present, 45) // as far as is known it was there all the time
		}, silent(memory.Torn, "vec")},
		{"2 one more instance after proves no absence", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			f := p.swept("db", 20, obs(1, absent))
			f.Before, f.After = p.health("db", "a", 20, true), p.health("db", "a", 20.1, true)
			f.After.Instances = append(f.After.Instances, fact.Instance{ID: "b"})
			p.add(f)
			p.read("db", absent, 40)
		}, unverified},
		{"2 a reading has a begin and an end of its own", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			o := obs(1, absent)
			o.Began, o.Ended = p.at(20), p.at(21)
			f := p.swept("db", 1.5, o)
			f.Ended = p.at(30)
			p.add(f)
			p.read("db", absent, 40)
		}, silent(memory.Lost, "db")},

		// §3 The contract.
		{"3 service: the view's name by default", []memory.Contract{under(func(k *memory.Contract) { k.Service = "" })}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"3 a cache that was empty and cannot be read now is not excused", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.read("redis", absent, 20)
			p.read("redis", unreadable, 30)
		}, unverified},
		{"3 ttl_slack: it may say that it goes that much sooner", []memory.Contract{lasting(hundred, 20*time.Second, "")}, func(p *tape) {
			p.tell(1, 1)
			p.add(p.swept("db", 5, left(85_000)))
		}, want{Kind: memory.Kept}},
		{"3 ttl_slack: it may say that it stays that much longer", []memory.Contract{lasting(hundred, 20*time.Second, "")}, func(p *tape) {
			p.tell(1, 1)
			p.add(p.swept("db", 5, left(110_000)))
		}, want{Kind: memory.Kept}},
		{"3 ttl_slack: it may stay that much longer", []memory.Contract{lasting(hundred, 20*time.Second, "")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 5, 110)
		}, want{Kind: memory.Released}},
		{"3 last_write: a write that may have landed after the expiry renews nothing", []memory.Contract{lasting(hundred, 0, memory.TTLFromLastWrite)}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 3)
			p.tell(2, 94)
			p.read("db", absent, 110, 120)
		}, want{Kind: memory.Released}},
		{"3 last_write: the remaining TTL that was read promises nothing", []memory.Contract{lasting(hundred, 0, memory.TTLFromLastWrite)}, func(p *tape) {
			p.tell(1, 1)
			p.add(p.swept("db", 90, left(99_000)))
			p.read("db", absent, 110, 130)
		}, want{Kind: memory.Released}},
		{"3 keep_last: a write acknowledged and then rejected may be there", []memory.Contract{keeping(1, "")}, func(p *tape) {
			p.tell(1, 1)
			p.begin(2, 5)
			p.settle(2, memory.Rejected, 7, p.level("settled", 6))
			p.read("db", absent, 20, 40)
		}, want{Kind: memory.Released}},
		{"3 keep_last: another user's writes push nothing out", []memory.Contract{keeping(1, "")}, func(p *tape) {
			p.tell(1, 1)
			p.add(fact.Begun{Memory: memory.Memory{ID: 2, User: "bob", Cycle: 1}, At: p.at(5)})
			p.settle(2, memory.Acknowledged, 6)
			p.read("db", absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"3 keep_unit message: questions of before push nothing out", []memory.Contract{keeping(6, "message"), look("answer")}, func(p *tape) {
			p.tell(2, 1)
			p.add(p.swept("answer", 5, obs(2, present)))
			p.tell(1, 10)
			p.read("db", absent, 30, 50)
		}, silent(memory.Lost, "db")},
		{"3 a deletion is looked at until its settle is over", nil, func(p *tape) {
			p.tell(1, 1)
			p.forget(1, 5, memory.Acknowledged)
			p.all(absent, 8)
		}, want{Kind: memory.Released, Open: true}},
		{"3 settle counts from the acknowledgement, not from the write", nil, func(p *tape) {
			p.begin(1, 1)
			p.settle(1, memory.Acknowledged, 30, p.level("settled", 30))
			p.all(absent, 31, 35)
		}, unverified},
		{"3 presence is stale while the service is dead", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 3)
			p.add(fact.Death{Service: "db", Cause: "oom", NotBefore: p.at(5), At: p.at(5)})
		}, unverified},
		{"3 two readings at one time are one", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			for _, at := range []float64{20, 25} {
				f := p.swept("db", at, obs(1, absent))
				f.Ended = p.at(at + 10)
				p.add(f)
			}
		}, unverified},
		{"3 an absent read before a presence and one after it are not two", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 20)
			p.read("db", present, 25)
			p.read("db", absent, 40)
		}, unverified},
		{"3 a wipe of the only store excuses nothing", []memory.Contract{lossy(time.Hour, "kill")}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "wipe", "db", 3, 4)
			p.read("db", absent, 20, 40)
		}, struck(memory.Lost, "wipe", "db")},

		// §4 The verdicts.
		{"4.3 volatile although a cache is unread", nil, func(p *tape) {
			p.tell(1, 1)
			p.read("page", present, 20)
			p.read("db", absent, 20, 40)
			p.read("vec", absent, 20, 40)
		}, want{Kind: memory.Volatile, Open: true}},
		{"4.4 lost although a cache is unread", nil, func(p *tape) {
			p.tell(1, 1)
			for _, view := range []string{"db", "vec", "page"} {
				p.read(view, absent, 20, 40)
			}
		}, open(silent(memory.Lost, "db"))},
		{"4.4 not lost without a page while a cache is unread", []memory.Contract{store("db"), cache("redis")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 20, 40)
		}, unverified},
		{"4.4 not lost without a store while a cache is unread", []memory.Contract{cache("redis"), look("page")}, func(p *tape) {
			p.tell(1, 1)
			p.read("page", absent, 20, 40)
		}, unverified},
		{"4.6 hidden: a cache has it", []memory.Contract{cache("redis"), look("page")}, func(p *tape) {
			p.tell(1, 1)
			p.read("redis", present, 20)
			p.read("page", absent, 20, 40)
		}, silent(memory.Hidden, "app")},
		{"4.5 not torn while the other store is unread", nil, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 20, 40)
		}, unverified},
		{"4.5 torn: the other store was never without it", []memory.Contract{store("db"), store("vec")}, func(p *tape) {
			p.tell(1, 1)
			p.read("vec", absent, 20, 40)
			p.read("db", present, 45)
		}, silent(memory.Torn, "vec")},
		{"4.5 torn: the other store is read again", []memory.Contract{store("db"), store("vec"), look("page")}, func(p *tape) {
			p.tell(1, 1)
			p.read("page", present, 13)
			p.read("db", absent, 13, 14)
			p.read("vec", absent, 13, 14)
			p.read("db", present, 15)
			p.read("vec", absent, 15.6)
			p.read("db", present, 16)
		}, silent(memory.Torn, "vec")},
		{"4.5 torn although the page is unread", nil, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 20)
			p.read("vec", absent, 20, 40)
		}, open(silent(memory.Torn, "vec"))},
		{"4.6 hidden although a cache is unread", nil, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 20)
			p.read("vec", present, 20)
			p.read("page", absent, 20, 40)
		}, open(silent(memory.Hidden, "app"))},
		{"4.6 not hidden when the store is unread", []memory.Contract{store("db"), look("answer")}, func(p *tape) {
			p.tell(1, 1)
			p.read("answer", absent, 20, 40)
		}, unverified},
		{"4.6 hidden: a store has it that need not any more", []memory.Contract{keeping(1, ""), look("page")}, func(p *tape) {
			p.tell(1, 1)
			p.tell(2, 3)
			p.read("db", present, 20)
			p.read("page", absent, 20, 40)
		}, silent(memory.Hidden, "app")},
		{"4.6 not hidden when a must store misses it", nil, func(p *tape) {
			p.tell(1, 1)
			p.read("redis", present, 20)
			p.read("vec", absent, 20, 40)
			p.read("page", absent, 20, 40)
		}, unverified},
		{"4.7 a loss does not stand when it is back where it was missed", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(present, 20)
			p.read("vec", absent, 30, 50)
			p.read("db", unreadable, 60)
			p.read("vec", present, 60)
		}, want{Kind: memory.Unverified, Open: true, Defects: defects(memory.Resurfaced)}},
		{"4.7 late in one view, unread in another", nil, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 3)
			p.read("db", present, 8)
		}, unverified},
		{"4.8 late and then lost is lost", nil, func(p *tape) {
			p.tell(1, 1)
			p.all(absent, 3)
			p.all(present, 8)
			p.all(absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"4.8 late where it need not be any more is kept", []memory.Contract{keeping(1, ""), store("vec")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", absent, 3)
			p.read("db", present, 8)
			p.read("vec", present, 8)
			p.tell(2, 9)
		}, want{Kind: memory.Kept}},

		// §4 The defects.
		{"4 leaked in a view in which it is not due", []memory.Contract{store("db"), store("vec")}, func(p *tape) {
			p.add(fact.Begun{Memory: memory.Memory{ID: 1, User: "ann", Views: []string{"db"}}, At: p.at(1)})
			p.settle(1, memory.Acknowledged, 2)
			p.read("db", present, 3)
			o := obs(1, absent)
			o.Strangers = []string{"bob"}
			p.add(p.swept("vec", 3, o))
		}, want{Kind: memory.Kept, Defects: defects(memory.Leaked)}},
		{"4 altered: an answer may say it in other words", append(stack(), look("answer")), func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.read("answer", altered, 4)
		}, want{Kind: memory.Kept}},
		{"4 duplicated: an answer may say it twice", append(stack(), look("answer")), func(p *tape) {
			p.tell(1, 1)
			p.all(present, 3)
			p.add(p.swept("answer", 4, copies(1, 2)))
		}, want{Kind: memory.Kept}},
		{"4 duplicated: not before the acknowledgement", []memory.Contract{store("db")}, func(p *tape) {
			p.begin(1, 1)
			p.add(p.swept("db", 1.5, copies(1, 2)))
			p.settle(1, memory.Acknowledged, 2, p.level("settled", 2))
			p.read("db", present, 5)
		}, want{Kind: memory.Kept}},
		{"4 expired_early: not when a fault took it", []memory.Contract{lasting(hundred, 0, "")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 3)
			p.fault(1, "kill", "db", 5, 6)
			p.read("db", absent, 30, 50)
		}, struck(memory.Lost, "kill", "db")},
		{"4 expired_early: not when a later write of the user may have emptied the cache",
			[]memory.Contract{store("db"), {View: "redis", Service: "redis", Settle: settle, TTL: hundred}}, func(p *tape) {
				p.tell(1, 1)
				p.read("db", present, 5)
				p.add(p.swept("redis", 5, left(98_000)))
				p.tell(2, 10)
				p.read("redis", absent, 30, 50)
			}, want{Kind: memory.Kept}},
		{"4 outlived: not while a later write is in flight", []memory.Contract{lasting(hundred, 0, memory.TTLFromLastWrite)}, func(p *tape) {
			p.tell(1, 1)
			p.begin(2, 60)
			p.read("db", present, 5, 150)
		}, want{Kind: memory.Released}},

		// §5 The class.
		{"5 reported by a line worse than error", nil, func(p *tape) {
			p.tell(1, 1)
			p.add(fact.Log{Service: "app", Level: "fatal", Memory: 1, At: p.at(5)})
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Reported, Fault: memory.FaultNone, Service: "db", Level: "settled"}},
		{"5 told while it was being acknowledged is reported", nil, func(p *tape) {
			p.tell(1, 1)
			p.add(fact.Told{Memory: 1, By: "page", At: p.at(1.95)})
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Reported, Fault: memory.FaultNone, Service: "db", Level: "settled"}},
		{"5 not permitted: hidden", []memory.Contract{store("db"), losing(look("page"))}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.read("db", present, 20)
			p.read("page", absent, 20, 40)
		}, struck(memory.Hidden, "kill", "app")},
		{"5 permitted: the page, where there is no store", []memory.Contract{losing(look("page"))}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.read("page", absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Permitted, Fault: "kill", Service: "app", Level: "settled"}},
		{"5 not permitted: the fault is no suspect", []memory.Contract{lossy(time.Second, "power_cut")}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "power_cut", "db", 2.5, 3)
			p.read("db", present, 5)
			p.read("db", absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"5 permitted: it may have been acknowledged before the fault had struck", []memory.Contract{lossy(time.Second, "power_cut")}, func(p *tape) {
			p.begin(1, 1)
			p.fault(1, "power_cut", "db", 1.85, 0)
			p.settle(1, memory.Acknowledged, 2, p.level("settled", 2))
			p.recovered(4)
			p.read("db", absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Permitted, Fault: "power_cut", Service: "db", Level: "settled", During: true}},

		// §6 The cause.
		{"6 a fault is a suspect until the target is healthy", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "pause", "app", 3, 0)
			p.read("db", present, 4)
			p.recovered(5)
			p.read("db", absent, 20, 40)
		}, struck(memory.Lost, "pause", "app")},
		{"6 a fault from which the target never came back is a suspect", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 0)
			p.add(fact.Step{Injection: 1, Name: fact.StepFailed, Detail: "deadline", At: p.at(6)})
			p.add(fact.Step{Injection: 1, Name: fact.StepReverted, At: p.at(6)})
			p.read("db", present, 8)
			p.read("db", absent, 20, 40)
		}, struck(memory.Lost, "kill", "app")},
		{"6 a fault that came and went while the write was in flight", nil, func(p *tape) {
			p.begin(1, 1)
			p.fault(1, "kill", "app", 1.2, 1.8)
			p.settle(1, memory.Acknowledged, 3, p.level("settled", 3))
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "app", Level: "settled", During: true}},
		{"6 a fault that was over when the last presence was read is no suspect", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 5)
			p.read("db", present, 5)
			p.read("db", absent, 20, 40)
		}, silent(memory.Lost, "db")},
		{"6 a fault at the end of the first absence is a suspect", []memory.Contract{store("db")}, func(p *tape) {
			p.tell(1, 1)
			p.read("db", present, 3)
			f := p.swept("db", 20, obs(1, absent))
			f.Ended = p.at(21)
			p.add(f)
			p.fault(1, "kill", "app", 21, 22)
			p.read("db", absent, 40)
		}, struck(memory.Lost, "kill", "app")},
		{"6 during: the fault fired before the acknowledgement was sure", nil, func(p *tape) {
			p.begin(1, 1)
			p.fault(1, "kill", "app", 1.95, 0)
			p.settle(1, memory.Acknowledged, 2, p.level("settled", 2))
			p.recovered(4)
			p.all(absent, 20, 40)
		}, want{Kind: memory.Lost, Class: memory.Silent, Fault: "kill", Service: "app", Level: "settled", During: true}},
		{"6 foreign: another start time", nil, func(p *tape) {
			p.is("db", 0.5, fact.Instance{ID: "a", Started: "then"})
			p.tell(1, 1)
			p.is("db", 5, fact.Instance{ID: "a", Started: "later"})
			p.all(absent, 20, 40)
		}, struck(memory.Lost, memory.FaultForeign, "db")},
		{"6 foreign: another restart count", nil, func(p *tape) {
			p.is("db", 0.5, fact.Instance{ID: "a"})
			p.tell(1, 1)
			p.is("db", 5, fact.Instance{ID: "a", Restarts: 1})
			p.all(absent, 20, 40)
		}, struck(memory.Lost, memory.FaultForeign, "db")},
		{"6 foreign: a fault on another service explains no change", nil, func(p *tape) {
			p.is("db", 0.5, fact.Instance{ID: "a"})
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.is("db", 5, fact.Instance{ID: "b"})
			p.all(absent, 20, 40)
		}, struck(memory.Lost, memory.FaultSeveral, "app+db")},
		{"6 foreign: a fault that was over explains no later change", nil, func(p *tape) {
			p.fault(1, "kill", "db", 1, 2)
			p.is("db", 3, fact.Instance{ID: "b"})
			p.tell(1, 4)
			p.is("db", 8, fact.Instance{ID: "c"})
			p.all(absent, 30, 50)
		}, struck(memory.Lost, memory.FaultForeign, "db")},
		{"6 foreign: a death that is known explains the change", []memory.Contract{store("db")}, func(p *tape) {
			p.is("db", 0.5, fact.Instance{ID: "a"})
			p.tell(1, 1)
			p.add(fact.Death{Service: "db", Instance: fact.Instance{ID: "a"}, Cause: "oom", NotBefore: p.at(6), At: p.at(6), Healthy: p.at(8)})
			p.read("db", absent, 9)
			p.is("db", 16, fact.Instance{ID: "b"}) // no second death, from which settle would count anew
			p.read("db", absent, 19)
		}, struck(memory.Lost, memory.FaultForeign, "db")},
		{"6 a fault that an earlier cycle left open is over when the next begins", nil, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 0)
			p.phase(2, false, fact.PhaseTraffic, 10)
			p.all(absent, 21, 40)
		}, struck(memory.Lost, "kill", "app")},
	})
}

// losing excuses two seconds of a kill.
func losing(k memory.Contract) memory.Contract {
	k.MayLose = &memory.MayLose{Window: 2 * time.Second, On: []string{"kill"}}
	return k
}

func TestRecovered(t *testing.T) {
	for _, s := range []memory.State{present, absent} {
		p := newTape(stack()...)
		p.begin(1, 1)
		p.settle(1, memory.Unknown, 2)
		p.read("db", s, 20)
		if v := p.verdict(t); v.Recovered != (s == present) {
			t.Errorf("%s in a store: recovered %v", s, v.Recovered)
		}
	}
}

// A failure of the rig is not one of the target, though both leave the memory unreadable.
func TestRigFailuresStandApart(t *testing.T) {
	p := newTape(store("db"))
	p.tell(1, 1)
	p.read("db", unreadable, 3)
	o := obs(1, unreadable)
	o.Rig = true
	p.add(p.swept("db", 4, o))
	h, _ := p.book.History(1)
	if runs := h.Views[0].Runs; len(runs) != 2 || runs[0].Rig || !runs[1].Rig {
		t.Errorf("the story is %+v, want the target's failure and then the rig's", runs)
	}
}

func TestLatenessCountsFromTheRecovery(t *testing.T) {
	p := newTape(store("db"))
	p.tell(1, 1)
	p.fault(1, "kill", "db", 3, 5)
	p.read("db", absent, 6)
	p.read("db", present, 8)
	if v := p.verdict(t); v.Kind != memory.Late || v.Lateness != 3100*time.Millisecond {
		t.Errorf("%s after %s, want late after 3.1s", v.Kind, v.Lateness)
	}
}

// An exposure is measured to where the engine let the fault loose; a fault that was there before the acknowledgement has
// none, and enters no histogram.
func TestExposureNeedsTheAcknowledgementFirst(t *testing.T) {
	for _, tt := range []struct {
		fired float64
		want  []time.Duration
	}{{3.5, []time.Duration{300 * time.Millisecond}}, {3.1, nil}} {
		p := newTape(store("db"))
		p.begin(1, 1)
		inj := fact.Injection{ID: 1, Cycle: 1, Kind: "kill", Service: "app"}
		p.add(fact.Step{Injection: 1, Name: fact.StepPlanned, Plan: &inj, At: p.at(3)})
		p.add(fact.Step{Injection: 1, Name: fact.StepFiring, Plan: &inj, At: p.at(3)})
		p.settle(1, memory.Acknowledged, 3.2, p.level("settled", 3.2))
		p.add(fact.Step{Injection: 1, Name: fact.StepInjected, Fired: p.at(tt.fired), At: p.at(3.6)})
		p.recovered(4)
		p.read("db", absent, 20, 40)
		v := p.verdict(t)
		if v.During != (tt.want == nil) || (v.Exposure == nil) != (tt.want == nil) {
			t.Errorf("fired at %v: during %v, exposure %v", tt.fired, v.During, v.Exposure)
		}
		if diff := cmp.Diff(tt.want, p.book.Totals(p.at(41)).Exposures); diff != "" {
			t.Errorf("fired at %v: exposures (-want +got):\n%s", tt.fired, diff)
		}
	}
}

// What pages is counted once, whatever is read afterwards; what is permitted, unsure or only observed is told apart, and in
// no total and no exit code.
func TestWhatCounts(t *testing.T) {
	for _, tt := range []struct {
		name     string
		views    []memory.Contract
		tape     func(p *tape)
		class    memory.Class
		observed bool
		losses   int
	}{
		{"silent", stack(), func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.all(absent, 20, 40, 60)
		}, memory.Silent, false, 1},
		{"reported", stack(), func(p *tape) {
			p.tell(1, 1)
			p.add(fact.Told{Memory: 1, By: "page", At: p.at(2.5)})
			p.fault(1, "kill", "app", 3, 4)
			p.all(absent, 20, 40, 60)
		}, memory.Reported, false, 1},
		{"permitted", []memory.Contract{losing(store("db"))}, func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "db", 3, 4)
			p.read("db", absent, 20, 40)
		}, memory.Permitted, false, 0},
		{"unsure", append(stack(), look("answer")), func(p *tape) {
			p.tell(1, 1)
			p.fault(1, "kill", "app", 3, 4)
			p.all(present, 20)
			p.read("answer", absent, 20, 40)
		}, memory.Unsure, false, 0},
		{"observed", stack(), func(p *tape) {
			p.tell(2, 0.2)
			p.begin(1, 1)
			p.settle(1, memory.Rejected, 2)
			p.all(present, 2.5)
			p.fault(1, "kill", "app", 3, 4)
			p.all(absent, 20, 40)
			for _, view := range []string{"db", "vec", "redis", "page"} {
				p.add(p.swept(view, 41, obs(2, present)))
			}
		}, memory.Silent, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newTape(tt.views...)
			p.phase(1, false, fact.PhaseTraffic, 0.1)
			p.gate(1, 0.15, true)
			tt.tape(p)
			p.phase(1, false, fact.PhaseSettle, 70)
			r := p.book.Cycle(1, p.at(71))
			p.add(fact.Cycle{N: 1, Phase: fact.PhaseClosed, Outcome: r.Outcome, At: p.at(71)})
			outcome := fact.CycleClean
			if tt.losses > 0 {
				outcome = fact.CycleLosses
			}
			all := p.book.Totals(p.at(72))
			if r.Losses != tt.losses || r.Outcome != outcome || all.Outcome != outcome {
				t.Errorf("%d losses, %s (%s), in all %s; want %d, %s", r.Losses, r.Outcome, r.Reason, all.Outcome, tt.losses, outcome)
			}
			apart, counted := map[memory.Class]int{}, map[memory.Class]int{tt.class: 1}
			if tt.observed {
				apart, counted = counted, apart
			}
			if diff := cmp.Diff([2]map[memory.Class]int{counted, apart}, [2]map[memory.Class]int{all.Losses, all.Observed}); diff != "" {
				t.Errorf("losses and observed (-want +got):\n%s", diff)
			}
		})
	}
}

// told begins a memory of a cycle, with its acknowledgement a second later, and has a store show it in so many copies.
func (p *tape) told(id memory.ID, cycle int, at float64, n int) {
	p.add(fact.Begun{Memory: memory.Memory{ID: id, User: "ann", Cycle: cycle}, At: p.at(at)})
	p.settle(id, memory.Acknowledged, at+1)
	f := p.swept("db", at+2, copies(id, n))
	f.Cycle = cycle
	p.add(f)
}

// Only the first control that told something calibrates: what a later one shows twice is a defect.
func TestOneControlCalibrates(t *testing.T) {
	p := newTape(store("db"))
	p.phase(1, true, fact.PhaseTraffic, 1)
	p.phase(1, true, fact.PhaseClosed, 2)
	for n, c := range []struct {
		copies     int
		duplicated bool
	}{{2, false}, {3, true}} {
		id, at := memory.ID(n+1), float64(10*(n+1))
		p.phase(n+2, true, fact.PhaseTraffic, at)
		p.told(id, n+2, at+1, c.copies)
		p.phase(n+2, true, fact.PhaseClosed, at+5)
		if v, _ := p.book.Verdict(id, p.at(at+6)); (len(v.Defects) > 0) != c.duplicated {
			t.Errorf("%d copies in control %d: %v", c.copies, n+2, v.Defects)
		}
	}
	if got := p.book.Calibrated(); len(got) != 1 || got[0].Copies != 2 {
		t.Errorf("calibrated: %+v, want two copies", got)
	}
}

// What is misconfigured: a view that shows none at all, and was asked.
func TestMisconfigured(t *testing.T) {
	for _, tt := range []struct {
		name  string
		views []memory.Contract
		vec   [2]memory.State
		more  int // records of the user that vec goes through
		want  []string
	}{
		{"one that it shows is enough", []memory.Contract{store("db"), store("vec")}, [2]memory.State{present, absent}, 0, nil},
		{"none", []memory.Contract{store("db"), store("vec")}, [2]memory.State{absent, absent}, 0, []string{"vec"}},
		{"a store with as many records, none of them right", []memory.Contract{store("db"), store("vec")}, [2]memory.State{absent, absent}, 2, []string{"vec"}},
		{"an answer that was never asked for", []memory.Contract{store("db"), store("vec"), look("answer")}, [2]memory.State{present, present}, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newTape(tt.views...)
			p.phase(1, true, fact.PhaseTraffic, 0.1)
			p.tell(1, 1)
			p.tell(2, 1)
			p.add(p.swept("db", 20, obs(1, present), obs(2, present)))
			vec := p.swept("vec", 20, obs(1, tt.vec[0]), obs(2, tt.vec[1]))
			for i := range vec.Observations {
				vec.Observations[i].Records = tt.more
			}
			p.add(vec)
			p.phase(1, true, fact.PhaseClosed, 30)
			var got []string
			for _, v := range p.book.Misconfigured() {
				got = append(got, v.View)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
