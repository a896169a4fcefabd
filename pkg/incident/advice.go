package incident

import (
	"slices"
	"strings"

	"amnesia/pkg/memory"
)

// Advice says what usually causes what a verdict says, and what to do; the evidence may know better. A sentence for the
// loss, and one for each defect.
func Advice(v memory.Verdict) []string { return advice(v, false) }

// advice leaves out what is only a guess at the cause where what was found of the services explains the loss.
func advice(v memory.Verdict, explained bool) (all []string) {
	if v.Kind.Loss() && !(explained && guessed(v)) {
		all = append(all, lossAdvice(v))
	}
	for _, d := range v.Defects {
		all = append(all, defectAdvice[d])
	}
	return all
}

// guessed: all that is known is that a fault took what had been acknowledged. The store may have confirmed it, and lost it.
func guessed(v memory.Verdict) bool {
	if v.Kind == memory.Hidden {
		return false
	}
	return !slices.Contains([]string{memory.FaultForeign, memory.FaultNone, "wipe", "recreate", "pause", "partition"}, v.Fault)
}

func lossAdvice(v memory.Verdict) string {
	gone := list(stores(v.Missing))
	switch {
	case v.Kind == memory.Hidden:
		return "A store has it and the user cannot see it: look at the cache, the index or the query between " + list(v.Found) + " and " + gone +
			" — fix: have it refreshed or built anew after a restart of " + v.Service
	case v.Fault == memory.FaultForeign:
		return "Something else ended " + v.Service + " — fix: see the engine's events for who did (out of memory, a deploy, a person), and make the write to " + gone + " durable before it is acknowledged"
	case v.Fault == memory.FaultNone:
		return "No fault explains it — fix: look in " + gone + " for eviction, a time to live, a cut of old messages, or a write that failed without a word"
	case v.Kind == memory.Torn:
		return list(v.Found) + " got it and " + gone + " did not — fix: write both in one transaction, or through an outbox that is tried again after a crash, before it is acknowledged"
	}
	switch v.Fault {
	case "wipe", "recreate":
		return "What " + v.Service + " keeps does not outlive it — fix: give it a named volume where it writes, or keep memories in a store that has one"
	case "pause", "partition":
		return "It was acknowledged although " + v.Service + " could not be reached — fix: acknowledge when the write has been confirmed, and tell the user when it has not"
	}
	return "It was acknowledged before it was safe in " + gone + " — fix: acknowledge when every store has confirmed the write, and have stores write through to disk"
}

var defectAdvice = map[memory.Defect]string{
	memory.Leaked:       "Another user was shown it — fix: filter every query and every cache key by user",
	memory.AlteredText:  "Its text was changed — fix: look for a cut to a length, a character set, or escaping done twice",
	memory.Duplicated:   "It was stored more than once — fix: give each message a key, so that a repeated write does nothing",
	memory.ExpiredEarly: "It went before its time to live was over — fix: compare the store's time to live with the contract, and look for eviction",
	memory.Outlived:     "It is there beyond its time to live — fix: set the expiry with the write, in one command",
	memory.Resurfaced:   "It came back after it was gone — fix: delete it from caches, replicas and queues too, and look for a stale one that was served",
}

// stores leaves out what users look at, where a store is named too.
func stores(views []string) []string {
	some := slices.DeleteFunc(slices.Clone(views), func(name string) bool { return name == "page" || name == "answer" })
	if len(some) == 0 {
		return views
	}
	return some
}

func list(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
