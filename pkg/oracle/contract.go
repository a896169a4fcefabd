package oracle

import (
	"time"

	"amnesia/pkg/memory"
)

// demand is what a contract wants of a view at one moment.
type demand int

const (
	may       demand = iota // nothing: it may be there or not
	must                    // it must be there
	undecided               // it spans a reboot or a clock gap
)

// comparable reports whether a duration from a to b can be measured: one boot, and no gap of the clock after a.
func (c *Context) comparable(a, b memory.Instant) bool {
	return a.SameBoot(b) && (c.jump.IsZero() || !a.Before(c.jump))
}

// base is what a deadline counts from: the latest of from, the end of any injection, and the recovery from a foreign
// death of the service. waiting is true while one of these is still to come.
func (c *Context) base(from memory.Instant, k *contract) (at memory.Instant, waiting bool) {
	return memory.Later(memory.Later(from, c.over), k.by.over), c.open > 0 || k.by.down > 0
}

// deadlinePassed reports whether at lies after the deadline of a promise that began at from.
func (c *Context) deadlinePassed(k *contract, from, at memory.Instant) bool {
	base, waiting := c.base(from, k)
	return !waiting && c.comparable(base, at) && at.After(base.Add(k.Settle))
}

// demands gives what the contract k wants of the memory in the view v for the whole of a moment that ends at to.
func (c *Context) demands(h *History, k *contract, v *View, to memory.Instant) demand {
	if !h.acknowledged() || h.Forget != nil {
		return may
	}
	if k.KeepLast > 0 && c.trimmed(h, k) {
		return may
	}
	if k.TTL > 0 {
		from, until := c.earliestExpiry(h, k, v)
		if !c.comparable(from, to) {
			return undecided
		}
		if !to.Before(until) {
			return may
		}
	}
	return must
}

// questions is the most questions that one reading of the view answer may have put: a model may answer badly once, so
// the view asks up to three times.
const questions = 3

// trimmed reports whether enough of the user's later writes may have pushed the memory out of a view that keeps the
// newest KeepLast only. Writes in flight count as unknown ones do.
func (c *Context) trimmed(h *History, k *contract) bool {
	newer, each := 0, 1
	if k.KeepUnit == "message" {
		newer, each = 1, 2 // its own answer; then a message and an answer each
		if u := c.users[h.Memory.User]; u != nil {
			for i := len(u.asked) - 1; i >= 0 && u.asked[i].at.After(h.Begun) && newer < k.KeepLast; i-- {
				newer += 2 * questions * u.asked[i].n
			}
		}
	}
	later := c.later(h)
	for i := len(later) - 1; i >= 0 && newer < k.KeepLast; i-- {
		if later[i].outcome != memory.Rejected || !later[i].ack.IsZero() {
			newer += each
		}
	}
	return newer >= k.KeepLast
}

// earliestExpiry is the moment until which the memory must not have expired, and the one from which that was counted. A
// write happened no earlier than it began. A later write renews it when it is sure to have landed before the expiry,
// which is its acknowledgement and settle later. A key that slides with every access is, beyond that, judged by the
// remaining time that was read.
func (c *Context) earliestExpiry(h *History, k *contract, v *View) (from, until memory.Instant) {
	life := k.TTL - k.Slack
	from, until = h.Begun, h.Begun.Add(life)
	if !slides(k) {
		return from, until
	}
	for _, w := range c.later(h) {
		if !w.ack.IsZero() && w.ack.SameBoot(until) && !w.ack.Add(k.Settle).After(until) && w.began.Add(life).After(until) {
			from, until = w.began, w.began.Add(life)
		}
	}
	if end := v.TTLRead.Began.Add(v.TTL - k.Slack); k.TTLFrom == memory.TTLFromLastAccess && v.TTL > 0 && end.After(until) {
		from, until = v.TTLRead.Began, end
	}
	return from, until
}

// slides reports whether something later than a memory's own write moves its expiry.
func slides(k *contract) bool {
	return k.TTLFrom == memory.TTLFromLastWrite || k.TTLFrom == memory.TTLFromLastAccess
}

// later gives the writes of the same user that began after h's.
func (c *Context) later(h *History) []write {
	u := c.users[h.Memory.User]
	if u == nil || h.ord+1-u.dropped >= len(u.writes) {
		return nil
	}
	return u.writes[max(0, h.ord+1-u.dropped):]
}

// expiresEarly reports whether a record read with the remaining time ttl goes sooner than the contract allows. Only
// writes that are sure to have landed before the read count.
func (c *Context) expiresEarly(h *History, k *contract, ttl time.Duration, r Read) bool {
	began := h.Begun
	if slides(k) {
		for _, w := range c.later(h) {
			// A write that a fault may have taken renewed nothing that would still be there.
			if !w.ack.IsZero() && c.comparable(w.ack, r.Began) && w.ack.Add(k.Settle).Before(r.Began) && !c.met(window{w.began, r.Ended}) {
				began = memory.Later(began, w.began)
			}
		}
	}
	return c.comparable(began, r.Ended) && r.Ended.Add(ttl).Before(began.Add(k.TTL-k.Slack))
}

// outlived reports whether a record that was found by the read r should have gone by then. A remaining time decides
// alone: a cache may have been filled anew. Without one, the record had landed when it was first seen, and so must be
// gone a TTL (and slack) later, unless a later write renewed it.
func (c *Context) outlived(h *History, k *contract, v *View, ttl time.Duration, r Read) bool {
	switch {
	case ttl < 0:
		return true
	case ttl > 0:
		return ttl > k.TTL+k.Slack
	case k.TTLFrom == memory.TTLFromLastAccess || v.TTL != 0:
		return false
	}
	landed := v.HereSince.Ended
	if k.TTLFrom == memory.TTLFromLastWrite {
		for _, w := range c.later(h) {
			if w.outcome == "" {
				return false
			}
			landed = memory.Later(landed, memory.Later(w.ack, w.settled).Add(k.Settle))
		}
	}
	return c.comparable(landed, r.Began) && r.Began.After(landed.Add(k.TTL+k.Slack))
}
